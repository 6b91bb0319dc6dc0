package agent

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/acode-dev/acode/mcp"
)

// says runs a command of acode and checks its status and output.
func (p place) says(status int, want string, args ...string) string {
	p.t.Helper()
	cmd := p.command(args...)
	cmd.Stderr = nil
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != status || !regexp.MustCompile(want).Match(out) {
		p.t.Fatalf("acode %s: got %v and\n%s\nwant status %d and %q", strings.Join(args, " "), err, out, status, want)
	}
	return string(out)
}

// People see the calls of an agent as they see steps.
func TestPeopleSeeCalls(t *testing.T) {
	p := newPlace(t)
	c := p.serve()
	c.want("done", "write_file", map[string]any{"path": "notes.txt", "content": "one\n"})
	c.want("done", "read_file", map[string]any{"path": "notes.txt"})
	if r := c.want("failed", "run_command", command("echo said; exit 3")); r.Structured.Exit == nil || *r.Structured.Exit != 3 {
		t.Errorf("run_command: got %+v, want status 3", r.Structured)
	}
	if _, err := c.BeginCall("run_command", command("echo begun; until test -e stop; do sleep 0.02; done")); err != nil {
		t.Fatal(err)
	}
	p.until("its output", func() bool {
		out, err := p.command("logs").Output()
		return err == nil && strings.Contains(string(out), "==> calls/calls/n4, attempt 1 <==\nbegun\n")
	})
	p.says(0, `State: EXECUTING\nTask: Calls of tester\nCalls: 4\nRunning: .*until test -e stop`, "status")
	show := `n1: Write notes.txt - completed \(.*\)\n +n2: Read notes.txt - completed \(.*\)\n +n3: Run echo said; exit 3 - failed \(.*\)\n +the command exited with status 3 \(ACODE-STEP-002\)\n +\| said\n +n4: Run echo begun; .* - in_progress\n`
	p.says(0, show, "session", "show")
	p.says(0, `OperationStarted +calls/calls/n1 Write notes.txt\n`, "history")
	p.says(0, `"op":"n1"`, "session", "show", "--json")
	if err := os.WriteFile(filepath.Join(p.ws, "stop"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.want("done", "wait_command", map[string]any{"handle": "n4"})
}

// A person can end the command of a call, settle the calls of an agent that is gone, and
// complete its session. A resume without an id never takes the session.
func TestPeopleSettleCalls(t *testing.T) {
	p := newPlace(t)
	c := p.serve()
	running, err := c.BeginCall("run_command", command("until test -e stop; do sleep 0.02; done"))
	if err != nil {
		t.Fatal(err)
	}
	p.until("the command runs", func() bool {
		out, _ := p.command("status").Output()
		return strings.Contains(string(out), "a command is running: calls/calls/n1")
	})
	p.says(0, "", "session", "cancel", "--command")
	m, err := c.Await(running)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := m.Tool(); err != nil || r.Structured.Outcome != "failed" || !strings.Contains(r.Structured.Text, "STOPPED") {
		t.Errorf("the call: got %+v, %v, want it stopped", r, err)
	}
	if _, err := c.BeginCall("run_command", command("echo line >> ledger; until test -e stop; do sleep 0.02; done")); err != nil {
		t.Fatal(err)
	}
	p.until("the second command runs", func() bool {
		_, err := os.Stat(filepath.Join(p.ws, "ledger"))
		return err == nil
	})
	c.kill()
	p.says(0, `WAITING`, "ls")
	p.says(14, `no resumable session \(ACODE-RESUME-001\)`, "resume", "--no-input")
	id := strings.Fields(strings.Split(p.says(0, "", "ls"), "\n")[1])[0]
	c = p.serve("-C", p.ws)
	c.want("told", "write_file", map[string]any{"path": "stop", "content": ""})
	<-time.After(mcp.DefaultMessage) // as a model that reads the answer
	c.want("done", "write_file", map[string]any{"path": "stop", "content": ""})
	if err := c.End(); err != nil {
		t.Fatal(err)
	}
	p.says(0, `of an agent\n.*settled; it waits for its client|no call is open; it waits for its client`, "resume", id)
	p.says(0, `completed`, "session", "complete", id)
	c = p.serve()
	c.want("done", "run_command", command("cat ledger"))
	p.says(0, `COMPLETED[^\n]*\n|WAITING[^\n]*\n.*COMPLETED`, "ls")
	if got := p.read("ledger"); got != "line\n" {
		t.Errorf("ledger: got %q, want one line", got)
	}
}
