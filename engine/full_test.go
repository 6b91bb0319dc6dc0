package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/session"
)

// A full disk pauses the session with the reserved space. Nothing acknowledged is lost
// and nothing is repeated.
func TestDiskFull(t *testing.T) {
	fresh := func() *world {
		w := newWorld(t, plan(task("t", command("a", "ledger a", capturing("V")), write("f", "f", "new"), command("b", "ledger b"))))
		w.files["f"] = "old"
		return w
	}
	ends := func(w *world) {
		t.Helper()
		wantResult(t, w.process().must(), session.Completed, "", "")
		w.ledgered("a", "b")
		w.holds(map[string]string{"f": "new"})
	}
	for _, port := range []string{"append", "stage", "apply"} {
		for n := 1; ; n++ {
			w := fresh()
			w.nth = map[string]int{port: n}
			w.fault = errFull
			res, _, err := w.process().run()
			if err != nil {
				t.Fatalf("%s %d: %v", port, n, err)
			}
			w.lawful()
			if res.State == session.Completed {
				break
			}
			if res.Code != session.ErrDiskFull {
				t.Fatalf("%s %d: got %+v, want ErrDiskFull", port, n, res)
			}
			if res.State == session.Paused && res.Reason != session.ReasonDiskFull {
				t.Fatalf("%s %d: got %+v, want the reason disk_full", port, n, res)
			}
			if port == "apply" {
				w.inOrder("commit failed t/f/main:1") // nothing changed, and acode knows that
			}
			w.nth = nil
			ends(w)
		}
	}
	w := fresh()
	w.fails["append"], w.fails["recover"] = errFull, errStore
	if _, _, err := w.process().run(); !errors.Is(err, errStore) || !errors.Is(err, session.ErrDiskFull) {
		t.Errorf("Execute: got %v, want both errors", err)
	}
	ends(w)
	w = fresh()
	w.refuses["append"] = errFull
	if _, _, err := w.process().run(); !errors.Is(err, session.ErrDiskFull) {
		t.Errorf("Execute on a disk that stays full: got %v", err)
	}
	delete(w.refuses, "append")
	ends(w)
}

// anna approves every gate and counts the questions.
func anna(asked *int, then func()) person {
	return person{approve: func(context.Context, string) (engine.Answer, error) {
		*asked++
		then()
		return engine.Answer{Granted: true, By: "anna"}, nil
	}}
}

func gatedChange(t tester) *world {
	w := newWorld(t, plan(task("t", command("a", "ledger a", capturing("V")), gate("g"), write("f", "f", "new"), command("b", "ledger b"))))
	w.files["f"] = "old"
	return w
}

// An approval that waits for its commit when the disk becomes full is committed with the
// pause. A person is asked only once, at whichever point the disk becomes full.
func TestDiskFullKeepsAnAnswer(t *testing.T) {
	for _, port := range []string{"append", "stage", "apply", "prepare", "image"} {
		for n := 1; ; n++ {
			w := gatedChange(t)
			w.nth, w.fault = map[string]int{port: n}, errFull
			asked := 0
			p := w.process()
			p.person = anna(&asked, func() {})
			res := p.must()
			if res.State == session.Completed {
				break
			}
			wantResult(t, res, session.Paused, session.ReasonDiskFull, session.ErrDiskFull)
			w.nth = nil
			p = w.process()
			p.person = anna(&asked, func() {})
			wantResult(t, p.must(), session.Completed, "", "")
			if asked != 1 {
				t.Errorf("%s %d: the gate was asked %d times", port, n, asked)
			}
			w.ledgered("a", "b")
			w.holds(map[string]string{"f": "new"})
		}
	}
}

// If the reserved space is only enough for the pause, acode commits the pause alone and
// finds pending results again.
func TestDiskFullBeyondTheReserve(t *testing.T) {
	w := gatedChange(t)
	asked := 0
	p := w.process()
	p.person = anna(&asked, func() { w.most = 1 })
	wantResult(t, p.must(), session.Paused, session.ReasonDiskFull, session.ErrDiskFull)
	w.most = 0
	p = w.process()
	p.person = anna(&asked, func() {})
	wantResult(t, p.must(), session.Completed, "", "")
	if asked != 2 {
		t.Errorf("the gate was asked %d times, want again: there was no room for the answer", asked)
	}
	w.ledgered("a", "b")
}

// A commit that fails on a full disk may have happened. Then its results are shown and
// not committed twice, and a session that it ended has ended.
func TestDiskFullAfterTheCommit(t *testing.T) {
	for n := 1; ; n++ {
		w := gatedChange(t)
		w.nth, w.fault = map[string]int{"reply": n}, errFull
		asked := 0
		p := w.process()
		p.person = anna(&asked, func() {})
		res := p.must()
		if struck := w.nth["reply"] == 0; !struck {
			if n < 6 {
				t.Errorf("only %d commits were met", n-1)
			}
			return
		}
		if res.State != session.Completed || res.Code != "" {
			wantResult(t, res, session.Paused, session.ReasonDiskFull, session.ErrDiskFull)
			p = w.process()
			p.person = anna(&asked, func() {})
			wantResult(t, p.must(), session.Completed, "", "")
		}
		if asked != 1 {
			t.Errorf("reply %d: the gate was asked %d times", n, asked)
		}
		for _, line := range []string{"notice completed t/a", "notice completed t/g", "notice completed t/f", "notice completed t/b"} {
			if w.count(line) != 1 {
				t.Errorf("reply %d: %q %d times", n, line, w.count(line))
			}
		}
		w.ledgered("a", "b")
	}
}

// A cancellation that met a full disk but was committed counts.
func TestDiskFullAfterACancellation(t *testing.T) {
	w := gatedChange(t)
	w.during = func(w *world, _ string) {
		w.ask(session.Request{Kind: session.RequestCancel})
		w.nth, w.fault = map[string]int{"reply": 2}, errFull // the first is the receipt before it
	}
	p := w.process()
	wantResult(t, p.must(), session.Cancelled, session.ReasonUser, session.ErrCancelled)
}

// A command's raw output stays until a receipt is durable, also when a full disk prevents
// the storing of its capture.
func TestDiskFullKeepsRawOutput(t *testing.T) {
	w := newWorld(t, plan(task("t", command("a", "echo value", capturing("V")), command("b", "env V"))))
	w.fails["stage"] = errFull
	wantResult(t, w.process().must(), session.Paused, session.ReasonDiskFull, session.ErrDiskFull)
	if n := w.count("forget"); n > 0 {
		t.Errorf("%d outputs were removed without a receipt", n)
	}
	wantResult(t, w.process().must(), session.Completed, "", "")
}

// Files that a group restored when the disk became full are in the receipt. Then the next
// resume does not take them for foreign changes.
func TestDiskFullInAGroup(t *testing.T) {
	w := group(t)
	w.nth, w.fault = map[string]int{"apply one": 2}, errFull
	wantResult(t, w.process().must(), session.Paused, session.ReasonDiskFull, session.ErrDiskFull)
	w.holds(map[string]string{"a": "old a", "b": "old b"})
	d := payload[session.StepFailedData](w, session.StepFailedEvent)
	if len(d.Files) != 1 || d.Files[0].Path != "a" || w.sess.Files["a"] == nil {
		t.Errorf("receipt: got %+v, want the file that was put back", d)
	}
	w.nth = nil
	wantResult(t, w.process().must(), session.Completed, "", "")
	w.holds(applied)
}
