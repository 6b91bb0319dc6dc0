package engine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// NFR-004: after a resume a step costs the same as in a fresh run: the same commits,
// fence checks and effects. make bench measures their time.
func TestAStepAfterAResumeCostsTheSame(t *testing.T) {
	p := plan(task("t", command("a", "ledger A"), write("b", "b", "B"), command("c", "ledger C"), write("d", "d", "D")))
	tail := func(w *world) []string {
		i := slices.IndexFunc(w.trace, func(l string) bool { return strings.HasPrefix(l, "notice started t/c") })
		if i < 0 {
			t.Fatalf("t/c never started:\n%s", strings.Join(w.trace, "\n"))
		}
		return w.trace[i:]
	}
	fresh := newWorld(t, p)
	fresh.process().must()
	killed := newWorld(t, p)
	killed.crashIn, killed.crashNth = "claimed", 1
	if _, crashed, err := killed.process().run(); !crashed || err != nil {
		t.Fatalf("Execute: crashed %v, %v", crashed, err)
	}
	killed.process().must()
	if d := cmp.Diff(tail(fresh), tail(killed)); d != "" {
		t.Errorf("the steps after the one that was in progress (-fresh +resumed):\n%s", d)
	}
}
