package session_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/session"
)

// TestFacts checks the notices for two attempts and a question, and the result of the
// session after each event.
func TestFacts(t *testing.T) {
	run, gate := session.StepID{Task: "t", Step: "run"}, session.StepID{Task: "t", Step: "gate"}
	p := &session.Plan{Task: "x", Tasks: []session.Task{{ID: "t", Steps: []session.Step{
		{ID: "run", Kind: session.KindRun, Run: &session.Run{Shell: "false"}}, {ID: "gate", Kind: session.KindApprove, Approve: "Ship ${V}?"},
	}}}}
	f := &session.Facts{Plan: p, Items: []session.Item{{ID: run, Task: 1, Step: 1, Label: "Run false", Kind: session.KindRun}, {ID: gate, Task: 1, Step: 2, Label: "Ship ${V}?", Kind: session.KindApprove}},
		Wrote: func(*session.CommandResult) []string { return []string{"it broke"} }}
	seq := uint64(0)
	of := func(kind session.EventType, data any) session.Notice {
		t.Helper()
		seq++
		e := event(&session.Session{LastSeq: seq - 1, LastUS: int64(seq-1) * 1000}, kind, data)
		e.TimeUS = int64(seq) * 1000
		n, told, err := f.Of(e, nil)
		if err != nil || told && (n.Seq != seq || n.TimeUS != e.TimeUS) {
			t.Fatalf("Of(%s): got %+v, %v", kind, n, err)
		}
		return n
	}
	stands := func(state session.State, code session.Code, signal int) {
		t.Helper()
		if r := f.Result(); r.State != state || r.Code != code || r.Signal != signal {
			t.Errorf("Result after %d events: got %+v, want %s, %q, signal %d", seq, r, state, code, signal)
		}
	}
	moved := func(to session.State, reason session.Reason, code session.Code, signal int) session.Notice {
		return of(session.StateChanged, session.StateChangedData{To: to, Reason: reason, Code: code, Signal: signal})
	}
	of(session.SessionCreated, session.SessionCreatedData{Short: "abc123", Task: "x", Tasks: 1, Steps: 2})
	moved(session.Executing, "", "", 0)
	for attempt, action := range []session.Action{session.ActionExecute, session.ActionRetry} {
		if n := of(session.StepStarted, session.StepStartedData{StepID: run, Kind: session.KindRun, Attempt: attempt + 1}); n.Kind != session.NoticeStarted || n.Item.Action != action {
			t.Errorf("attempt %d: got %+v", attempt+1, n)
		}
		stands(session.Executing, "", 9) // A process was killed and no other process executes the session.
		n := of(session.StepFailedEvent, session.StepFailedData{StepID: run, Attempt: attempt + 1, Message: "m", Command: &session.CommandResult{Exit: 1}})
		if n.Kind != session.NoticeFailed || n.Took != time.Millisecond || n.Text != "m" || !cmp.Equal(n.Detail, []string{"it broke"}) {
			t.Errorf("failure of attempt %d: got %+v", attempt+1, n)
		}
	}
	n := of(session.ApprovalRequested, session.ApprovalRequestedData{StepID: gate, Question: "Ship 1.4?"})
	moved(session.AwaitingApproval, session.ReasonApproval, "", 0)
	if n.Kind != session.NoticeAsking || n.Text != "Ship 1.4?" || n.Item.Label != "Ship 1.4?" {
		t.Errorf("question: got %+v", n)
	}
	stands(session.AwaitingApproval, session.ErrApproval, 0)
	moved(session.Executing, "", "", 0)
	if n := of(session.StepStarted, session.StepStartedData{StepID: gate, Kind: session.KindApprove, Attempt: 1}); n.Kind != "" {
		t.Errorf("an approve step that starts: want no notice besides its question, got %+v", n)
	}
	if n := of(session.StepCompleted, session.StepCompletedData{StepID: gate, Attempt: 1, By: "person"}); n.Kind != session.NoticeCompleted || n.Item.Label != "Ship 1.4?" {
		t.Errorf("answer: got %+v", n)
	}
	if n := moved(session.Paused, session.ReasonSignal, "", 15); n.Result == nil || n.Result.Signal != 15 || n.Result.Done != 1 || n.Result.Left != 1 || n.Result.Next.Do != session.MoveResume {
		t.Errorf("pause: got %+v", n.Result)
	}
	stands(session.Paused, "", 15)
	moved(session.Failed, "", session.ErrCommand, 0)
	stands(session.Failed, session.ErrCommand, 0)
	if _, _, err := f.Of(session.Event{Type: session.StepCompleted, Payload: []byte("{")}, nil); session.CodeOf(err) != session.ErrCorrupt {
		t.Errorf("a payload that cannot be read: got %v", err)
	}
}
