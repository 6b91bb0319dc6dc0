package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// askingTwice is a plan that waits for a person twice.
const askingTwice = `version: 1
task: Ask twice
tasks:
  - id: only
    steps:
      - {id: one, write: {path: one.txt, content: "one\n"}}
      - {id: first, approve: "Go on?"}
      - {id: second, approve: "Go on to the end?"}
      - {id: two, run: "echo two"}
`

// Exit statuses.
const (
	exitApproval = 10
	exitForked   = 23
)

// wants runs acode and checks its exit status.
func (s site) wants(exit int, args ...string) string {
	s.t.Helper()
	got, said := s.run(args...)
	if got != exit {
		s.t.Fatalf("acode %s: exit %d, want %d: %s", strings.Join(args, " "), got, exit, said)
	}
	return said
}

// answer approves a session and resumes it.
func (s site) answer(id string, exit int) {
	s.t.Helper()
	s.wants(0, "approve", id)
	s.wants(exit, "resume", id)
}

// A home was copied and used beside the first one. One of the two sessions continues, and
// the other is forked and becomes a new session. Both complete on the server, and nothing
// is lost.
func TestForkedSessionGoesOnAsItsOwn(t *testing.T) {
	t.Parallel()
	sv := shared(t)
	a := newSite(t, scratch(t), sv.role)
	must(t, os.WriteFile(filepath.Join(a.root, "plan.yml"), []byte(askingTwice), 0o600))
	a.wants(exitApproval, "run", "--plan", "../plan.yml")
	a.wants(0, "sync", "now")
	b := newSite(t, scratch(t), sv.role)
	b.work = a.ws()
	copyTree(t, homeIn(a.root), homeIn(b.root))
	old := sessionsOf(t, a)[0]

	a.answer(old, exitApproval)
	// This drain comes before the other home delivers, in the background of its resume.
	a.wants(0, "sync", "now")
	b.answer(old, exitApproval)
	b.wants(exitForked, "sync", "now")
	b.wants(0, "sync", "fork-off", old)
	own := sessionsOf(t, b)
	if len(own) != 2 {
		t.Fatalf("sessions after fork-off: got %v, want two", own)
	}
	a.answer(old, 0)
	b.answer(own[1], 0)
	a.wants(0, "sync", "now")
	// The old session stays forked.
	_, said := b.run("sync", "now")
	t.Logf("sync now after fork-off: %.200s", said)

	// This blob records how one home left its workspace; the other home does not have it.
	const elsewhere = "stray: blob"
	report(t, "the first home", without(without(without(judge(t, homeIn(a.root), sv.admin), "fork of "+old), own[1]), elsewhere))
	report(t, "the second home", without(without(judge(t, homeIn(b.root), sv.admin), old), elsewhere))
	ours := map[event]bool{}
	for _, e := range readStore(t, homeIn(a.root)).events {
		ours[e] = true
	}
	alike := 0
	for _, e := range readStore(t, homeIn(b.root)).events {
		if ours[e] {
			alike++
		}
	}
	report(t, "the second home's events of the old session", filed(t, homeIn(b.root), sv.admin, old, alike))
}

// sessionsOf lists the sessions of a closed store, oldest first.
func sessionsOf(t testing.TB, s site) []string {
	t.Helper()
	return strings.Fields(closed(t, homeIn(s.root), `SELECT id FROM sessions ORDER BY no`))
}
