package resume_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
)

// FR-003, FR-004, NFR-014: terminal sessions are refused, and the attempt is logged.
func TestTerminalStates(t *testing.T) {
	for _, state := range []session.State{session.Completed, session.Failed, session.Cancelled} {
		b := paused(t)
		if state == session.Completed {
			b.to(session.Executing)
		}
		b.to(state)
		ready, err := b.resume()
		if !errors.Is(err, session.ErrTerminal) || !strings.Contains(err.Error(), "Cannot resume "+strings.ToUpper(string(state))+" session abc123") {
			t.Errorf("Resume of %s: got %v", state, err)
		}
		if len(ready.Begin) != 0 || len(b.logged("session_resume_started")) != 1 {
			t.Errorf("Resume of %s: drafts %v, log %s", state, ready.Begin, b.log.String())
		}
	}
	if err := resume.Allowed(&session.Session{}); !errors.Is(err, session.ErrTerminal) {
		t.Errorf("Allowed of nothing: got %v", err)
	}
}

// FR-003: from each resumable state the drafts follow the transition table, begin a new
// epoch and lead to executing.
func TestBeginFollowsTheTransitionTable(t *testing.T) {
	for _, c := range []struct {
		name  string
		state func(b *bench)
		want  []session.State
	}{
		{"created", func(*bench) {}, []session.State{session.Planning, session.Executing}},
		{"planning", func(b *bench) { b.to(session.Planning) }, []session.State{session.Executing}},
		{"awaiting_approval", func(b *bench) { b.to(session.Planning); b.to(session.AwaitingApproval) }, []session.State{session.Executing}},
		{"executing", func(b *bench) { b.to(session.Planning); b.to(session.Executing) }, nil},
		{"paused", func(b *bench) { b.to(session.Paused) }, []session.State{session.Executing}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, usual())
			b.r.Options.Config = map[string]string{"k": "v"}
			c.state(b)
			ready, err := b.resume()
			if err != nil {
				t.Fatal(err)
			}
			var got []session.State
			for i, d := range ready.Begin {
				if sc, ok := d.Data.(session.StateChangedData); ok {
					got = append(got, sc.To)
				} else if i > 0 || d.Type != session.ExecutionAcquired {
					t.Errorf("draft %d: got %s", i, d.Type)
				}
				b.add(d)
			}
			if d := cmp.Diff(c.want, got); d != "" || b.sess.State != session.Executing || b.sess.Epoch != 1 {
				t.Errorf("states (-want +got):\n%s\nthe session is %s in epoch %d", d, b.sess.State, b.sess.Epoch)
			}
			want := session.ExecutionAcquiredData{Device: "dev", Host: "host", PID: 42, Workspace: "/moved", Manifest: "m2", Git: `{"head":"2"}`, Config: `{"k":"v"}`}
			if d := cmp.Diff(want, ready.Begin[0].Data); d != "" {
				t.Errorf("acquisition (-want +got):\n%s", d)
			}
			if b.compared != nil || slices.Contains(b.trace, "changes") {
				t.Errorf("a first run compared the environment")
			}
		})
	}
}

// FR-007, FR-023, FR-037, FR-056 to FR-058, NFR-014, NFR-015, R2: Resume logs the start,
// the replay order, the continuation and each decision. It logs them before it shows the
// header and hands over.
func TestLogging(t *testing.T) {
	b := newBench(t, usual())
	b.acquired("{}")
	b.started(id("t", "make"), session.KindRun)
	b.completed(id("t", "make"))
	b.started(id("t", "w"), session.KindWrite, session.Transition{Path: "w.txt"})
	b.progress = session.Partial
	b.r.Options.Order = session.ReplayOrder{First: [16]byte{1}, Last: [16]byte{2}, Count: 6, Digest: "d1"}
	ready, err := b.resume()
	if err != nil {
		t.Fatal(err)
	}
	started := b.logged("session_resume_started")
	if len(started) != 1 || started[0]["level"] != "INFO" || started[0]["session_id"] != "abc123" || started[0]["state"] != "executing" || started[0]["replay_digest"] != "d1" ||
		started[0]["replay_count"] != 6.0 || started[0]["replay_first"] != "01"+strings.Repeat("00", 15) || started[0]["replay_last"] != "02"+strings.Repeat("00", 15) {
		t.Errorf("session_resume_started: got %v", started)
	}
	got := b.logged("session_resume")
	want := map[string]any{
		"event": "session_resume", "session_id": "abc123", "checkpoint_id": "seq 7", "skipped_tasks": 0.0, "skipped_steps": 1.0, "remaining_steps": 3.0,
		"in_progress_action": "rollback", "sync_status": "off", "environment_valid": true,
	}
	if len(got) != 1 {
		t.Fatalf("session_resume: logged %d times", len(got))
	}
	for k, v := range want {
		if got[0][k] != v {
			t.Errorf("session_resume: %s is %v, want %v", k, got[0][k], v)
		}
	}
	decisions := map[any]any{}
	for _, d := range b.logged("step_decision") {
		decisions[d["step"]] = d["action"]
	}
	if d := cmp.Diff(map[any]any{"t/make": "skip", "t/w": "rollback"}, decisions); d != "" {
		t.Errorf("step_decision (-want +got):\n%s", d)
	}
	first, header, snapshot := slices.Index(b.trace, "log session_resume"), slices.Index(b.trace, "notice header"), slices.Index(b.trace, "snapshot")
	if first < 0 || header < first || snapshot < header {
		t.Errorf("R2: the order is %v", b.trace)
	}
	last := b.notices[len(b.notices)-1]
	if last.Kind != session.NoticeHeader || last.Text != "seq 7" || last.Next.Skipped != 1 || last.Next.Remaining != 3 || !slices.Equal(ready.Next.InProgress, []int{1}) {
		t.Errorf("header: got %+v, in progress %d", last, ready.Next.InProgress)
	}
	if b.notices[0].Kind != session.NoticeSession || b.notices[0].Text != "test" {
		t.Errorf("first notice: got %+v", b.notices[0])
	}
}

