package session_test

import (
	"strings"
	"testing"

	"github.com/acode-dev/acode/session"
	"github.com/google/go-cmp/cmp"
)

// NFR-012: an answer fits one question and counts once, and a yes is for one epoch. A no
// can follow a yes.
func TestAnswered(t *testing.T) {
	step := session.StepID{Task: "t", Step: "gate"}
	const asked, granted, denied = session.ApprovalRequested, session.ApprovalGranted, session.ApprovalDenied
	for name, c := range map[string]struct {
		kind     session.RequestKind
		approval *session.Approval
		status   session.Status
		// last is the seq of the question.
		last uint64
		want []session.EventType
	}{
		"yes":                     {session.RequestApprove, &session.Approval{Digest: "d"}, session.Pending, 7, []session.EventType{granted}},
		"no":                      {session.RequestDeny, &session.Approval{Digest: "d"}, session.Pending, 7, []session.EventType{denied}},
		"no_after_yes":            {session.RequestDeny, &session.Approval{Digest: "d", Answer: "granted", For: 4}, session.Pending, 8, []session.EventType{denied}},
		"yes_that_lapsed":         {session.RequestApprove, &session.Approval{Digest: "d", Answer: "granted", For: 2}, session.Pending, 7, []session.EventType{asked, granted}},
		"yes_twice":               {session.RequestApprove, &session.Approval{Digest: "d", Answer: "granted", For: 4}, session.Pending, 7, nil},
		"yes_after_no":            {session.RequestApprove, &session.Approval{Digest: "d", Answer: "denied"}, session.Pending, 7, nil},
		"no_twice":                {session.RequestDeny, &session.Approval{Digest: "d", Answer: "denied"}, session.Pending, 7, nil},
		"yes_to_an_older_asking":  {session.RequestApprove, &session.Approval{Digest: "d"}, session.Pending, 9, nil},
		"yes_to_another_question": {session.RequestApprove, &session.Approval{Digest: "other"}, session.Pending, 7, nil},
		"yes_when_it_is_done":     {session.RequestApprove, &session.Approval{Digest: "d"}, session.StepDone, 7, nil},
		"nothing_was_asked":       {session.RequestApprove, nil, session.Pending, 7, nil},
		"a_cancel":                {session.RequestCancel, &session.Approval{Digest: "d"}, session.Pending, 7, nil},
	} {
		s := &session.Session{Epoch: 3, Steps: map[session.StepID]*session.StepState{step: {StepID: step, Status: c.status, Approval: c.approval, LastSeq: c.last}}}
		var got []session.EventType
		for _, d := range s.Answered(session.Request{Kind: c.kind, Step: step, Digest: "d", Asked: 7, By: "ann"}, 4, session.ApprovalRequestedData{Question: "Go on?"}) {
			got = append(got, d.Type)
			if g, ok := d.Data.(session.ApprovalGrantedData); ok && (g.For != 4 || g.By != "ann") {
				t.Errorf("%s: got a yes of %s for epoch %d", name, g.By, g.For)
			}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	if got := (&session.Session{}).Answered(session.Request{Kind: session.RequestApprove, Step: step}, 1, session.ApprovalRequestedData{}); got != nil {
		t.Errorf("of a step that nothing is known of: got %v", got)
	}
}

// A captured value is text of at most 64 KiB, without surrounding space.
func TestCaptureValue(t *testing.T) {
	for raw, want := range map[string]string{" 1.4\n": "1.4", "": "", "a\nb\n": "a\nb", strings.Repeat("x", session.MaxCaptureBytes): strings.Repeat("x", session.MaxCaptureBytes)} {
		if got, err := session.CaptureValue("V", raw); err != nil || got != want {
			t.Errorf("CaptureValue of %.10q: got %.10q, %v", raw, got, err)
		}
	}
	for raw, want := range map[string]string{strings.Repeat("x", session.MaxCaptureBytes+1): "longer than 64 KiB", strings.Repeat(" ", 2*session.MaxCaptureBytes): "longer than 64 KiB", "a\x00b": "is not text", "\xff": "is not text"} {
		if _, err := session.CaptureValue("V", raw); session.CodeOf(err) != session.ErrCommand || !strings.Contains(err.Error(), want) {
			t.Errorf("CaptureValue of %.10q: got %v, want %q", raw, err, want)
		}
	}
}

// Foresee names the sources of a decision in the order in which acode asks them.
func TestForesee(t *testing.T) {
	for want, c := range map[string]struct {
		run  session.Run
		said session.OnInterrupt
	}{
		"a person must decide":       {session.Run{}, ""},
		"on_interrupt says done":     {session.Run{OnInterrupt: session.InterruptDone}, ""},
		"the given answer says fail": {session.Run{OnInterrupt: session.InterruptDone}, session.InterruptFails},
		"its check decides; if the check cannot, on_interrupt says rerun": {session.Run{Check: "true", OnInterrupt: session.InterruptReruns}, ""},
	} {
		if got := c.run.Foresee(c.said); got != want {
			t.Errorf("Foresee: got %q, want %q", got, want)
		}
	}
	if got := (session.Run{OnInterrupt: session.InterruptDone}).Foresee(session.InterruptAsks); got != "a person must decide" {
		t.Errorf("Foresee: got %q where the answer is to ask", got)
	}
}

// A step is written as task/step. Any other text is refused.
func TestParseStepID(t *testing.T) {
	id := session.StepID{Task: "build", Step: "1"}
	if got, err := session.ParseStepID(id.String()); err != nil || got != id {
		t.Errorf("ParseStepID: got %v, %v, want %v", got, err, id)
	}
	op := session.StepID{Task: "calls", Step: "calls", Op: "n12"}
	if got, err := session.ParseStepID("calls/calls/n12"); err != nil || got != op || op.String() != "calls/calls/n12" {
		t.Errorf("ParseStepID: got %v, %v, want %v", got, err, op)
	}
	for _, bad := range []string{"", "build", "build/", "/1", "a/b/", "a/b/c/d", "a b/1"} {
		if got, err := session.ParseStepID(bad); err == nil {
			t.Errorf("ParseStepID(%q): got %v, want an error", bad, got)
		}
	}
}

// A hint has words, a move or both. String shows them for logs and tests.
func TestHint(t *testing.T) {
	if !(session.Hint{}).IsZero() || session.Words("look").IsZero() || session.Do(session.MoveVerify, "").IsZero() {
		t.Error("IsZero: a hint is empty that has words or a move, or the other way round")
	}
	for want, h := range map[string]session.Hint{
		"look":                    session.Words("look"),
		"[resume abc123]":         session.Do(session.MoveResume, "abc123"),
		"[verify]":                session.Do(session.MoveVerify, ""),
		"make room: [resume abc]": session.Then("make room", session.MoveResume, "abc"),
	} {
		if got := h.String(); got != want {
			t.Errorf("String: got %q, want %q", got, want)
		}
	}
	p := &session.Plan{Tasks: []session.Task{{ID: "t", Steps: []session.Step{
		{ID: "a", Kind: session.KindRun, Run: &session.Run{Shell: "true"}}, {ID: "b", Kind: session.KindRun, Run: &session.Run{Shell: "true", Capture: "V"}}}}}}
	if h := p.Asks("abc", &session.Item{Task: 1, Step: 1}); h.Do != session.MoveAnswer {
		t.Errorf("Asks: got %v of a command without a capture", h)
	}
	if h := p.Asks("abc", &session.Item{Task: 1, Step: 2, ID: session.StepID{Task: "t", Step: "b"}}); h.Do != session.MoveGiveValue || h.Step.Step != "b" {
		t.Errorf("Asks: got %v of a command with a capture", h)
	}
}

// A session stands at the step in progress, else at the first remaining step. A session
// that waits for an answer stands at its newest question.
func TestWhereASessionStands(t *testing.T) {
	id := func(step string) session.StepID { return session.StepID{Task: "t", Step: step} }
	next := session.Continuation{Items: []session.Item{
		{ID: id("a"), Action: session.ActionSkip}, {ID: id("b"), Action: session.ActionRetry}, {ID: id("c"), Action: session.ActionProceed}, {ID: id("d"), Action: session.ActionExecute}}}
	s := &session.Session{State: session.Paused, Steps: map[session.StepID]*session.StepState{}}
	if it, ok := next.Stands(s); !ok || it.ID != id("b") {
		t.Errorf("Stands: got %v, want the first that is left", it.ID)
	}
	next.InProgress = []int{2}
	if it, ok := next.First(); !ok || it.ID != id("c") {
		t.Errorf("First: got %v, want the one in progress", it.ID)
	}
	s.Reason = session.ReasonApproval
	if it, _ := next.Stands(s); it.ID != id("c") {
		t.Errorf("Stands: got %v where nothing was asked", it.ID)
	}
	s.Steps[id("b")] = &session.StepState{Approval: &session.Approval{}, LastSeq: 5}
	s.Steps[id("d")] = &session.StepState{Approval: &session.Approval{}, LastSeq: 9}
	if it, _ := next.Stands(s); it.ID != id("d") {
		t.Errorf("Stands: got %v, want the newest question", it.ID)
	}
	over := session.Continuation{Items: []session.Item{{ID: id("a"), Action: session.ActionSkip}}}
	if it, ok := over.First(); ok {
		t.Errorf("First: got %v where nothing is left", it.ID)
	}
}
