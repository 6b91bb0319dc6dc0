package session_test

import (
	"errors"
	"testing"

	"github.com/acode-dev/acode/session"
)

var fix = session.StepID{Task: "fix", Step: "code"}

// talking returns a session with a conversation whose first reply has two calls.
func talking(t *testing.T) *session.Session {
	t.Helper()
	s := in(t, session.Executing)
	apply(t, s, session.StepStarted, session.StepStartedData{StepID: fix, Kind: session.KindPrompt, Key: key(fix, 1), Attempt: 1})
	apply(t, s, session.MessageAdded, session.MessageAddedData{StepID: fix, Kind: session.MessagePrompt, Text: "do it"})
	apply(t, s, session.ModelAsked, asked(1, 1))
	apply(t, s, session.ModelAnswered, reply(s, 1, 1, 2))
	return s
}

func requestKey(turn, attempt int) string {
	return session.KeyOf(sid, session.TurnID(fix, turn), attempt).String()
}

func asked(turn, attempt int) session.ModelAskedData {
	return session.ModelAskedData{StepID: session.TurnID(fix, turn), Key: requestKey(turn, attempt), Attempt: attempt, Render: 1}
}

func reply(s *session.Session, turn, attempt, calls int) session.ModelAnsweredData {
	return session.ModelAnsweredData{StepID: session.TurnID(fix, turn), Key: requestKey(turn, attempt), Attempt: attempt, Request: s.Steps[fix].Talk.Digest, Calls: calls,
		Usage: session.Usage{Input: 10, Output: 2}}
}

func callStarted(turn, n int) session.OperationStartedData {
	id := session.TurnCallID(fix, turn, n)
	return session.OperationStartedData{StepID: id, Kind: session.KindRun, Key: session.KeyOf(sid, id, 1).String(), Attempt: 1, Call: &session.Call{Tool: "run_command"}}
}

func callDone(turn, n int) session.OperationCompletedData {
	id := session.TurnCallID(fix, turn, n)
	return session.OperationCompletedData{StepID: id, Key: session.KeyOf(sid, id, 1).String(), Attempt: 1}
}

// The head of a conversation counts turns, keeps the open request, and sums the usage.
// The next request removes the calls of the reply from the projection.
func TestConversation(t *testing.T) {
	s := talking(t)
	apply(t, s, session.OperationStarted, callStarted(1, 1))
	apply(t, s, session.OperationCompleted, callDone(1, 1))
	if len(s.Ops) != 1 || s.Calls != 0 {
		t.Errorf("after a call: got %d operations, %d calls of an outside agent, want 1 and 0", len(s.Ops), s.Calls)
	}
	d := apply(t, s, session.ModelAsked, asked(2, 1))
	if len(s.Ops) != 0 || len(d.Ops) != 1 {
		t.Errorf("the next request: got %d operations, delta %+v, want that the call is removed", len(s.Ops), d)
	}
	apply(t, s, session.ModelFailed, session.ModelFailedData{StepID: session.TurnID(fix, 2), Key: requestKey(2, 1), Attempt: 1, Code: session.ErrModel})
	apply(t, s, session.ModelAsked, asked(2, 2))
	apply(t, s, session.ModelAnswered, reply(s, 2, 2, 0))
	if k := s.Steps[fix].Talk; k.Turn != 2 || k.Attempt != 2 || k.Asked != 0 || k.Usage != (session.Usage{Input: 20, Output: 4}) {
		t.Errorf("the head: got %+v", *k)
	}
	apply(t, s, session.StepCompleted, session.StepCompletedData{StepID: fix, Key: key(fix, 1), Attempt: 1})
	if st := s.Steps[fix]; st.Status != session.StepDone || st.Talk.Turn != 2 {
		t.Errorf("completed: got %+v", st)
	}
}

// A further attempt of the step is another conversation, whose turns have new numbers. So
// no key of a call occurs twice.
func TestConversationOfAFurtherAttempt(t *testing.T) {
	s := talking(t)
	apply(t, s, session.StepFailedEvent, session.StepFailedData{StepID: fix, Key: key(fix, 1), Attempt: 1, Code: session.ErrCommand})
	apply(t, s, session.StepStarted, session.StepStartedData{StepID: fix, Kind: session.KindPrompt, Key: key(fix, 2), Attempt: 2})
	apply(t, s, session.MessageAdded, session.MessageAddedData{StepID: fix, Kind: session.MessagePrompt, Text: "do it"})
	refuses(t, s, session.ModelAsked, asked(1, 1), "a request of the attempt before")
	apply(t, s, session.ModelAsked, asked(2, 1))
	if k := s.Steps[fix].Talk; k.Base != 1 || k.First != s.LastSeq-1 {
		t.Errorf("the head: got %+v, want that it counts from here", *k)
	}
}