// Skipped steps are logged by rows. If no step was in progress, no action is logged.
func TestLoggingOfSkippedSteps(t *testing.T) {
	var tasks []session.Task
	for _, name := range []string{"a", "b", "c"} {
		tasks = append(tasks, session.Task{ID: name, Steps: []session.Step{command("1"), command("2")}})
	}
	b := newBench(t, plan(tasks...))
	b.acquired("{}")
	for _, step := range []session.StepID{id("a", "1"), id("a", "2"), id("b", "1"), id("c", "1")} {
		b.started(step, session.KindRun)
		b.completed(step)
	}
	if _, err := b.resume(); err != nil {
		t.Fatal(err)
	}
	got := b.logged("session_resume")[0]
	if d := cmp.Diff([]any{"a/1 to b/1", "c/1"}, got["skipped"]); d != "" || got["in_progress_action"] != "none" {
		t.Errorf("session_resume: in_progress_action is %v, skipped (-want +got):\n%s", got["in_progress_action"], d)
	}
}

// FR-010, FR-021: Resume inspects the steps in progress: the record of a command, the
// files of a file step, and nothing for other steps.
func TestObserve(t *testing.T) {
	b := newBench(t, plan(session.Task{ID: "t", Steps: []session.Step{command("run"), write("file", "f"), write("bare", "g"), {ID: "read", Kind: session.KindRead, Read: &session.Read{Path: "f"}}}}))
	b.acquired("")
	b.started(id("t", "run"), session.KindRun)
	b.started(id("t", "file"), session.KindWrite, session.Transition{Path: "f"})
	b.started(id("t", "bare"), session.KindWrite)
	b.started(id("t", "read"), session.KindRead)
	b.record = session.CommandRecord{State: session.CommandFinished}
	b.progress = session.Applied
	ready, err := b.resume()
	if err != nil {
		t.Fatal(err)
	}
	var got []session.Action
	for _, it := range ready.Next.Items {
		got = append(got, it.Action)
	}
	if d := cmp.Diff([]session.Action{session.ActionAttach, session.ActionApplied, session.ActionProceed, session.ActionRetry}, got); d != "" {
		t.Errorf("actions (-want +got):\n%s", d)
	}
	if got := b.logged("session_resume")[0]["in_progress_action"]; got != "attach,applied,proceed,retry" {
		t.Errorf("in_progress_action: got %v, want those of all, in the order of their intents", got)
	}
	if n := len(slices.DeleteFunc(slices.Clone(b.trace), func(s string) bool { return s != "look" && s != "inspect" })); n != 2 {
		t.Errorf("ports asked: %v", b.trace)
	}
}

// FR-061, R3: after an error of a port the session is unchanged and nothing is handed
// over.
func TestPortErrors(t *testing.T) {
	for _, port := range []string{"event", "look", "inspect", "changes", "keep", "person changed", "person in progress", "snapshot"} {
		t.Run(port, func(t *testing.T) {
			b := newBench(t, plan(session.Task{ID: "t", Steps: []session.Step{command("run"), write("file", "f")}}))
			b.acquired("")
			b.started(id("t", "run"), session.KindRun)
			b.started(id("t", "file"), session.KindWrite, session.Transition{Path: "f"})
			b.progress, b.foreign = session.Foreign, []session.FileState{{Path: "f", Hash: "9"}}
			b.r.Options.InProgress = resume.StrategyPrompt
			b.goOn = true
			b.fails[port] = errPort
			ready, err := b.resume()
			if !errors.Is(err, errPort) || len(ready.Begin) != 0 {
				t.Errorf("Resume: got %v and %d drafts, want the port's error and none", err, len(ready.Begin))
			}
		})
	}
	b := paused(t)
	b.started(id("t", "w"), session.KindWrite)
	b.events[len(b.events)-1].Payload = []byte("{")
	if _, err := b.resume(); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("Resume over a broken intent: got %v", err)
	}
}

