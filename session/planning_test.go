package session_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/session"
)

// A request in words begins with a plan of one step. The tasks that a model proposes wait
// for it.
func TestPlanOfARequest(t *testing.T) {
	p := session.PlanningPlan("Release the shop\nand tell everyone", "m")
	s := &session.Session{Steps: map[session.StepID]*session.StepState{}}
	if p.Task != "Release the shop …" || p.Steps() != 1 || !p.Planning(s) || !p.Tasks[0].Steps[0].Prompt.Plans {
		t.Fatalf("PlanningPlan: %+v", p)
	}
	proposed := &session.Plan{Version: 1, Task: "other", MaxParallel: 3, Tasks: []session.Task{{ID: "a", Steps: make([]session.Step, 2)}, {ID: "b", DependsOn: []string{"a"}, Steps: make([]session.Step, 1)}}}
	whole := p.Adopt(proposed)
	if len(whole.Tasks) != 3 || whole.Task != p.Task || whole.MaxParallel != 3 || whole.Steps() != 4 || len(proposed.Tasks[0].DependsOn) != 0 {
		t.Fatalf("Adopt: %+v", whole)
	}
	if d := cmp.Diff([][]string{nil, {"plan"}, {"a"}}, [][]string{whole.Tasks[0].DependsOn, whole.Tasks[1].DependsOn, whole.Tasks[2].DependsOn}); d != "" {
		t.Errorf("dependencies (-want +got):\n%s", d)
	}
	p.MaxParallel = 2 // the person said so
	if got := p.Adopt(proposed).MaxParallel; got != 2 {
		t.Errorf("max_parallel of the person: got %d", got)
	}
	s.Steps[session.PlanningStep()] = &session.StepState{Status: session.StepDone}
	if whole.Planning(s) || whole.Planning(&session.Session{}) != true {
		t.Error("Planning is wrong after the planning")
	}
}

// A plan is adopted once, at the end of its planning.
func TestAdopted(t *testing.T) {
	s, add, call := talked(t)
	d := session.PlanAdoptedData{StepID: call.Of(), Plan: session.BlobRef{Hash: "p"}, Tasks: 2, Steps: 3}
	if err := add(session.PlanAdopted, d); err != nil || s.Tasks != 2 || s.StepTotal != 3 || s.Plan.Hash != "p" {
		t.Fatalf("adopted: %v, %+v", err, s)
	}
	for name, wrong := range map[string]session.PlanAdoptedData{
		"no_step":       {StepID: session.StepID{Task: "x", Step: "y"}, Steps: 3},
		"nothing_to_do": {StepID: call.Of(), Steps: 1},
	} {
		_, add, _ := talked(t)
		if err := add(session.PlanAdopted, wrong); !errors.Is(err, session.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, add, _ = talked(t)
	for _, wrong := range []session.ContextReducedData{{StepID: call.Of()}, {StepID: call.Of(), Replies: 9}, {StepID: call, Replies: 1}} {
		if err := add(session.ContextReduced, wrong); !errors.Is(err, session.ErrConflict) {
			t.Errorf("%+v: %v", wrong, err)
		}
		_, add, _ = talked(t)
	}
}

// The question about a call shows the call, with secrets masked.
func TestGateOfACall(t *testing.T) {
	g := session.CallGateOf(session.ApprovalRequestedData{StepID: session.StepID{Task: "a", Step: "b", Op: "c1.1"}, Question: "May hunter2?", Detail: []string{"echo hunter2", "in the workspace"}, Offer: "rule"})
	shown := g.Redacted(func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") })
	if d := cmp.Diff([]string{"A yes does this:", "  echo ***", "  in the workspace"}, shown.Lines()); d != "" || shown.Question != "May ***?" || g.Call.Does[0] != "echo hunter2" || shown.Call.Offer != "rule" {
		t.Errorf("shown %+v (-want +got):\n%s", shown, d)
	}
}

// A long answer of a model is cut for people.
func TestAnswerLines(t *testing.T) {
	if got := session.AnswerLines(" \n"); got != nil {
		t.Errorf("nothing: %q", got)
	}
	if got := session.AnswerLines("one\ntwo\n"); len(got) != 2 {
		t.Errorf("two lines: %q", got)
	}
	if got := session.AnswerLines(strings.Repeat("line\n", 50)); len(got) != 21 || got[20] != "… and 30 more lines" {
		t.Errorf("fifty lines: %q", got)
	}
	if n := (session.Usage{Input: 2, Output: 3}).Tokens(); n != 5 {
		t.Errorf("Tokens: %d", n)
	}
}

// The hint of several questions names the call, and a question that is asked again keeps
// its call.
func TestQuestionsNameTheirCall(t *testing.T) {
	step := session.StepID{Task: "fix", Step: "code"}
	s := &session.Session{Short: "abc123", Epoch: 2, Steps: map[session.StepID]*session.StepState{
		step: {StepID: step, LastSeq: 7, Status: session.InProgress, Approval: &session.Approval{Digest: "d", Op: "n3", Call: "c", Offer: "o", Answer: "granted", For: 1, Asked: 5}},
	}}
	drafts := s.Answered(session.Request{Kind: session.RequestApprove, Step: step, Digest: "d", Asked: 7, By: "ann"}, 3, session.ApprovalRequestedData{Question: "Again?"})
	if len(drafts) != 2 {
		t.Fatalf("Answered: %+v", drafts)
	}
	if d := drafts[0].Data.(session.ApprovalRequestedData); d.Call != "c" || d.Offer != "o" || d.Op != "n3" || d.Question != "Again?" {
		t.Errorf("the question asked again is %+v", d)
	}
	other := session.StepID{Task: "fix", Step: "more"}
	s.Steps[step].Approval.Answer = ""
	s.Steps[other] = &session.StepState{StepID: other, Approval: &session.Approval{Digest: "e", Op: "c1.2"}}
	c := session.Continuation{Items: []session.Item{{ID: step}, {ID: other}}}
	if h := c.Ask(session.MoveApprove, s); h.Step.String() != "fix/code/n3" {
		t.Errorf("Ask: got %s", h.Step)
	}
}
