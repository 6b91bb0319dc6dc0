package session_test

import (
	"errors"
	"testing"

	"github.com/acode-dev/acode/session"
)

// talked is a session whose model asked for one call.
func talked(t *testing.T) (s *session.Session, add func(session.EventType, any) error, call session.StepID) {
	t.Helper()
	s = &session.Session{}
	add = func(typ session.EventType, data any) error {
		e := event(s, typ, data)
		if typ == session.ExecutionAcquired {
			e.Epoch++
			e.Hash = e.ChainHash(s.Head)
		}
		_, err := s.Apply(e)
		return err
	}
	step := session.StepID{Task: "fix", Step: "code"}
	op := session.TurnID(step, 1)
	for _, e := range []struct {
		typ  session.EventType
		data any
	}{
		{session.SessionCreated, session.SessionCreatedData{V: 1, Tasks: 1, Steps: 1}},
		{session.StateChanged, session.StateChangedData{From: session.Created, To: session.Planning}},
		{session.ExecutionAcquired, session.ExecutionAcquiredData{Device: "d", Host: "h", PID: 1}},
		{session.StateChanged, session.StateChangedData{From: session.Planning, To: session.Executing}},
		{session.StepStarted, session.StepStartedData{StepID: step, Kind: session.KindPrompt, Key: session.KeyOf(sid, step, 1).String(), Attempt: 1}},
		{session.MessageAdded, session.MessageAddedData{StepID: step, Kind: session.MessagePrompt, Text: "do it"}},
		{session.ModelAsked, session.ModelAskedData{StepID: op, Key: session.KeyOf(sid, op, 1).String(), Attempt: 1}},
	} {
		if err := add(e.typ, e.data); err != nil {
			t.Fatal(err)
		}
	}
	answered := session.ModelAnsweredData{StepID: op, Key: session.KeyOf(sid, op, 1).String(), Attempt: 1, Request: s.Steps[step].Talk.Digest, Calls: 1, Usage: session.Usage{Input: 5, Output: 2, Cost: 9}}
	if err := add(session.ModelAnswered, answered); err != nil {
		t.Fatal(err)
	}
	return s, add, session.TurnCallID(step, 1, 1)
}

// A question about a call is for this call, and its answer is used once.
func TestDeniedCall(t *testing.T) {
	_, add, call := talked(t)
	starts := session.OperationStartedData{StepID: call, Kind: session.KindRun, Key: session.KeyOf(sid, call, 1).String(), Attempt: 1, Call: &session.Call{Tool: "run_command"}}
	other := call
	other.Op = "c1.2"
	if err := add(session.ApprovalRequested, session.ApprovalRequestedData{StepID: other, Digest: "d"}); !errors.Is(err, session.ErrConflict) {
		t.Fatalf("a question about a call that does not exist: %v", err)
	}
	_, add, _ = talked(t)
	if err := errors.Join(add(session.ApprovalRequested, session.ApprovalRequestedData{StepID: call, Digest: "d"}),
		add(session.ApprovalDenied, session.ApprovalDeniedData{StepID: call, Digest: "d", By: "ann"})); err != nil {
		t.Fatal(err)
	}
	if err := add(session.OperationStarted, starts); !errors.Is(err, session.ErrConflict) {
		t.Errorf("a denied call starts: %v", err)
	}
	s, add, _ := talked(t)
	if err := errors.Join(add(session.ApprovalRequested, session.ApprovalRequestedData{StepID: call, Digest: "d", Offer: "rule"}),
		add(session.ApprovalGranted, session.ApprovalGrantedData{StepID: call, Digest: "d", By: "ann", For: 1, Scope: session.ScopeSession}),
		add(session.OperationStarted, starts)); err != nil {
		t.Fatal(err)
	}
	if s.Steps[call.Of()].Approval != nil || s.Rules != "rule\n" {
		t.Errorf("after the call began: %+v, rules %q", s.Steps[call.Of()].Approval, s.Rules)
	}
}

// All requests count, also those that were cut off.
func TestSpent(t *testing.T) {
	s, add, call := talked(t)
	op := session.TurnID(call.Of(), 2)
	if err := errors.Join(add(session.MessageAdded, session.MessageAddedData{StepID: call, Kind: session.MessageDenied, Text: "no"}),
		add(session.ModelAsked, session.ModelAskedData{StepID: op, Key: session.KeyOf(sid, op, 1).String(), Attempt: 1}),
		add(session.ModelFailed, session.ModelFailedData{StepID: op, Key: session.KeyOf(sid, op, 1).String(), Attempt: 1, Usage: session.Usage{Input: 10, Estimated: true}})); err != nil {
		t.Fatal(err)
	}
	if n, used := s.Spent(); n != 2 || used != (session.Usage{Input: 15, Output: 2, Cost: 9, Estimated: true}) {
		t.Errorf("Spent: %d requests, %+v", n, used)
	}
}