// FR-027, FR-028: the strategy or the person decides about foreign content. If no one can
// be asked, the step is rolled back with a warning. A dry run does not ask.
func TestInProgressStrategy(t *testing.T) {
	for _, c := range []struct {
		name     string
		strategy resume.Strategy
		answer   resume.Strategy
		progress session.Progress
		dry      bool
		want     session.Action
		asked    bool
		warned   bool
	}{
		{"default", "", "", session.Foreign, false, session.ActionRollBack, false, false},
		{"retry", resume.StrategyRetry, "", session.Foreign, false, session.ActionRetry, false, false},
		{"person_retries", resume.StrategyPrompt, resume.StrategyRetry, session.Foreign, false, session.ActionRetry, true, false},
		{"person_rolls_back", resume.StrategyPrompt, resume.StrategyRollBack, session.Foreign, false, session.ActionRollBack, true, false},
		{"no_person", resume.StrategyPrompt, "", session.Foreign, false, session.ActionRollBack, true, true},
		{"nothing_foreign", resume.StrategyPrompt, "", session.Partial, false, session.ActionRollBack, false, false},
		{"dry_run", resume.StrategyPrompt, resume.StrategyRetry, session.Foreign, true, session.ActionRollBack, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := paused(t)
			b.to(session.Executing)
			b.started(id("t", "w"), session.KindWrite, session.Transition{Path: "w.txt"})
			b.progress, b.strategy, b.goOn = c.progress, c.answer, true
			b.r.Options.InProgress, b.r.Options.DryRun = c.strategy, c.dry
			ready, err := b.resume()
			if err != nil || ready.Next.Items[1].Action != c.want {
				t.Errorf("Resume: got %s, %v, want %s", ready.Next.Items[1].Action, err, c.want)
			}
			if slices.Contains(b.trace, "person in progress") != c.asked {
				t.Errorf("asked: %v", b.trace)
			}
			if warned := strings.Contains(strings.Join(b.texts(session.NoticeWarning), "\n"), "no one can be asked"); warned != c.warned {
				t.Errorf("warnings: %q", b.texts(session.NoticeWarning))
			}
		})
	}
}

// A dry run shows and logs the same. It returns no drafts, does not ask and keeps
// nothing.
func TestDryRun(t *testing.T) {
	b := paused(t)
	b.changed = []session.ChangedFile{{Path: "out", Kind: session.FileModified, Asks: true}}
	b.r.Options.DryRun = true
	ready, err := b.resume()
	if err != nil || ready.Begin != nil || len(ready.Changed) != 1 || ready.Next.Remaining != 3 {
		t.Errorf("Resume: got %+v, %v", ready, err)
	}
	for _, port := range []string{"keep", "snapshot", "person changed"} {
		if slices.Contains(b.trace, port) {
			t.Errorf("a dry run called %s", port)
		}
	}
	if got := b.logged("session_resume"); len(got) != 1 || got[0]["environment_valid"] != false || got[0]["changed_files"] != 1.0 {
		t.Errorf("session_resume: got %v", got)
	}
}

// If the context ends, Resume returns its cause.
func TestInterrupted(t *testing.T) {
	b := paused(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	b.changesFn = func(context.Context) error { cancel(errPort); return ctx.Err() }
	if _, err := b.r.Resume(ctx); !errors.Is(err, errPort) {
		t.Errorf("Resume: got %v, want the cause", err)
	}
}

// Mark is called at the end of each phase, and not for a phase that did not end.
func TestMarks(t *testing.T) {
	b := paused(t)
	var got []session.ResumePhase
	b.r.Mark = func(p session.ResumePhase) { got = append(got, p) }
	if _, err := b.resume(); err != nil {
		t.Fatal(err)
	}
	if want := []session.ResumePhase{session.PhaseEnvironment, session.PhasePlan}; !slices.Equal(got, want) {
		t.Errorf("Mark: got %v, want %v", got, want)
	}
	got = nil
	b.to(session.Cancelled)
	if _, err := b.resume(); err == nil || len(got) != 0 {
		t.Errorf("Mark of a refused resume: got %v, %v", got, err)
	}
}

// An obstacle at the path of a step in progress is a change of the environment. Any other
// error is returned unchanged. The hint names the workspace if it is another one.
func TestInTheWay(t *testing.T) {
	for name, c := range map[string]struct {
		fails error
		want  session.Code
		next  string
	}{
		"directory": {&session.Error{Code: session.ErrFileStep, Message: "f is a directory"}, session.ErrEnvironment, "move it away, then: [resume abc123 /moved]"},
		"link":      {&session.Error{Code: session.ErrEscape, Message: "f is a link"}, session.ErrEnvironment, "move it away, then: [resume abc123 /moved]"},
		"disk":      {&session.Error{Code: session.ErrStoreIO, Message: "the disk", Next: session.Words("see to it")}, session.ErrStoreIO, "see to it"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, usual())
			b.acquired("{}")
			b.started(id("t", "w"), session.KindWrite, session.Transition{Path: "w.txt"})
			b.fails["inspect"] = c.fails
			_, err := b.resume()
			var e *session.Error
			if !errors.As(err, &e) || e.Code != c.want || e.Next.String() != c.next {
				t.Errorf("Resume: got %+v, want %s with next %q", err, c.want, c.next)
			}
		})
	}
}

