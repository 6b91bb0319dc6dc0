package campaign_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// refused checks that verify names the error, and that resume refuses with the same code
// and changes nothing (A3).
func (c *campaign) refused(t *testing.T, id, code string) {
	t.Helper()
	if e := c.site.acode(t, "verify"); e.exit != 18 || !strings.Contains(e.output, code) {
		t.Errorf("%v; want exit 18 and %s", e, code)
	}
	e := c.site.acode(t, "resume", id)
	if class, finding := c.judgeResume(t, e); finding != "" || class != "resume 18 "+code {
		t.Errorf("got %s %s; want resume 18 %s: %v", class, finding, code, e)
	}
}

// A3: commits dropped from the end of the log one by one, as a lying disk would drop
// them.
func TestDroppedFromTheEnd(t *testing.T) {
	t.Parallel()
	c := newCampaign(t, scratch(t), false)
	name := filepath.Join(c.site.store(), "acode.db-wal")
	b, err := os.ReadFile(filepath.Join(c.base, "store", "acode.db-wal"))
	must(t, err)
	_, commits := frames(t, b)
	if len(commits) < 5 {
		t.Fatalf("the log has only %d commits", len(commits))
	}
	for kept := range len(commits) - 1 {
		t.Run(fmt.Sprintf("%d_of_%d_commits_kept", kept, len(commits)), func(t *testing.T) {
			c.restore(t)
			id := c.site.id(t)
			length := 32
			if kept > 0 {
				length = commits[kept-1]
			}
			must(t, os.Truncate(name, int64(length)))
			c.refused(t, id, "CKPT-001")
		})
	}
}

// A3: an older database with newer files.
func TestOlderDatabase(t *testing.T) {
	t.Parallel()
	dir := scratch(t)
	s := newSite(t, filepath.Join(dir, "site"), smallPlan, map[string]string{"big.txt": "first line\n"})
	if e := s.acode(t, "run", "--plan", s.plan()); e.exit != 10 {
		t.Fatalf("%v; want exit 10", e)
	}
	s.inDatabase(t)
	old := filepath.Join(dir, "old.db")
	put := func(from, to string) {
		t.Helper()
		b, err := os.ReadFile(from)
		must(t, err)
		must(t, os.WriteFile(to, b, 0o600))
	}
	put(filepath.Join(s.store(), "acode.db"), old)
	s.must(t, "approve", s.id(t))
	s.closeGate(t)
	p := s.start(t, "resume", s.id(t))
	eventually(t, "the command runs", func() bool { return s.inLedger(t, "prepare/hold/") })
	p.signal(9)
	p.wait(t)
	s.openGate(t)
	s.quiet(t)
	put(old, filepath.Join(s.store(), "acode.db"))
	must(t, os.Remove(filepath.Join(s.store(), "acode.db-wal")))
	c := &campaign{site: s, before: tree(t, s.ws()), ledger: s.lines(t)}
	c.refused(t, s.id(t), "CKPT-001")
}

// The store alone cannot show that all of it was replaced by an older copy. The workspace
// shows the later work of the session, so acode asks.
func TestOlderHome(t *testing.T) {
	t.Parallel()
	dir := scratch(t)
	s := newSite(t, filepath.Join(dir, "site"), smallPlan, map[string]string{"big.txt": "first line\n"})
	if e := s.acode(t, "run", "--plan", s.plan()); e.exit != 10 {
		t.Fatalf("%v; want exit 10", e)
	}
	s.must(t, "approve", s.id(t))
	s.quiet(t)
	must(t, copyTree(s.store(), filepath.Join(dir, "old")))
	s.must(t, "resume", s.id(t))
	s.quiet(t)
	must(t, os.RemoveAll(s.store()))
	must(t, copyTree(filepath.Join(dir, "old"), s.store()))
	before, ledger := tree(t, s.ws()), s.lines(t)
	s.must(t, "verify")
	if e := s.acode(t, "resume", s.id(t)); e.exit != 17 {
		t.Errorf("%v; want exit 17", e)
	}
	if d := differences(before, tree(t, s.ws())); len(d) > 0 || len(ledger) != len(s.lines(t)) {
		t.Errorf("a refused resume changed %v, ledger %q", d, s.lines(t))
	}
}
