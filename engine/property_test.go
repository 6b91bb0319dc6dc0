package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/acode-dev/acode/session"
)

// drawPlan returns a legal plan with every kind of step. Each command writes its own
// line.
func drawPlan(t *rapid.T) *session.Plan {
	p := plan()
	for i := range rapid.IntRange(1, 4).Draw(t, "tasks") {
		tk := session.Task{ID: fmt.Sprintf("t%d", i)}
		for d := range i {
			if rapid.Bool().Draw(t, "depends") {
				tk.DependsOn = append(tk.DependsOn, fmt.Sprintf("t%d", d))
			}
		}
		a, b := fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i)
		tk.Steps = append(tk.Steps, write("s0", a, "start"))
		for j := 1; j <= rapid.IntRange(0, 5).Draw(t, "steps"); j++ {
			name, line := fmt.Sprintf("s%d", j), fmt.Sprintf("%d-%d", i, j)
			var s session.Step
			switch rapid.IntRange(0, 8).Draw(t, "kind") {
			case 0:
				s = write(name, a, line)
			case 1:
				s = write(name, b, line+" ${V}")
			case 2:
				s = session.Step{Kind: session.KindChanges, Changes: []session.Change{{Op: session.KindWrite, Path: b, Content: line}, {Op: session.KindMove, From: a, To: a + line}}}
				a += line
			case 3:
				s = session.Step{Kind: session.KindChanges, Changes: []session.Change{{Op: session.KindDelete, Path: a}, {Op: session.KindWrite, Path: "c" + line, Content: line}, {Op: session.KindWrite, Path: a, Content: line}}}
			case 4:
				s = command("", "ledger "+line)
			case 5:
				s = command("", "echo "+line, capturing("V"))
			case 6:
				s = command("", "env V")
			case 7:
				s = gate("")
			default:
				s = read("", a)
			}
			s.ID = name
			tk.Steps = append(tk.Steps, s)
		}
		p.Tasks = append(p.Tasks, tk)
	}
	return p
}

// NFR-005 to NFR-010, FR-032, FR-053, FR-054, E1 to E5: a session killed at any calls
// again and again ends like an undisturbed one: same files, each effect once. Nothing is
// uncertain while the supervisor lives. If it is killed too, a person is asked.
func TestKilledAnywhereEndsAsUndisturbed(t *testing.T) {
	crashes := 0
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t)
		calm := newWorld(t, p)
		proc := calm.process()
		proc.person, proc.environ = yes(), []string{"V=none"}
		wantResult(t, proc.must(), session.Completed, "", "")

		w := newWorld(t, p)
		w.killsToo = rapid.Bool().Draw(t, "kills the supervisor")
		truth := session.InterruptReruns
		for round := 0; w.sess.State != session.Completed; round++ {
			w.calls, w.crashAt, w.crashIn = 0, 0, ""
			if round < 12 {
				w.crashAt = rapid.IntRange(1, calm.calls).Draw(t, "crash at")
				w.crashIn = rapid.SampledFrom([]string{"", "claimed", "committed", "apply one", "applied"}).Draw(t, "or in")
				w.crashNth = rapid.IntRange(1, 3).Draw(t, "the nth")
				w.happened = rapid.Bool().Draw(t, "happened")
			}
			proc := w.process()
			proc.person, proc.environ = yes(), []string{"V=none"}
			proc.policy.Uncertain = truth
			proc.policy.Captures = w.values(truth)
			_, crashed, err := proc.run()
			w.lawful()
			if err != nil || round > 20 {
				t.Fatalf("round %d: %v", round, err)
			}
			if crashed {
				crashes++
			}
			truth = w.truth()
		}
		if !w.killsToo && w.count("commit unknown") > 0 {
			t.Errorf("uncertain although the supervisor lives")
		}
		if d := cmp.Diff(calm.files, w.files); d != "" {
			t.Errorf("files (-undisturbed +killed): %s", oneLine(d))
		}
		if d := cmp.Diff(calm.ledger, w.ledger); d != "" {
			t.Errorf("ledger (-undisturbed +killed): %s", oneLine(d))
		}
		if calm.sess.Done != w.sess.Done || len(calm.sess.Files) != len(w.sess.Files) {
			t.Errorf("state: %d done, %d files, undisturbed %d and %d", w.sess.Done, len(w.sess.Files), calm.sess.Done, len(calm.sess.Files))
		}
	})
	if crashes == 0 {
		t.Errorf("the property never crashed: it shows nothing")
	}
}

