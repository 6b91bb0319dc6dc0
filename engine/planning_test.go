package engine_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/session"
)

const (
	badPlan  = `{"calls": [{"id": "1", "tool": "propose_plan", "arguments": {"tasks": []}}]}`
	goodPlan = `{"calls": [{"id": "2", "tool": "propose_plan", "arguments": {"tasks": [{"id": "build", "steps": [{"id": "make", "kind": "write", "changes": [{"op": "write", "path": "a", "content": "one"}]}]}]}}]}`
)

// newPlanned is a world whose session begins with a request in words.
func newPlanned(t *testing.T, replies ...string) *prompted {
	t.Helper()
	w := newPrompted(t, session.Prompt{}, replies...)
	w.world = newWorld(t, session.PlanningPlan("Build it", "m"))
	return w
}

// planning returns a process whose person gives these answers about plans.
func (w *prompted) planning(answers ...engine.Answer) *process {
	p := w.deciding(answers...)
	p.prompting.Propose = func(raw []byte) (engine.Proposal, error) {
		var plan session.Plan
		if err := json.Unmarshal(raw, &plan); err != nil || len(plan.Tasks) == 0 {
			return engine.Proposal{}, &session.Error{Code: session.ErrPlan, Message: "a plan has tasks"}
		}
		return engine.Proposal{Plan: &plan, Lines: []string{"Write a"}, Asks: true}, nil
	}
	return p
}

// An adopted plan is the plan of the session. The planning itself changes nothing else.
func TestPlanIsAdopted(t *testing.T) {
	w := newPlanned(t, `{"text": "Ready."}`, badPlan, goodPlan, goodPlan)
	wantResult(t, w.planning(engine.Answer{Reason: "again"}, engine.Answer{Granted: true}).must(), session.Executing, "", "")
	if got := payload[session.PlanAdoptedData](w.world, session.PlanAdopted); got.Tasks != 2 || got.Steps != 2 || w.sess.StepTotal != 2 || w.sess.Plan.Hash != got.Plan.Hash {
		t.Errorf("adopted %+v, the session has %d steps", got, w.sess.StepTotal)
	}
	told := strings.Join(append(w.told(), w.said()...), "\n")
	for _, want := range []string{"DENIED by the user: again", "NOT CARRIED OUT: a plan has tasks", "You answered without a plan"} {
		if !strings.Contains(told, want) {
			t.Errorf("the model was told %q, without %q", told, want)
		}
	}
	if len(w.files) > 0 || w.sess.State != session.Executing {
		t.Errorf("after the planning: files %v, %s", w.files, w.sess.State)
	}
}

// While the plan is made the session is planning, and no answer is used twice.
func TestPlanningAfterEachKill(t *testing.T) {
	yes := []engine.Answer{{Granted: true}, {Granted: true}}
	calm := newPlanned(t, badPlan, goodPlan)
	calm.planning(yes...).must()
	for k := 1; k <= calm.calls; k++ {
		w := newPlanned(t, badPlan, goodPlan)
		w.crashAt, w.happened = k, true
		for runs := 0; w.sess.StepTotal < 2; runs++ {
			if w.sess.Epoch > 0 && w.sess.State != session.Planning && w.sess.State != session.AwaitingApproval {
				t.Fatalf("killed at call %d: the session is %s", k, w.sess.State)
			}
			if _, crashed, err := w.planning(yes...).run(); err != nil || runs > 2 || crashed != (runs == 0) {
				t.Fatalf("killed at call %d, run %d: crashed %t, %v", k, runs, crashed, err)
			}
		}
		if n := w.count("person asked"); n < 1 || n > 2 || w.sess.Done != 1 {
			t.Errorf("killed at call %d: the person was asked %d times, %d steps are done", k, n, w.sess.Done)
		}
	}
}

// Without a valid plan after three that went back, the planning ends.
func TestNoPlan(t *testing.T) {
	w := newPlanned(t, badPlan, badPlan, badPlan, badPlan, goodPlan)
	wantResult(t, w.planning().must(), session.Paused, session.ReasonPlanning, session.ErrPlanning)
	if len(w.asked) != 4 {
		t.Errorf("the model was asked %d times", len(w.asked))
	}
	wantResult(t, w.planning(engine.Answer{Granted: true}).must(), session.Executing, "", "")
}

// PlanOnly pauses the session with the plan. The person can answer later.
func TestPlanOnly(t *testing.T) {
	w := newPlanned(t, goodPlan)
	p := w.planning()
	p.prompting.PlanOnly = true
	wantResult(t, p.must(), session.Paused, session.ReasonApproval, "")
	if w.count("person asked") > 0 {
		t.Error("the person was asked")
	}
	p = w.planning()
	p.person.permit = func(_ context.Context, question, _ string) (engine.Answer, error) {
		if question != "Carry out this plan?" {
			t.Errorf("question: %q", question)
		}
		return engine.Answer{Granted: true}, nil
	}
	wantResult(t, p.must(), session.Executing, "", "")
}
