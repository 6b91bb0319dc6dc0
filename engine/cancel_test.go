package engine_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
)

// cancel ends the session of w as a process that does not execute it.
func (w *world) cancel(files engine.Files) {
	w.t.Helper()
	seen, err := (&resume.Resumer{Journal: w, Plan: w.plan, Commands: supervisor{w}}).LookAtCommands(context.Background())
	if err != nil {
		w.t.Fatalf("LookAtCommands: %v", err)
	}
	next, err := resume.Plan(w.plan, w.sess, seen, resume.Choices{})
	if err != nil {
		w.t.Fatalf("Plan: %v", err)
	}
	e := &engine.Engine{Journal: w, Blobs: w, Files: files, Commands: supervisor{w}, Plan: w.plan,
		Redact: redact, Masked: masked, Log: slog.New(slog.DiscardHandler), Notify: func(session.Notice) {}}
	if err := e.Cancel(context.Background(), next, session.Request{Reason: "enough"}); err != nil {
		w.t.Fatalf("Cancel: %v", err)
	}
	if w.sess.State != session.Cancelled || w.sess.Detail != "enough" {
		w.t.Errorf("Cancel: got %s, %q", w.sess.State, w.sess.Detail)
	}
}

// A cancel takes every recorded result. It ends running commands and records that. It
// records an outcome that it cannot find out as unknown.
func TestCancelKeepsWhatHappened(t *testing.T) {
	for _, c := range []struct {
		name     string
		step     session.Step
		crashIn  string
		killsToo bool
		// the workspace is gone
		gone   bool
		status session.Status
		// text in the receipt
		says string
	}{
		{"result", command("s", "ledger X", capturing("V")), "claimed", false, false, session.StepDone, ""},
		{"result_without_workspace", command("s", "ledger X"), "claimed", false, true, session.StepDone, ""},
		{"failed_result", command("s", "exit 3"), "claimed", false, false, session.StepFailed, "exited with status 3"},
		{"ended_by_a_signal", command("s", "told", checking("exit 0")), "claimed", false, false, session.StepUncertain, "ended by SIGTERM"},
		{"unknown", command("s", "ledger X", onInterrupt(session.InterruptReruns)), "claimed", true, false, session.StepUncertain, "its supervisor was killed"},
		{"still_runs", command("s", "running"), "claimed", false, false, session.StepFailed, "was ended on request"},
		{"never_started", command("s", "ledger X"), "run", false, false, session.StepFailed, "cancelled before the command was started"},
		{"read", read("s", "nowhere"), "read", false, false, session.StepFailed, "cancelled before the step was done"},
		{"files_written", write("s", "a", "x"), "applied", false, false, session.StepDone, ""},
		{"files_untouched", write("s", "a", "x"), "apply", false, false, session.StepFailed, "cancelled before its files were changed"},
		{"files_half", session.Step{ID: "s", Kind: session.KindChanges, Changes: []session.Change{{Op: session.KindWrite, Path: "a", Content: "x"}, {Op: session.KindWrite, Path: "b", Content: "y"}}},
			"apply one", false, false, session.StepUncertain, "while it changed its files"},
		{"files_gone", write("s", "a", "x"), "apply", false, true, session.StepUncertain, "its workspace is gone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, plan(task("t", c.step, command("n", "ledger N"))))
			w.crashIn, w.crashNth, w.killsToo = c.crashIn, 1, c.killsToo
			if _, crashed, err := w.process().run(); !crashed || err != nil {
				t.Fatalf("Execute: crashed %v, %v", crashed, err)
			}
			var files engine.Files
			if !c.gone {
				files = newWorkspace(w)
			}
			w.cancel(files)
			st := w.sess.Steps[id("t", "s")]
			if st.Status != c.status || !strings.Contains(st.Message, c.says) {
				t.Errorf("the step: got %s, %q, want %s, %q", st.Status, st.Message, c.status, c.says)
			}
			if capture := st.Capture; c.step.Run != nil && c.step.Run.Capture != "" && (capture == nil || capture.Name != "V") {
				t.Errorf("the capture: got %+v", capture)
			}
			if w.count("effect t/n") != 0 {
				t.Errorf("a cancel began another step:\n%s", strings.Join(w.trace, "\n"))
			}
		})
	}
}

// A session is killed anywhere and then cancelled. No step is in progress. No effect that
// took place belongs to a step that is pending or that was cancelled before its start.
func TestCancelAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, drawPlan(t))
		w.killsToo = rapid.Bool().Draw(t, "kills the supervisor")
		w.crashAt = rapid.IntRange(1, 60).Draw(t, "crash at")
		w.crashIn = rapid.SampledFrom([]string{"", "claimed", "committed", "apply one", "applied"}).Draw(t, "or in")
		w.crashNth = rapid.IntRange(1, 3).Draw(t, "the nth")
		w.happened = rapid.Bool().Draw(t, "happened")
		p := w.process()
		p.person, p.environ = yes(), []string{"V=none"}
		if _, _, err := p.run(); err != nil || w.sess.State.Terminal() {
			return
		}
		w.cancel(newWorkspace(w))
		for id, st := range w.sess.Steps {
			if st.Status == session.InProgress {
				t.Errorf("%s is in progress in a cancelled session", id)
			}
			if w.doneKeys[st.Key] && (st.Status == session.Pending || st.Code == session.ErrCancelled) {
				t.Errorf("%s took place and is %s (%s)", id, st.Status, st.Message)
			}
		}
	})
}
