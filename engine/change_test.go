package engine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
)

// group is a step of several changes and its initial world.
func group(t tester) *world {
	w := newWorld(t, plan(task("t", session.Step{ID: "g", Kind: session.KindChanges, Changes: []session.Change{
		{Op: session.KindWrite, Path: "a", Content: "new a"}, {Op: session.KindEdit, Path: "b", Old: "old", New: "new"}, {Op: session.KindWrite, Path: "c", Content: "new c"}}})))
	w.files = map[string]string{"a": "old a", "b": "old b"}
	return w
}

// torn crashes the group after its first file and returns the resulting world.
func torn(t tester) *world {
	w := group(t)
	w.crashIn, w.crashNth = "apply one", 2
	_, crashed, err := w.process().run()
	if !crashed || err != nil || w.files["a"] != "new a" || w.files["b"] != "old b" {
		t.Fatalf("crash: got %v, %v, files %v after\n%s", crashed, err, w.files, strings.Join(w.trace, "\n"))
	}
	return w
}

var applied = map[string]string{"a": "new a", "b": "new b", "c": "new c"}

func (w *world) holds(want map[string]string) {
	w.t.Helper()
	if d := cmp.Diff(want, w.files); d != "" {
		w.t.Errorf("files (-want +got):\n%s", d)
	}
}

// FR-026, FR-028: a partial write is first rolled back, then done again under the same
// key.
func TestPartiallyWritten(t *testing.T) {
	w := torn(t)
	wantResult(t, w.process().must(), session.Completed, "", "")
	w.holds(applied)
	w.inOrder("commit acquired", "notice handling t/g rollback", "rollback t/g/main:1 overwriting []", "fence", "effect t/g/main:1", "commit completed t/g/main:1 + completed")
}

// FR-027, FR-045: a roll-back overwrites foreign content that was accepted, or a new
// attempt works on top of it.
func TestForeignContentAccepted(t *testing.T) {
	w := torn(t)
	w.files["b"] = "foreign"
	wantResult(t, w.process().must(), session.Completed, "", "")
	w.holds(applied)
	w.inOrder("rollback t/g/main:1 overwriting [b]")

	w = torn(t)
	w.files["b"] = "foreign old"
	p := w.process()
	p.choices.InProgress = resume.StrategyRetry
	wantResult(t, p.must(), session.Completed, "", "")
	w.holds(map[string]string{"a": "new a", "b": "foreign new", "c": "new c"})
	w.inOrder("tidy", "prepare", "effect t/g/main:2")
	if w.count("rollback") != 0 {
		t.Errorf("retry rolled back")
	}
}

// Foreign content that was not accepted is never overwritten. A file that changed after
// validation pauses the session.
func TestForeignContentNotAccepted(t *testing.T) {
	for _, first := range []string{"", "accepted"} {
		w := torn(t)
		if first != "" {
			w.files["b"] = first
		}
		p := w.process()
		p.between = func() { w.files["b"] = "just now" }
		res := p.must()
		wantResult(t, res, session.Paused, session.ReasonEnvironment, session.ErrFileChanged)
		if w.files["b"] != "just now" || w.count("rollback") != 0 {
			t.Errorf("Execute: overwrote content that was not accepted: %v", w.files)
		}
		wantResult(t, w.process().must(), session.Completed, "", "")
		w.holds(applied)
	}
}

// A file that changes between its intent and its effect is not touched.
func TestChangedBeforeApply(t *testing.T) {
	w := group(t)
	w.onFence = func() { w.files["b"] = "just now" }
	wantResult(t, w.process().must(), session.Paused, session.ReasonEnvironment, session.ErrFileChanged)
	w.holds(map[string]string{"a": "old a", "b": "just now"})
}

// done crashes right after the group was applied.
func done(t tester) *world {
	w := group(t)
	w.crashIn, w.crashNth = "applied", 1
	if _, crashed, err := w.process().run(); !crashed || err != nil {
		t.Fatalf("crash: got %v, %v", crashed, err)
	}
	w.holds(applied)
	return w
}

// FR-025: applied changes are recorded, not done again.
func TestAlreadyApplied(t *testing.T) {
	w := done(t)
	wantResult(t, w.process().must(), session.Completed, "", "")
	w.holds(applied)
	w.inOrder("notice handling t/g applied", "commit acquired + completed t/g/main:1 + completed", "notice completed t/g")
	if d := payload[session.StepCompletedData](w, session.StepCompleted); d.By != "applied" || len(d.Files) != 3 || w.count("effect") != 1 {
		t.Errorf("receipt: got %+v after %d effects", d, w.count("effect"))
	}
}

// --restart-step rolls back applied changes and does them again.
func TestRestartStep(t *testing.T) {
	w := done(t)
	p := w.process()
	p.choices.RestartStep = true
	wantResult(t, p.must(), session.Completed, "", "")
	w.holds(applied)
	w.inOrder("rollback t/g/main:1 overwriting []", "effect t/g/main:1")
}

// Changes that were applied when the plan was made may be gone when it is executed.
func TestAppliedNoLonger(t *testing.T) {
	w := done(t)
	p := w.process()
	p.between = func() { w.files["a"] = "just now" }
	wantResult(t, p.must(), session.Paused, session.ReasonEnvironment, session.ErrFileChanged)
	if w.files["a"] != "just now" {
		t.Errorf("files: got %v", w.files)
	}
}

