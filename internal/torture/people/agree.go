package people

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/acode-dev/acode/internal/torture/scene"
)

// agree checks that exit status, output and store say the same of the session after a
// process that was alone. was is what the store held before.
func (s *Scenario) agree(t *typed, was journal) error {
	if s.nobody && t.exit() == scene.ExitLocked {
		s.Breach("acode %s is locked out by nobody", t.args[0])
	}
	switch {
	case slices.Contains(t.args, s.otherFile()):
		s.agreeOnOther(t, was)
	case t.executes():
		s.agreeOnState(t, was)
	case t.decides():
		return s.agreeOnDecision(t, was)
	default:
		s.agreeOnView(t, was)
	}
	return nil
}

func (s *Scenario) agreeOnState(t *typed, was journal) {
	want := statesOf(t.exit())
	if s.astray && t.exit() == scene.ExitNoneToCarry {
		want = append(want, was.state) // it is elsewhere
	}
	if !slices.Contains(want, s.now.state) {
		s.Breach("acode %s ends with %d, the session is %q", t.args[0], t.exit(), s.now.state)
	}
	refused := t.exit() == scene.ExitNoneToCarry || t.exit() == scene.ExitOver || t.exit() == scene.ExitLocked
	if refused && s.now.seq != was.seq {
		s.Breach("acode %s refuses with %d, and changes the session", t.args[0], t.exit())
	}
	if s.now.seq > was.seq && slices.Contains(t.args, "-C") {
		s.astray = false
	}
	if !s.now.over() && t.exit() != 0 && len(proposals(t.advice())) == 0 {
		s.Breach("a stop with %d proposes nothing", t.exit())
	}
	if !slices.Contains(t.args, jsonFlag) {
		return
	}
	if r, err := t.lines(); err == nil && r.State != "" && r.State != s.now.state {
		s.Breach("the result says %q, the session is %q", r.State, s.now.state)
	}
}

// agreeOnOther checks that a session of somebody else is completed, or refused.
func (s *Scenario) agreeOnOther(t *typed, was journal) {
	more := s.now.others[len(was.others):]
	if want := map[int]int{scene.ExitDone: 1}[t.exit()]; len(more) != want || want == 1 && more[0] != "completed" || s.now.seq != was.seq {
		s.Breach("acode run of somebody else ends with %d, its session is %q", t.exit(), more)
	}
}

// statesOf gives the states in which a process that ends with a status leaves the
// session; empty is no session at all.
func statesOf(exit int) []string {
	open := []string{"created", "planning", "awaiting_approval", "executing", "paused"}
	over := []string{"completed", "failed", "cancelled"}
	switch exit {
	case scene.ExitDone:
		return over[:1]
	case scene.ExitApproval:
		return []string{"awaiting_approval"}
	case scene.ExitDenied, scene.ExitUncertain:
		return []string{"paused"}
	case scene.ExitNoneToCarry:
		return append(over, "")
	case scene.ExitOver:
		return over
	case scene.ExitFailed:
		return []string{"paused", "failed"}
	}
	return append(open, "") // untouched, or a signal came before there was a session
}

// agreeOnDecision checks that a decision did what it says, and that one that was refused
// did nothing.
func (s *Scenario) agreeOnDecision(t *typed, was journal) error {
	verb := t.args[0]
	commanded := slices.Contains(t.args, "--command")
	if verb == "session" {
		verb = "cancel"
		if left := s.CommandsLeft(); t.exit() == 0 && len(left) > 0 {
			s.Breach("acode session cancel leaves %v", left)
		}
		if t.exit() == 0 && !commanded {
			if err := s.judgeResults(); err != nil {
				return err
			}
		}
	}
	if wrote := s.now.seq != was.seq; wrote != (t.exit() == 0 && !commanded) {
		s.Breach("acode %s ends with %d, and the journal goes from %d to %d", verb, t.exit(), was.seq, s.now.seq)
	}
	after := map[string]string{"deny": "paused", "cancel": "cancelled", "approve": was.state}[verb]
	if commanded || t.exit() != 0 {
		after = was.state
	}
	if s.now.state != after {
		s.Breach("acode %s ends with %d, the session is %q", verb, t.exit(), s.now.state)
	}
	return nil
}

