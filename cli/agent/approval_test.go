package agent

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/acode-dev/acode/internal/caller"
)

// asked starts a server whose client answers each question of the server by itself. It
// returns how many there were.
func (p place) asked(answer map[string]any) (client, *atomic.Int64) {
	p.t.Helper()
	c := p.begin("mcp", "--allow-write")
	questions := &atomic.Int64{}
	c.Answer("elicitation/create", func(m caller.Message) any {
		questions.Add(1)
		return answer
	})
	if err := c.HelloWith("tester", map[string]any{"elicitation": map[string]any{}}); err != nil {
		p.t.Fatal(err)
	}
	return c, questions
}

// accepts is the answer of a client that says yes to everything.
func accepts() map[string]any {
	return map[string]any{"action": "accept", "content": map[string]any{"approve": true}}
}

// allow lets servers ask through their clients.
func (p place) allow() {
	p.t.Helper()
	p.configure("approvals: {elicitation: allow}\n")
}

// configure writes the configuration of the user.
func (p place) configure(text string) {
	p.t.Helper()
	dir := filepath.Join(p.ws, "..", "config", "acode")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.yml"), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

const gated = "version: 1\ntask: Gated\ntasks: [{id: one, steps: [{id: gate, approve: \"Go on?\"}, {run: echo line >> ledger}]}]\n"

// No tool answers for a person, also for a client that accepts everything. A person does.
func TestApprovalNeedsAPerson(t *testing.T) {
	p := newPlace(t)
	c, questions := p.asked(accepts())
	id := c.run("r1", gated)
	c.state(id, "awaiting_approval")
	before := p.state()
	r := c.no("ACODE-APPROVAL-001", "acode approve ", "ResumeTask", map[string]any{"task_id": id, "request_id": "r2"})
	if !strings.Contains(r.Hint, "then call ResumeTask") {
		t.Errorf("hint: got %q", r.Hint)
	}
	list := c.done("done", "ListApprovals", nil)
	if !strings.Contains(list.Text, "one/gate asks: Go on?") || !strings.Contains(list.Text, "acode approve ") || !strings.Contains(string(list.Data), `"digest":"`) {
		t.Errorf("ListApprovals: got %q and %s", list.Text, list.Data)
	}
	if after := p.state(); after != before || questions.Load() != 0 {
		t.Errorf("the state changed from %s to %s, and %d questions were asked", before, after, questions.Load())
	}
	p.says(0, "Recorded: approve", "approve", id)
	c.done("resumed", "ResumeTask", map[string]any{"task_id": id, "request_id": "r2"})
	c.state(id, "completed")
	if got := p.read("ledger"); got != "line\n" {
		t.Errorf("ledger: got %q", got)
	}
}

// A project cannot allow a server to ask through its client.
func TestElicitationIsTheUsersChoice(t *testing.T) {
	p := newPlace(t)
	if err := os.Mkdir(filepath.Join(p.ws, ".agent"), 0o700); err != nil {
		t.Fatal(err)
	}
	p.write(".agent/config.yml", "approvals: {elicitation: allow}\n")
	c, _ := p.asked(accepts())
	if r := c.no("ACODE-CONFIG-001", "remove it here", "RunTask", map[string]any{"plan": gated, "request_id": "r1"}); !strings.Contains(r.Message, "a project's file cannot set approvals") {
		t.Errorf("got %+v", r)
	}
}

// Where the user allows it, the server asks through the client. The event names the
// client and says that nothing proves a person.
func TestElicitation(t *testing.T) {
	p := newPlace(t)
	p.allow()
	for name, answer := range map[string]map[string]any{
		"cancel": {"action": "cancel"}, "accept_nothing": {"action": "accept"}, "accept_an_empty_form": {"action": "accept", "content": map[string]any{}},
		"accept_no_answer": {"action": "accept", "content": map[string]any{"approve": "yes"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.allow()
			c, questions := p.asked(answer)
			id := c.run("r1", gated)
			c.state(id, "awaiting_approval")
			before := p.state()
			c.no("ACODE-APPROVAL-001", "acode approve ", "ResumeTask", map[string]any{"task_id": id, "request_id": "r2"})
			if after := p.state(); after != before || questions.Load() != 1 {
				t.Errorf("the state changed from %s to %s after %d questions", before, after, questions.Load())
			}
		})
	}
	no, _ := p.asked(map[string]any{"action": "decline"})
	id := no.run("r1", gated)
	no.state(id, "awaiting_approval")
	no.no("ACODE-APPROVAL-002", "GetTask", "ResumeTask", map[string]any{"task_id": id, "request_id": "r2"})
	p.says(0, `ApprovalDenied .*by through tester, not proven to be a person`, "history", id)
	if err := no.End(); err != nil {
		t.Error(err)
	}
	yes, questions := p.asked(accepts())
	id = yes.run("r3", gated)
	yes.state(id, "awaiting_approval")
	yes.done("resumed", "ResumeTask", map[string]any{"task_id": id, "request_id": "r4"})
	yes.done("resumed", "ResumeTask", map[string]any{"task_id": id, "request_id": "r4"})
	yes.state(id, "completed")
	p.says(0, `ApprovalGranted .*by through tester, not proven to be a person`, "history", id)
	if got := p.read("ledger"); got != "line\n" || questions.Load() != 1 {
		t.Errorf("ledger: got %q after %d questions, want one line and one question", got, questions.Load())
	}
}

// A client that accepts everything answers no unknown outcome, also where it may be
// asked.
func TestUnknownOutcomeNeedsATerminal(t *testing.T) {
	p := newPlace(t)
	p.allow()
	c, questions := p.asked(accepts())
	id := c.run("r1", planOf("run: 'echo begun >> ledger; kill -9 $$'"))
	c.state(id, "paused")
	if s := c.get(id, 0); s.Session.Reason != "uncertain" {
		t.Fatalf("the task: got %+v, want it to be uncertain", s)
	}
	before := p.state()
	for _, conflict := range []string{"fail", "override"} {
		c.no("ACODE-STEP-004", "acode resume ", "ResumeTask", map[string]any{"task_id": id, "request_id": "r " + conflict, "conflict": conflict})
	}
	if after := p.state(); after != before || questions.Load() != 0 {
		t.Errorf("the state changed from %s to %s after %d questions", before, after, questions.Load())
	}
}
