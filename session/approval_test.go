package session_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/acode-dev/acode/session"
)

// serving returns the session of an outside agent, in an epoch.
func serving(t *testing.T) *session.Session {
	t.Helper()
	s := in(t, session.Executing)
	id := session.CallsStep()
	apply(t, s, session.StepStarted, session.StepStartedData{StepID: id, Kind: session.KindCalls, Key: key(id, 1), Attempt: 1})
	return s
}

func agentCall(n int) session.StepID { return session.CallID(session.CallsStep(), n) }

func agentAsked(n int, digest string) session.ApprovalRequestedData {
	return session.ApprovalRequestedData{StepID: agentCall(n), Digest: digest, Call: "call " + digest, Question: "?", Offer: "a rule"}
}

func agentGranted(s *session.Session, n int, digest string) session.ApprovalGrantedData {
	return session.ApprovalGrantedData{StepID: agentCall(n), Digest: digest, By: "ann", For: s.Epoch}
}

func agentStarted(n int, approval string) session.OperationStartedData {
	id := agentCall(n)
	return session.OperationStartedData{StepID: id, Kind: session.KindRun, Key: session.KeyOf(sid, id, 1).String(), Attempt: 1, Approval: approval, Call: &session.Call{Tool: "run_command"}}
}

// The intent of an agent's call uses a yes that names another call with an equal digest.
// The yes is used once.
func TestApprovalOfAnAgentsCall(t *testing.T) {
	s := serving(t)
	apply(t, s, session.ApprovalRequested, agentAsked(1, "d"))
	if s.Calls != 1 {
		t.Errorf("the question used up %d numbers, want 1", s.Calls)
	}
	apply(t, s, session.ApprovalGranted, agentGranted(s, 1, "d"))
	delta := apply(t, s, session.OperationStarted, agentStarted(2, "d"))
	if s.Steps[session.CallsStep()].Approval != nil || len(delta.Steps) != 1 {
		t.Errorf("after its use: %+v, delta %+v", s.Steps[session.CallsStep()].Approval, delta)
	}
	if _, err := s.Apply(event(s, session.OperationStarted, agentStarted(3, "d"))); !errors.Is(err, session.ErrConflict) {
		t.Errorf("a second use: got %v", err)
	}
}

// An intent cannot use what is no yes for it, in this epoch.
func TestApprovalThatCannotBeUsed(t *testing.T) {
	for name, build := range map[string]func(*session.Session) (session.EventType, any){
		"never_asked": func(*session.Session) (session.EventType, any) { return session.OperationStarted, agentStarted(1, "d") },
		"not_answered": func(s *session.Session) (session.EventType, any) {
			apply(t, s, session.ApprovalRequested, agentAsked(1, "d"))
			return session.OperationStarted, agentStarted(2, "d")
		},
		"denied": func(s *session.Session) (session.EventType, any) {
			apply(t, s, session.ApprovalRequested, agentAsked(1, "d"))
			apply(t, s, session.ApprovalDenied, session.ApprovalDeniedData{StepID: agentCall(1), Digest: "d"})
			return session.OperationStarted, agentStarted(2, "d")
		},
		"another_digest": func(s *session.Session) (session.EventType, any) {
			apply(t, s, session.ApprovalRequested, agentAsked(1, "d"))
			apply(t, s, session.ApprovalGranted, agentGranted(s, 1, "d"))
			return session.OperationStarted, agentStarted(2, "e")
		},
		"of_the_next_epoch": func(s *session.Session) (session.EventType, any) {
			apply(t, s, session.ApprovalRequested, agentAsked(1, "d"))
			g := agentGranted(s, 1, "d")
			g.For++
			apply(t, s, session.ApprovalGranted, g)
			return session.OperationStarted, agentStarted(2, "d")
		},
		"of_an_epoch_that_ended": func(s *session.Session) (session.EventType, any) {
			apply(t, s, session.ApprovalRequested, agentAsked(1, "d"))
			g := agentGranted(s, 1, "d")
			g.For--
			apply(t, s, session.ApprovalGranted, g)
			return session.OperationStarted, agentStarted(2, "d")
		},
		"replaced_by_another_question": func(s *session.Session) (session.EventType, any) {
			apply(t, s, session.ApprovalRequested, agentAsked(1, "d"))
			apply(t, s, session.ApprovalGranted, agentGranted(s, 1, "d"))
			return session.ApprovalRequested, agentAsked(2, "e")
		},
		"by_a_step": func(s *session.Session) (session.EventType, any) {
			id := session.StepID{Task: "one", Step: "two"}
			apply(t, s, session.ApprovalRequested, session.ApprovalRequestedData{StepID: id, Digest: "d"})
			apply(t, s, session.ApprovalGranted, session.ApprovalGrantedData{StepID: id, Digest: "d", For: s.Epoch})
			return session.StepStarted, session.StepStartedData{StepID: id, Kind: session.KindRun, Key: key(id, 1), Attempt: 1, Approval: "d"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serving(t)
			kind, data := build(s)
			_, err := s.Apply(event(s, kind, data))
			if !errors.Is(err, session.ErrConflict) || !strings.Contains(err.Error(), "uses an approval that is not there") && !strings.Contains(err.Error(), "is not used yet") {
				t.Errorf("got %v, want %s", err, session.ErrConflict)
			}
		})
	}
}