// E5: a command in progress without a record was never started, unless records of other
// commands are missing too. The records from before a fork belong to the session before
// the fork.
func TestMissingRecords(t *testing.T) {
	p := &session.Plan{Version: 1, Task: "test", Tasks: []session.Task{{ID: "t", Steps: []session.Step{
		{ID: "a", Kind: session.KindRun, Run: &session.Run{Shell: "a"}}, {ID: "b", Kind: session.KindRun, Run: &session.Run{Shell: "b"}}}}}}
	first, second := session.StepID{Task: "t", Step: "a"}, session.StepID{Task: "t", Step: "b"}
	for name, c := range map[string]struct {
		// done says that the first command is completed.
		done   bool
		forked *session.ForkPoint
		want   session.Action
	}{
		"first_command":  {false, nil, session.ActionProceed},
		"records_gone":   {true, nil, session.ActionDecide},
		"forked_session": {true, &session.ForkPoint{Session: sessionID, Seq: 1}, session.ActionProceed},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, p)
			b.sess, b.events = &session.Session{}, nil
			b.add(session.Draft{Type: session.SessionCreated, Data: session.SessionCreatedData{V: 1, Short: "abc123", Task: "test", Workspace: "/ws", Tasks: 1, Steps: 2, ForkedFrom: c.forked}})
			b.acquired("{}")
			at := 0
			if b.started(first, session.KindRun); c.done {
				b.completed(first)
				b.started(second, session.KindRun)
				at = 1
			}
			b.record = session.CommandRecord{State: session.CommandUnclaimed}
			ready, err := b.resume()
			if err != nil || ready.Next.Items[at].Action != c.want {
				t.Errorf("Resume: got %+v, %v, want %s", ready.Next.Items, err, c.want)
			}
		})
	}
}

// The record of the newest completed command decides, not the last one in the plan. A
// partial restore from a backup has only older records.
func TestNewestRecordTells(t *testing.T) {
	p := plan(session.Task{ID: "second", DependsOn: []string{"first"}, Steps: []session.Step{command("a"), command("b")}},
		session.Task{ID: "first", Steps: []session.Step{command("a")}})
	older, newest, now := id("first", "a"), id("second", "a"), id("second", "b")
	for kept, want := range map[session.StepID]session.Action{older: session.ActionDecide, newest: session.ActionProceed} {
		b := newBench(t, p)
		b.acquired("{}")
		for _, done := range []session.StepID{older, newest} {
			b.started(done, session.KindRun)
			b.completed(done)
		}
		b.started(now, session.KindRun)
		b.record = session.CommandRecord{State: session.CommandUnclaimed}
		b.kept = map[string]session.CommandRecord{key(kept, 1): {State: session.CommandFinished}}
		ready, err := b.resume()
		if err != nil || ready.Next.Items[ready.Next.InProgress[0]].Action != want {
			t.Errorf("only the record of %s is kept: got %+v, %v, want %s", kept, ready.Next.Items, err, want)
		}
	}
}

// A person can give a value only for a command with a capture and an unknown outcome. For
// another step the value is refused and nothing changes.
func TestValueForAStepThatWaitsForNone(t *testing.T) {
	for _, c := range []struct {
		name   string
		status session.CommandState
		given  session.StepID
		want   error
	}{
		{"unknown", session.CommandUnknown, id("t", "make"), nil},
		{"finished", session.CommandFinished, id("t", "make"), session.ErrUsage},
		{"pending", session.CommandUnknown, id("t", "w"), session.ErrUsage},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := usual()
			p.Tasks[0].Steps[0].Run.Capture = "V"
			b := newBench(t, p)
			b.acquired("{}")
			b.started(id("t", "make"), session.KindRun)
			b.record = session.CommandRecord{State: c.status}
			b.r.Options.Captures = map[session.StepID]string{c.given: "1"}
			if _, err := b.resume(); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("Resume: got %v, want %v", err, c.want)
			}
		})
	}
}
