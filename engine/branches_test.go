package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/acode-dev/acode/session"
)

// drawBeside is drawPlan with steps that fail or that have the workspace alone.
func drawBeside(t *rapid.T) *session.Plan {
	p := drawPlan(t)
	p.OnFailure = session.FailureContinues
	for i := range p.Tasks {
		for j := range p.Tasks[i].Steps {
			if s := &p.Tasks[i].Steps[j]; s.Run != nil {
				s.Run.Exclusive = rapid.IntRange(0, 4).Draw(t, "exclusive") == 0
				if s.Run.Capture == "" && rapid.IntRange(0, 9).Draw(t, "fails") == 0 {
					s.Run.Shell = "exit 3"
				}
			}
		}
	}
	return p
}

// ends is everything that two ended sessions of one plan must have in common.
type ends struct {
	State  session.State
	Reason session.Reason
	Code   session.Code
	Files  map[string]string
	Ledger []string
	Steps  map[string]string
	Known  map[string]string
}

func (w *world) endsAs(res session.Result) ends {
	e := ends{State: w.sess.State, Reason: w.sess.Reason, Code: res.Code, Files: w.files, Ledger: slices.Sorted(slices.Values(w.ledger)), Steps: map[string]string{}, Known: map[string]string{}}
	for id, st := range w.sess.Steps {
		value := ""
		if st.Capture != nil {
			value = w.blobs[st.Capture.Blob.Hash]
		}
		e.Steps[id.String()] = fmt.Sprintf("%s %d %s %q", st.Status, st.Attempt, st.Code, value)
	}
	for path, f := range w.sess.Files {
		e.Known[path] = fmt.Sprint(f.Hash, f.Wrote)
	}
	return e
}

// E1 to E7: plans whose tasks touch different files end in the same way as with one step
// at a time, for any max_parallel and any order of endings.
func TestLawAnyOrderEndsAsSerial(t *testing.T) {
	atOnce := 0
	rapid.Check(t, func(rt *rapid.T) {
		for range 2 {
			p := drawBeside(rt)
			calm := newWorld(rt, p)
			proc := calm.process()
			proc.person, proc.environ = yes(), []string{"V=none"}
			want := calm.endsAs(proc.must())
			n, seed := rapid.IntRange(2, 5).Draw(rt, "max_parallel"), rapid.Uint64Range(0, 1000).Draw(rt, "seed")
			w := newWorld(rt, p)
			var got ends
			inBubble(t, func() {
				proc := w.beside(n, seed)
				proc.person, proc.environ = yes(), []string{"V=none"}
				res, _, err := proc.run()
				if err != nil {
					rt.Fatalf("Execute: %v\n%s", err, strings.Join(w.trace, "\n"))
				}
				got = w.endsAs(res)
			})
			w.lawfulBeside()
			if d := cmp.Diff(want, got); d != "" {
				rt.Fatalf("max_parallel %d, seed %d (-serial +parallel): %s\n%s", n, seed, oneLine(d), strings.Join(w.trace, "\n"))
			}
			if slices.ContainsFunc(w.trace, func(l string) bool { return strings.Count(l, "started ") > 1 }) {
				atOnce++
			}
		}
	})
	if atOnce == 0 {
		t.Errorf("no two steps ever ran at once: it shows nothing")
	}
}

// E1 to E7, NFR-005 to NFR-010: they end in the same way even if they are killed at any
// calls again and again. Each effect happens once.
func TestLawKilledWithSeveralBranches(t *testing.T) {
	kills, several := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan(rt)
		calm := newWorld(rt, p)
		proc := calm.process()
		proc.person, proc.environ = yes(), []string{"V=none"}
		want := calm.endsAs(proc.must())
		w := newWorld(rt, p)
		var got ends
		for round := 0; w.sess.State != session.Completed; round++ {
			n, seed := rapid.IntRange(1, 4).Draw(rt, "max_parallel"), rapid.Uint64Range(0, 1000).Draw(rt, "seed")
			at, after := 0, false
			if round < 8 {
				at, after = rapid.IntRange(1, calm.calls).Draw(rt, "kill at"), rapid.Bool().Draw(rt, "after the call")
			}
			inBubble(t, func() {
				proc := w.beside(n, seed)
				proc.person, proc.environ = yes(), []string{"V=none"}
				proc.shared.killAt, proc.shared.after = at, after
				res, _, err := proc.run()
				if err != nil && !errors.Is(err, errDead) || err == nil && res.State != session.Completed {
					rt.Fatalf("round %d: got %+v, %v\n%s", round, res, err, strings.Join(w.trace, "\n"))
				}
				if err != nil {
					kills++
					w.replay()
				}
				if proc.next != nil && len(proc.next.InProgress) > 1 {
					several++
				}
				got = w.endsAs(res)
			})
			w.lawfulBeside()
		}
		if d := cmp.Diff(want, got); d != "" {
			rt.Fatalf("(-undisturbed +killed): %s\n%s", oneLine(d), strings.Join(w.trace, "\n"))
		}
		if w.count("commit unknown") > 0 {
			rt.Errorf("uncertain although the supervisor lives")
		}
	})
	if kills == 0 || several == 0 {
		t.Errorf("%d kills, %d resumes with several steps in progress: it shows nothing", kills, several)
	}
}

// inBubble runs f with the time of synctest.
func inBubble(t *testing.T, f func()) {
	var failed any
	synctest.Test(t, func(*testing.T) {
		defer func() { failed = recover() }()
		f()
	})
	if failed != nil {
		panic(failed)
	}
}