// A yes to the call of a model is for that call only, also if another has the digest.
func TestApprovalOfAModelsCall(t *testing.T) {
	for n, refused := range map[int]bool{1: false, 2: true} {
		s := talking(t)
		id := session.TurnCallID(fix, 1, 1)
		apply(t, s, session.ApprovalRequested, session.ApprovalRequestedData{StepID: id, Digest: "d"})
		apply(t, s, session.ApprovalGranted, session.ApprovalGrantedData{StepID: id, Digest: "d", For: s.Epoch})
		d := callStarted(1, n)
		d.Approval = "d"
		_, err := s.Apply(event(s, session.OperationStarted, d))
		if errors.Is(err, session.ErrConflict) != refused {
			t.Errorf("call %d: got %v, refused %t", n, err, refused)
		}
		if !refused && s.Steps[fix].Approval != nil {
			t.Errorf("after its use: %+v", s.Steps[fix].Approval)
		}
	}
}

// A yes to more than one call of an agent leaves its rule and nothing else. The yes to
// one call cannot add a rule that was not offered.
func TestApprovalOfAnAgentForMore(t *testing.T) {
	s := serving(t)
	apply(t, s, session.ApprovalRequested, agentAsked(1, "d"))
	g := agentGranted(s, 1, "d")
	g.Scope = session.ScopeSession
	apply(t, s, session.ApprovalGranted, g)
	if s.Rules != "a rule\n" || s.Steps[session.CallsStep()].Approval != nil {
		t.Errorf("got the rules %q and %+v", s.Rules, s.Steps[session.CallsStep()].Approval)
	}
	q := agentAsked(2, "d")
	q.Offer = ""
	apply(t, s, session.ApprovalRequested, q)
	g.StepID = agentCall(2)
	if _, err := s.Apply(event(s, session.ApprovalGranted, g)); !errors.Is(err, session.ErrConflict) {
		t.Errorf("a rule that was not offered: got %v", err)
	}
}

// A person may say yes to a call of an agent after a no. The question is asked again.
func TestYesAfterANo(t *testing.T) {
	s := serving(t)
	apply(t, s, session.ApprovalRequested, agentAsked(1, "d"))
	apply(t, s, session.ApprovalDenied, session.ApprovalDeniedData{StepID: agentCall(1), Digest: "d"})
	r := session.Request{Kind: session.RequestApprove, Step: agentCall(1), Digest: "d", Asked: s.Steps[session.CallsStep()].LastSeq}
	if drafts := s.Answered(r, s.Epoch, session.ApprovalRequestedData{}); drafts != nil {
		t.Errorf("without the words of the question: %+v", drafts)
	}
	drafts := s.Answered(r, s.Epoch, agentAsked(1, "d"))
	for _, d := range drafts {
		apply(t, s, d.Type, d.Data)
	}
	if a := s.Steps[session.CallsStep()].Approval; len(drafts) != 2 || !a.Valid(s.Epoch) {
		t.Errorf("got %+v after %d events", a, len(drafts))
	}
}