// truth returns the true outcome of the uncertain command, as a person would find out.
func (w *world) truth() session.OnInterrupt {
	if w.doneKeys[w.lastKey] {
		return session.InterruptDone
	}
	return session.InterruptReruns
}

// values returns the values that a person gives for the captures of a command that
// happened.
func (w *world) values(truth session.OnInterrupt) map[session.StepID]string {
	key, err := session.ParseKey(w.lastKey)
	if err != nil || truth != session.InterruptDone {
		return nil
	}
	return map[session.StepID]string{key.Step: strings.TrimSpace(w.out[w.lastKey])}
}

// E5, FR-061: after an error of any port at any call, the next resume completes the
// session, with each effect once.
func TestFaultAtEveryCall(t *testing.T) {
	calm := everyWorld(t)
	p := calm.process()
	p.person = yes()
	p.must()
	for _, port := range []string{"append", "fence", "event", "stage", "open", "read", "search", "prepare", "image", "apply", "apply one", "stat", "run", "output", "read output", "forget"} {
		for n := 1; ; n++ {
			w := everyWorld(t)
			w.nth, w.fault = map[string]int{port: n}, errStore
			p := w.process()
			p.person = yes()
			res, _, err := p.run()
			w.lawful()
			if w.nth[port] > 0 {
				break // fewer than n calls
			}
			if err != nil && !errors.Is(err, errStore) || err == nil && (res.State != session.Paused && res.State != session.Completed) {
				t.Fatalf("%s %d: got %+v, %v", port, n, res, err)
			}
			w.replay()
			if w.sess.State != session.Completed {
				p = w.process()
				p.person = yes()
				if res, _, err := p.run(); err != nil || res.State != session.Completed {
					t.Fatalf("%s %d: the resume got %+v, %v", port, n, res, err)
				}
				w.lawful()
			}
			w.ledgered("made", "shipped")
			w.holds(calm.files)
		}
	}
}

// E1, E3: a step in progress has no effect before it is durable which process continues
// it.
func TestFaultAsAStepIsGoneOnWith(t *testing.T) {
	for _, step := range []session.Step{write("e", "a", "x"), command("e", "append made")} {
		w := newWorld(t, plan(task("t", step)))
		w.crashIn, w.crashNth = "fence", 1
		if _, crashed, err := w.process().run(); !crashed || err != nil || w.count("effect") != 0 {
			t.Fatalf("%s: crash after the intent: got %v, %v\n%s", step.Kind, crashed, err, strings.Join(w.trace, "\n"))
		}
		w.nth, w.fault = map[string]int{"append": 1}, errStore
		if _, _, err := w.process().run(); !errors.Is(err, errStore) || w.count("effect") != 0 {
			t.Errorf("%s: got %v, want the store's error and no effect\n%s", step.Kind, err, strings.Join(w.trace, "\n"))
		}
		if w.process().must(); w.count("effect") != 1 {
			t.Errorf("%s: got %d effects in the end, want 1", step.Kind, w.count("effect"))
		}
	}
}

// E5: a capture is the output of the command, or the session stops. The output stays
// until it was read.
func TestCaptureThatCannotBeRead(t *testing.T) {
	w := newWorld(t, plan(task("t", command("s", "echo value", capturing("V")), write("f", "f", "${V}"))))
	w.nth, w.fault = map[string]int{"read output": 2}, errStore // the first time it is read for the receipt
	if _, _, err := w.process().run(); !errors.Is(err, errStore) || w.files["f"] != "" {
		t.Errorf("Execute: got %v and %q, want the error and no file\n%s", err, w.files["f"], strings.Join(w.trace, "\n"))
	}
	w.replay()
	if w.process().must(); w.files["f"] != "value" || w.count("effect t/s/main") != 1 {
		t.Errorf("after a resume: got %q, want the value, of one start\n%s", w.files["f"], strings.Join(w.trace, "\n"))
	}
}

// oneLine joins the lines of a difference, so that a search in a log finds all of it.
func oneLine(d string) string { return strings.Join(strings.Fields(d), " ") }