func refuses(t *testing.T, s *session.Session, kind session.EventType, data any, why string) {
	t.Helper()
	copied, before := *s, *s.Steps[fix].Talk
	if _, err := copied.Apply(event(s, kind, data)); !errors.Is(err, session.ErrConflict) {
		t.Errorf("%s: got %v, want ErrConflict", why, err)
	}
	*s.Steps[fix].Talk = before
}

// A conversation accepts only the event that comes next.
func TestConversationRefuses(t *testing.T) {
	s := talking(t)
	refuses(t, s, session.ModelAsked, asked(3, 1), "a turn is left out")
	refuses(t, s, session.ModelAsked, asked(2, 2), "a second attempt without a first")
	refuses(t, s, session.ModelAnswered, reply(s, 1, 1, 0), "a second reply")
	refuses(t, s, session.OperationStarted, callStarted(1, 3), "a call that is not in the reply")
	refuses(t, s, session.OperationStarted, callStarted(2, 1), "a call of another turn")
	refuses(t, s, session.MessageAdded, session.MessageAddedData{StepID: session.TurnCallID(fix, 1, 3), Kind: session.MessageRefused}, "the result of an unknown call")
	refuses(t, s, session.MessageAdded, session.MessageAddedData{StepID: fix, Kind: session.MessageRefused}, "a refusal of no call")
	apply(t, s, session.OperationStarted, callStarted(1, 1))
	refuses(t, s, session.ModelAsked, asked(2, 1), "a request while a call is in progress")
	refuses(t, s, session.StepCompleted, session.StepCompletedData{StepID: fix, Key: key(fix, 1), Attempt: 1}, "an end while a call is in progress")
	refuses(t, s, session.MessageAdded, session.MessageAddedData{StepID: session.TurnCallID(fix, 1, 1), Kind: session.MessageRefused}, "a refusal of a call with an intent")
	apply(t, s, session.OperationCompleted, callDone(1, 1))
	refuses(t, s, session.OperationsSettled, session.OperationsSettledData{StepID: fix, Ops: []string{"c1.1"}}, "a call of a model is settled")
	apply(t, s, session.ModelAsked, asked(2, 1))
	refuses(t, s, session.StepCompleted, session.StepCompletedData{StepID: fix, Key: key(fix, 1), Attempt: 1}, "an end while the model is asked")
	refuses(t, s, session.MessageAdded, session.MessageAddedData{StepID: fix, Kind: session.MessageResumed}, "a message after the request")
	wrong := reply(s, 2, 1, 0)
	wrong.Request = "0"
	refuses(t, s, session.ModelAnswered, wrong, "a reply to another conversation")
}

// Every event of a conversation changes its digest, so a reply belongs to exactly the
// messages that its request had.
func TestDigestHasTheLastMessage(t *testing.T) {
	for _, text := range []string{"exit 0", "exit 1"} {
		s := talking(t)
		apply(t, s, session.OperationStarted, callStarted(1, 1))
		was := s.Steps[fix].Talk.Digest
		d := callDone(1, 1)
		d.Matches = &session.Output{Text: text}
		apply(t, s, session.OperationCompleted, d)
		if s.Steps[fix].Talk.Digest == was {
			t.Errorf("the receipt %q is not in the digest", text)
		}
		was = s.Steps[fix].Talk.Digest
		apply(t, s, session.MessageAdded, session.MessageAddedData{StepID: fix, Kind: session.MessageResumed, Text: text})
		if s.Steps[fix].Talk.Digest == was {
			t.Errorf("the message %q is not in the digest", text)
		}
	}
}

func TestTurnCall(t *testing.T) {
	if turn, n, ok := session.TurnCall("c7.2"); turn != 7 || n != 2 || !ok {
		t.Errorf("c7.2: got %d, %d, %v", turn, n, ok)
	}
	for _, op := range []string{"", "c7", "c7.", "c07.1", "c7.0", "c0.1", "n7", "7.1", "c7.1.1", "c+7.1"} {
		if _, _, ok := session.TurnCall(op); ok {
			t.Errorf("%q is taken for a call of a model", op)
		}
	}
}
