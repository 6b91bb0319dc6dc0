package agent

import (
	"os"
	"strings"
	"testing"

	"github.com/acode-dev/acode/internal/caller"
)

// permitted starts a server that may change files, and is asked about commands.
func (p place) permitted(args ...string) client {
	p.t.Helper()
	c := p.begin(append([]string{"mcp", "--tools", "--allow", "files", "--conversation", "one"}, args...)...)
	if err := c.Hello("tester", nil); err != nil {
		p.t.Fatal(err)
	}
	return c
}

// denied makes a call that needs a yes. It returns the id of the session and the name of
// the question, as the hint of the answer has them.
func (c client) denied(tool string, arguments map[string]any) (id, op string) {
	c.t.Helper()
	r := c.want("denied", tool, arguments).Structured
	_, typed, found := strings.Cut(r.Hint, "acode approve ")
	words := strings.Fields(typed)
	if r.Code != "ACODE-APPROVAL-001" || !found || len(words) != 2 || !strings.HasPrefix(words[1], "calls/calls/n") {
		c.t.Fatalf("%s: got %+v, want a question with its command", tool, r)
	}
	return words[0], words[1]
}

func (p place) lines(name string) int {
	if !p.has(name) {
		return 0
	}
	return strings.Count(p.read(name), "\n")
}

func (p place) wantLines(name string, want int) {
	p.t.Helper()
	if got := p.lines(name); got != want {
		p.t.Errorf("%s: got %d lines, want %d", name, got, want)
	}
}

// A call that needs a yes is denied. A person sees it in another process and approves it.
// The same call is then carried out, once.
func TestPersonAllowsACallOfAnAgent(t *testing.T) {
	p := newPlace(t)
	c := p.permitted()
	append1 := command("echo line >> ledger")
	id, op := c.denied("run_command", append1)
	p.wantLines("ledger", 0)
	p.shows([]string{"status"}, op+" asks: The agent asks to use run_command (command: it writes to ledger)", "  echo line >> ledger", "in the workspace, in a sandbox without a network", "acode approve")
	if list := p.looking().done("done", "ListApprovals", nil); !strings.Contains(list.Text, op+" asks: The agent asks to use run_command") {
		t.Errorf("ListApprovals: got %q", list.Text)
	}
	p.shows([]string{"approve", id, "calls/calls/n99"}, "waits for no approval")
	p.shows([]string{"approve", id, op}, "echo line >> ledger", "the agent is told when it makes the call again")
	p.shows([]string{"status"}, op+" was granted by")
	c.want("done", "run_command", append1)
	p.wantLines("ledger", 1)
	_, again := c.denied("run_command", append1)
	if again == op {
		t.Errorf("the question has the name of an earlier one: %s", op)
	}
	p.shows([]string{"deny", id, "--reason", "not twice"}, "Recorded: deny")
	p.shows([]string{"status"}, "State: EXECUTING (waits for its client)", again+" was denied by")
	if r := c.want("denied", "run_command", append1).Structured; r.Code != "ACODE-APPROVAL-002" || !strings.Contains(r.Message, "not twice") {
		t.Errorf("after a no: got %+v", r)
	}
	p.wantLines("ledger", 1)
	c.want("done", "write_file", map[string]any{"path": "a", "content": "x"}) // allowed at the start
	c.want("done", "run_command", command("cat a; ls"))                       // only reads
	if err := c.End(); err != nil {
		t.Error(err)
	}
	c = p.permitted()
	if state := c.want("done", "session_state", nil); len(state.Structured.Owed) != 0 {
		t.Errorf("a denied call is owed: %+v", state.Structured.Owed)
	}
	if err := c.End(); err != nil {
		t.Error(err)
	}
	p.says(0, "", "verify")
}

// looking starts a server of control tools that only reads.
func (p place) looking() client {
	p.t.Helper()
	c := p.begin("mcp")
	if err := c.Hello("looker", nil); err != nil {
		p.t.Fatal(err)
	}
	return c
}

// The server is killed between the approval and the repeated call. The yes is for the
// next execution: there it is used once. The yes of an execution that has ended is not
// used, and the person is asked again.
func TestServerKilledAfterAnApproval(t *testing.T) {
	p := newPlace(t)
	append1 := command("echo line >> ledger")
	c := p.permitted()
	id, op := c.denied("run_command", append1)
	p.says(0, "Recorded: approve", "approve", id, op)
	c.kill()
	c = p.permitted()
	c.want("done", "run_command", append1)
	p.wantLines("ledger", 1)
	c.kill()

	c = p.permitted("--new")
	id, op = c.denied("run_command", append1)
	p.says(0, "Recorded: approve", "approve", id, op)
	c.want("done", "write_file", map[string]any{"path": "a", "content": "x"}) // begins the next execution
	c.kill()
	c = p.permitted()
	append1["fresh"] = true // the agent need not be told of the other call
	_, again := c.denied("run_command", append1)
	if again == op {
		t.Errorf("the yes of an execution that has ended was kept: %s", op)
	}
	p.wantLines("ledger", 1)
	p.says(0, "Recorded: approve", "approve", id, again)
	c.want("done", "run_command", append1)
	p.wantLines("ledger", 2)
}