// judgeResults checks that a cancel kept the result of each command that ended by itself:
// nothing ran any more, and nobody had ended a command or killed a supervisor.
func (s *Scenario) judgeResults() error {
	b, err := os.ReadFile(s.Ledger())
	if err != nil || !s.nobody || s.Excused+s.ended > 0 {
		return err
	}
	for name, acted := range attempts(string(b)) {
		if n := acted[len(acted)-1]; !s.now.has("StepCompleted", name, n) {
			s.Lost = append(s.Lost, fmt.Sprintf("the result of %s, attempt %d, at its cancel", name, n))
		}
	}
	return nil
}

// countDecision counts what people decided, also where somebody else executed meanwhile.
// One that was killed may have taken effect.
func (s *Scenario) countDecision(t *typed) {
	if p := t.person; p != nil {
		s.approved += p.yes
		for _, name := range p.told {
			s.answers[name], s.cut[name] = true, true
		}
	}
	switch {
	case t.exit() != 0 && !t.killed() || !t.decides():
	case t.args[0] == "approve":
		s.approved++
	case t.args[0] == "session":
		s.ended++
	}
}

// shown is what a command that looks says of the session, as JSON.
var shown = regexp.MustCompile(`"state":"(\w+)".*"last_seq":(\d+)`)

// agreeOnView checks that what a command that looks says is what the store holds.
func (s *Scenario) agreeOnView(t *typed, was journal) {
	if was.seq != s.now.seq {
		s.Breach("acode %s changes the session", strings.Join(t.args, " "))
	}
	named := slices.Contains(t.args, was.short) && was.short != ""
	if named && t.args[0] != "resume" && t.exit() != 0 {
		s.Breach("acode %s ends with %d", strings.Join(t.args, " "), t.exit())
	}
	m := shown.FindStringSubmatch(t.out.String())
	ours := named || len(s.now.others) == 0 // else it may be about somebody else's
	if m != nil && ours && slices.Contains(t.args, jsonFlag) && (m[1] != s.now.state || number(m[2]) != s.now.seq) {
		s.Breach("acode %s says %s at %s, the session is %s at %d", strings.Join(t.args, " "), m[1], m[2], s.now.state, s.now.seq)
	}
}

// verify lets acode check its store, which must be sound whatever happened to it.
func (s *Scenario) verify(ctx context.Context) error {
	t := s.begin(ctx, []string{"verify"})
	if err := s.await(t); err != nil {
		return err
	}
	if s.now.short != "" && t.exit() != 0 {
		s.Breach("acode verify ends with %d: %s%s", t.exit(), t.out.String(), t.err.String())
	}
	return nil
}

// whole gives the digests of everything in workspace and store that only what executes
// may change; nil while somebody is there who may change it.
func (s *Scenario) whole() (map[string]string, error) {
	if len(s.Left()) > 0 {
		return nil, nil
	}
	all := map[string]string{}
	for _, root := range []string{s.Workspace(), s.Home()} {
		err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // it is not there
			}
			if !d.Type().IsRegular() || filepath.Dir(at) == filepath.Join(s.Home(), "log") || strings.HasSuffix(at, "-shm") {
				all[at] = d.Type().String()
				return nil
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			b, err := os.ReadFile(at)
			all[at] = fmt.Sprintf("%v %v %x", info.Mode(), info.ModTime().UnixNano(), sha256.Sum256(b))
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read everything: %w", err)
		}
	}
	return all, nil
}

// unchanged checks that commands that only look change no byte.
func (s *Scenario) unchanged(all []*typed, before map[string]string) error {
	if before == nil || slices.ContainsFunc(all, func(t *typed) bool { return !t.reads() }) {
		return nil
	}
	after, err := s.whole()
	for name := range maps.Keys(after) {
		if before[name] != after[name] {
			s.Breach("acode %s changes %s", strings.Join(all[0].args, " "), name)
		}
	}
	if len(after) < len(before) {
		s.Breach("acode %s removes files", strings.Join(all[0].args, " "))
	}
	return err
}
