package session_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/session"
)

// gates returns a plan with two gates and steps around them. The first step of each task
// is done.
func gates() (*session.Plan, *session.Continuation) {
	p := &session.Plan{Tasks: []session.Task{
		{ID: "one", Steps: []session.Step{
			{ID: "done", Kind: session.KindRun, Run: &session.Run{Shell: "done"}},
			{ID: "gate", Kind: session.KindApprove, Approve: "Go?"},
			{ID: "tag", Name: "Tag it", Kind: session.KindRun, Run: &session.Run{Shell: "git tag v1\ngit push\n"}},
		}},
		{ID: "two", Steps: []session.Step{
			{ID: "done", Kind: session.KindRun, Run: &session.Run{Shell: "done"}},
			{ID: "list", Kind: session.KindRun, Run: &session.Run{Argv: []string{"echo", "a b"}}},
			{ID: "files", Kind: session.KindChanges, Changes: []session.Change{{Op: session.KindDelete, Path: "a"}, {Op: session.KindMove, From: "b", To: "c"}}},
			{ID: "read", Kind: session.KindRead, Read: &session.Read{Path: "x"}},
			{ID: "gate", Kind: session.KindApprove, Approve: "More?"},
			{ID: "last", Kind: session.KindRun, Run: &session.Run{Shell: "last"}},
		}},
	}}
	c := &session.Continuation{}
	for i, t := range p.Tasks {
		for j, s := range t.Steps {
			it := session.Item{ID: session.StepID{Task: t.ID, Step: s.ID}, Task: i + 1, Step: j + 1, Kind: s.Kind, Label: s.Label(), Action: session.ActionExecute}
			if s.ID == "done" {
				it.Action = session.ActionSkip
			}
			c.Items = append(c.Items, it)
		}
	}
	return p, c
}

// After a yes, the remaining steps behind the gate run, up to the next gate.
func TestGateOf(t *testing.T) {
	p, c := gates()
	first := p.GateOf(c, session.StepID{Task: "one", Step: "gate"}, "Go, secret?")
	want := []string{
		"A yes runs, up to the next approval, two/gate:",
		"  Task 1, Step 3: Tag it", "      git tag v1", "      git push",
		"  Task 2, Step 2: echo 'a b'",
		"  Task 2, Step 3: Change 2 files", "      Delete a", "      Move b to c",
		"  Task 2, Step 4: Read x",
	}
	if diff := cmp.Diff(want, first.Lines()); diff != "" {
		t.Errorf("Lines (-want +got):\n%s", diff)
	}
	last := p.GateOf(c, session.StepID{Task: "two", Step: "gate"}, "More?")
	if diff := cmp.Diff([]string{"A yes runs:", "  Task 2, Step 6: last"}, last.Lines()); diff != "" {
		t.Errorf("Lines (-want +got):\n%s", diff)
	}
	masked := first.Redacted(func(s string) string { return strings.NewReplacer("secret", "***", "v1\ngit", "***").Replace(s) })
	if masked.Question != "Go, ***?" || masked.Steps[0].Does[0] != "git tag *** push" || first.Steps[0].Does[0] != "git tag v1" {
		t.Errorf("Redacted: got %+v, of %+v", masked, first)
	}
	c.Items = c.Items[:2]
	if got := p.GateOf(c, session.StepID{Task: "one", Step: "gate"}, "Go?").Lines(); got != nil {
		t.Errorf("Lines of the last gate: got %q", got)
	}
}

// If several tasks run at once, only some steps wait for the gate: the rest of its task
// and the tasks that depend on it. After a yes each of them runs up to its own next gate.
func TestGateOfSeveralTasks(t *testing.T) {
	p := &session.Plan{MaxParallel: 2}
	c := &session.Continuation{}
	task := func(id string, needs []string, steps ...string) {
		one := session.Task{ID: id, DependsOn: needs}
		for i, s := range steps {
			step := session.Step{ID: fmt.Sprint(i + 1), Kind: session.KindRun, Run: &session.Run{Shell: s}}
			if s == "gate" {
				step = session.Step{ID: step.ID, Kind: session.KindApprove, Approve: "Go?"}
			}
			one.Steps = append(one.Steps, step)
			c.Items = append(c.Items, session.Item{ID: session.StepID{Task: id, Step: step.ID}, Task: len(p.Tasks) + 1, Step: i + 1, Kind: step.Kind, Label: step.Label(), Action: session.ActionExecute})
		}
		p.Tasks = append(p.Tasks, one)
	}
	task("a", nil, "a1", "gate", "a3")
	task("b", nil, "b1", "gate", "b3", "gate", "b5")
	task("c", nil, "c1")
	task("after", []string{"a", "c"}, "after1", "gate", "after3")
	task("both", []string{"a", "b"}, "gate", "both2")
	task("last", []string{"both"}, "last1")
	task("join", []string{"a", "c"}, "join1")
	for gate, want := range map[session.StepID][]string{
		{Task: "a", Step: "2"}:     {"A yes runs, up to the next approvals, after/2 and both/1:", "  Task 1, Step 3: a3", "  Task 4, Step 1: after1", "  Task 7, Step 1: join1"},
		{Task: "b", Step: "2"}:     {"A yes runs, up to the next approval, b/4:", "  Task 2, Step 3: b3"},
		{Task: "b", Step: "4"}:     {"A yes runs, up to the next approval, both/1:", "  Task 2, Step 5: b5"},
		{Task: "after", Step: "2"}: {"A yes runs:", "  Task 4, Step 3: after3"},
		{Task: "both", Step: "1"}:  {"A yes runs:", "  Task 5, Step 2: both2", "  Task 6, Step 1: last1"},
	} {
		if diff := cmp.Diff(want, p.GateOf(c, gate, "Go?").Lines()); diff != "" {
			t.Errorf("%s: Lines (-want +got):\n%s", gate, diff)
		}
	}
}

// Lines has a limit and says how much more there is.
func TestGateLinesAreBounded(t *testing.T) {
	g := session.Gate{}
	for range 60 {
		g.Steps = append(g.Steps, session.GateStep{Item: session.Item{Label: "x"}, Does: strings.Split(strings.Repeat("x\n", 99)+"x", "\n")})
	}
	lines := g.Lines()
	if got := fmt.Sprint(lines[32], lines[len(lines)-1]); got != "      … and 70 more lines  … and 10 more steps" {
		t.Errorf("Lines: got %q", got)
	}
}

// A person sees the prompt and the powers of a model before a yes.
func TestPromptAfterAGate(t *testing.T) {
	step := session.Step{ID: "s", Kind: session.KindPrompt, Name: "Let the model work", Prompt: &session.Prompt{Text: "Build it\nand ship it\n", Tools: []string{"commands"}}}
	if got, want := step.Does(), []string{"Build it", "and ship it", "(the model may use: read, commands)"}; !cmp.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