// The yes that a running server has taken ends with that server.
func TestApprovalEndsWithItsServer(t *testing.T) {
	p := newPlace(t)
	append1 := command("echo line >> ledger")
	c := p.permitted("--patience", "50ms")
	id, op := c.denied("run_command", command("until test -e stop; do sleep 0.02; done; touch over"))
	p.says(0, "Recorded: approve", "approve", id, op)
	c.want("running", "run_command", command("until test -e stop; do sleep 0.02; done; touch over")) // the server holds its locks now
	_, op = c.denied("run_command", append1)
	p.says(0, "was asked to approve", "approve", id, op)
	if r := c.want("denied", "run_command", command("echo other >> ledger")).Structured; !strings.Contains(r.Message, "a person approved another call") {
		t.Errorf("the server did not hear the yes: %+v", r)
	}
	c.kill()
	if err := os.WriteFile(p.ws+"/stop", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.until("the command ends", func() bool { return p.has("over") })
	c = p.permitted()
	append1["fresh"] = true
	_, again := c.denied("run_command", append1)
	p.wantLines("ledger", 0)
	p.says(0, "Recorded: approve", "approve", id, again)
	c.want("done", "run_command", append1)
	p.wantLines("ledger", 1)
}

// Where the user allows it, the server asks through the client, and the record says that
// nothing proves a person.
func TestElicitationOfACall(t *testing.T) {
	p := newPlace(t)
	p.allow()
	c := p.begin("mcp", "--tools", "--conversation", "one")
	shown := make(chan string, 9)
	c.Answer("elicitation/create", func(m caller.Message) any {
		shown <- string(m.Params)
		return accepts()
	})
	if err := c.HelloWith("tester", map[string]any{"elicitation": map[string]any{}}); err != nil {
		t.Fatal(err)
	}
	c.want("done", "run_command", command("echo line >> ledger"))
	c.want("done", "write_file", map[string]any{"path": "a", "content": "x\n"})
	c.want("done", "delete_file", map[string]any{"path": "a"})
	for _, want := range []string{"echo line >> ledger", "-x"} {
		if text := <-shown; !strings.Contains(text, want) {
			t.Errorf("the person saw %s, want %q in it", text, want)
		}
	}
	p.wantLines("ledger", 1)
	p.absent("a")
	p.says(0, `ApprovalGranted .*by through tester, not proven to be a person`, "history")
}

// Calls that are made at once are asked about one after another, and each runs once.
func TestElicitationsOfCallsAtOnce(t *testing.T) {
	p := newPlace(t)
	p.allow()
	c := p.begin("mcp", "--tools", "--conversation", "one")
	open := make(chan struct{}, 1)
	c.Answer("elicitation/create", func(caller.Message) any {
		select {
		case open <- struct{}{}:
			defer func() { <-open }()
		default:
			t.Error("two questions are open")
		}
		return accepts()
	})
	if err := c.HelloWith("tester", map[string]any{"elicitation": map[string]any{}}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"one", "two", "three"} {
		if _, err := c.BeginCall("run_command", command("echo "+line+" >> ledger")); err != nil {
			t.Fatal(err)
		}
	}
	p.until("all calls ran", func() bool { return p.lines("ledger") == 3 })
	c.want("done", "run_command", command("sort ledger"))
	p.wantLines("ledger", 3)
	for _, line := range []string{"one", "two", "three"} {
		if strings.Count(p.read("ledger"), line+"\n") != 1 {
			t.Errorf("ledger: got %q, want %s once", p.read("ledger"), line)
		}
	}
	p.says(0, "", "verify")
}

// A class that a person denies is denied, also if they approved the call before.
func TestDeniedClassOfAnAgent(t *testing.T) {
	p := newPlace(t)
	p.configure("approvals: {command: deny}\n")
	c := p.permitted()
	if r := c.want("denied", "run_command", command("echo line >> ledger")).Structured; r.Code != "ACODE-APPROVAL-002" || !strings.Contains(r.Message, "the rules of the user") {
		t.Errorf("got %+v", r)
	}
	p.absent("ledger")
}