// The session pauses if the attempt in progress would now do something else.
func TestRedoThatDiffers(t *testing.T) {
	w := group(t)
	w.crashIn, w.crashNth = "fence", 1
	if _, crashed, _ := w.process().run(); !crashed || w.count("commit") != 1 {
		t.Fatalf("no crash after the intent:\n%s", strings.Join(w.trace, "\n"))
	}
	p := w.process()
	p.between = func() { w.files["b"] = "an old thing" }
	wantResult(t, p.must(), session.Paused, session.ReasonEnvironment, session.ErrFileChanged)
	w.files["b"] = "old b"
	p = w.process()
	p.between = func() { w.files["b"] = "nothing to match" }
	wantResult(t, p.must(), session.Paused, session.ReasonTaskFailed, session.ErrFileStep)
}

// An attempt that was not prepared, and crashed before it recorded that, is followed by
// the next attempt.
func TestUnpreparedAndCrashed(t *testing.T) {
	w := newWorld(t, plan(task("t", session.Step{ID: "e", Kind: session.KindEdit, Changes: []session.Change{{Op: session.KindEdit, Path: "f", Old: "x", New: "y"}}})))
	w.crashIn, w.crashNth = "fence", 1
	if _, crashed, _ := w.process().run(); !crashed || w.sess.Status(id("t", "e")) != session.InProgress {
		t.Fatalf("no crash between intent and receipt:\n%s", strings.Join(w.trace, "\n"))
	}
	w.files["f"] = "x"
	wantResult(t, w.process().must(), session.Completed, "", "")
	w.holds(map[string]string{"f": "y"})
	w.inOrder("commit acquired + started t/e/main:2", "effect t/e/main:2")
}

// The remains of that attempt are also removed if a large file requires an earlier
// commit.
func TestTidyBeforeALargeChange(t *testing.T) {
	w := newWorld(t, plan(task("t", session.Step{ID: "e", Kind: session.KindEdit, Changes: []session.Change{{Op: session.KindEdit, Path: "f", Old: "x", New: "y"}}})))
	w.files["f"] = strings.Repeat("z", 64<<10)
	w.crashIn, w.crashNth = "fence", 1
	if _, crashed, _ := w.process().run(); !crashed {
		t.Fatal("no crash")
	}
	w.files["f"] += "x"
	wantResult(t, w.process().must(), session.Completed, "", "")
	w.inOrder("commit acquired", "tidy", "commit started t/e/main:2", "effect t/e/main:2")
}

// FR-024: a read in progress is repeated under its key, and a notice says so.
func TestReadInProgress(t *testing.T) {
	w := newWorld(t, plan(task("t", read("r", "f"))))
	w.files["f"] = "x"
	w.crashIn, w.crashNth = "read", 1
	if _, crashed, _ := w.process().run(); !crashed {
		t.Fatal("no crash")
	}
	wantResult(t, w.process().must(), session.Completed, "", "")
	w.inOrder("notice started t/r", "notice handling t/r retry", "commit completed t/r/main:1 + completed")
}

// If changes were fully applied but cannot be checked, the process stops and no step
// fails. The next resume finds them applied.
func TestAppliedAndNotLookedAt(t *testing.T) {
	w := newWorld(t, plan(task("t", write("f", "f", "new"), command("b", "ledger b"))))
	w.fails["look at what was applied"] = &session.Error{Code: session.ErrStoreIO, Message: "cannot be looked at"}
	if _, _, err := w.process().run(); !errors.Is(err, session.ErrStoreIO) {
		t.Fatalf("Execute: got %v, want %s", err, session.ErrStoreIO)
	}
	if n := w.count("commit failed"); n > 0 {
		t.Errorf("%d steps failed", n)
	}
	wantResult(t, w.process().must(), session.Completed, "", "")
	w.inOrder("notice handling t/f applied", "notice completed t/f")
	if n := w.count("effect t/f"); n != 1 {
		t.Errorf("the file was written %d times", n)
	}
	w.ledgered("b")
}

// An attempt is not continued if its outcome would differ from its intent.
func TestRedoWithAnotherOutcome(t *testing.T) {
	w := newWorld(t, plan(task("t", write("a", "a", "one"))))
	w.crashIn, w.crashNth = "fence", 1
	if _, crashed, _ := w.process().run(); !crashed || w.count("commit") != 1 {
		t.Fatalf("no crash after the intent:\n%s", strings.Join(w.trace, "\n"))
	}
	p := w.process()
	p.between = func() { w.plan.Tasks[0].Steps[0].Changes[0].Content = "two" }
	wantResult(t, p.must(), session.Paused, session.ReasonEnvironment, session.ErrFileChanged)
	w.holds(map[string]string{})
}

// Changes that were applied when the plan was made may have been undone when it is
// executed.
func TestAppliedTakenBack(t *testing.T) {
	w := newWorld(t, plan(task("t", write("a", "a", "one"))))
	w.crashIn, w.crashNth = "applied", 1
	if _, crashed, _ := w.process().run(); !crashed || w.files["a"] != "one" {
		t.Fatalf("no crash after the effect:\n%s", strings.Join(w.trace, "\n"))
	}
	p := w.process()
	p.between = func() { delete(w.files, "a") }
	wantResult(t, p.must(), session.Paused, session.ReasonEnvironment, session.ErrFileChanged)
	if w.sess.Status(id("t", "a")) == session.StepDone {
		t.Errorf("the step is completed and its file is gone")
	}
}
