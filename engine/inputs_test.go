package engine_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/session"
)

// Precedence: environment < inputs < params < captures < env. Contents see only declared
// names.
func TestInputsReachCommandsAndContents(t *testing.T) {
	steps := []session.Step{command("v", "echo 1.2.3", capturing("V"))}
	for _, name := range []string{"A", "P", "IN", "GONE", "SECRET"} {
		steps = append(steps, command(name, "env "+name))
	}
	steps = append(steps, command("captured", "env V"), command("own", "env OWN", func(r *session.Run) { r.Env = map[string]string{"OWN": "step"} }),
		write("f", "f", "${P} ${IN} ${V} ${SECRET} ${A}"))
	w := newWorld(t, plan(task("t", steps...)))
	w.plan.Params = []session.Param{{Name: "P"}, {Name: "SECRET", Secret: true}}
	w.plan.Inputs = []string{"IN"}
	p := w.process()
	p.environ = []string{"A=environment", "P=environment", "IN=environment", "V=environment", "OWN=environment", "GONE=environment"}
	in, own, v := "input", "input", "input"
	p.inputs = &session.Inputs{Params: map[string]string{"P": "param", "OWN": "param"}, Env: map[string]*string{"IN": &in, "OWN": &own, "V": &v, "GONE": nil}, Secrets: map[string]bool{"SECRET": true}}
	p.secrets = map[string]string{"SECRET": "here"}
	p.must()
	if d := cmp.Diff([]string{"environment", "param", "input", "here", "1.2.3", "step"}, w.ledger); d != "" {
		t.Errorf("environment (-want +got):\n%s", d)
	}
	if got, want := w.files["f"], "param input 1.2.3 here ${A}"; got != want {
		t.Errorf("content: got %q, want %q", got, want)
	}
}

// A question has its values, with secrets masked. The steps that an approval allows are
// shown with it.
func TestQuestionShowsWhatIsApproved(t *testing.T) {
	w := gated(t)
	w.plan.Params = []session.Param{{Name: "VERSION"}, {Name: "SECRET", Secret: true}}
	w.plan.Tasks[0].Steps[1].Approve = "Tag ${VERSION} with ${SECRET}?"
	p := w.process()
	p.person = yes()
	p.inputs = &session.Inputs{Params: map[string]string{"VERSION": "1.4"}, Secrets: map[string]bool{"SECRET": true}}
	p.secrets = map[string]string{"SECRET": "hunter2"}
	p.must()
	at := slices.IndexFunc(p.shown, func(n session.Notice) bool { return n.Kind == session.NoticeAsking })
	if n := p.shown[at]; n.Text != "Tag 1.4 with ***?" || n.Item.Label != n.Text || !slices.Equal(n.Detail, []string{"A yes runs:", "  Task 1, Step 3: ledger b"}) {
		t.Errorf("asked: got %q, %q", n.Text, n.Detail)
	}
	if d := payload[session.ApprovalRequestedData](w, session.ApprovalRequested); d.Question != "Tag 1.4 with ***?" {
		t.Errorf("ApprovalRequested: got %q", d.Question)
	}
}
