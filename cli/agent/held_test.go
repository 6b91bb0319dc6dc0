package agent

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repository makes the workspace a git repository.
func (p place) repository() {
	p.t.Helper()
	cmd := exec.Command("git", "init", "-q")
	cmd.Dir = p.ws
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("git init: %v\n%s", err, out)
	}
}

// shows runs acode and checks that its output has all texts, and none after "not ".
func (p place) shows(args []string, want ...string) {
	p.t.Helper()
	cmd := p.command(args...)
	cmd.Stderr = nil
	out, err := cmd.CombinedOutput()
	for _, w := range want {
		text, not := strings.CutPrefix(w, "not ")
		if strings.Contains(string(out), text) == not {
			p.t.Errorf("acode %v: got %v\n%s\nwant %q", args, err, out, w)
		}
	}
}

func (p place) has(name string) bool {
	_, err := os.Lstat(filepath.Join(p.ws, name))
	return err == nil
}

func (p place) absent(name string) {
	p.t.Helper()
	if p.has(name) {
		p.t.Errorf("%s exists, want it absent", name)
	}
}

// A person sees what acode put back after a command, applies one change, and drops
// another one.
func TestHeldChangesAreDecidedByAPerson(t *testing.T) {
	p := newPlace(t)
	p.repository()
	before := p.read(".git/config")
	c := p.serve("--conversation", "one")
	got := c.want("done", "run_command", command("git config remote.origin.url https://example.com/x.git; echo work > work.txt"))
	if s := got.Structured; len(s.Held) != 1 || s.Held[0].Path != ".git/config" || s.Held[0].Change != "modified" || !strings.Contains(s.Text, "HELD: ") || !strings.Contains(s.Text, "acode approve") {
		t.Errorf("the answer: got %+v, want the held change and how a person applies it", s)
	}
	if p.read(".git/config") != before || p.read("work.txt") != "work\n" {
		t.Errorf("files: got %q and %q", p.read(".git/config"), p.read("work.txt"))
	}
	got = c.want("done", "run_command", command("echo evil > .git/hooks/post-merge"))
	if s := got.Structured; len(s.Held) != 1 || s.Held[0].Path != ".git/hooks/post-merge" {
		t.Errorf("the second answer: got %+v, want its own change only", s.Held)
	}
	denied := c.want("denied", "write_file", map[string]any{"path": ".git/hooks/post-merge", "content": "evil"})
	if s := denied.Structured; s.Code != "ACODE-APPROVAL-002" || !strings.Contains(s.Hint, "a person can") {
		t.Errorf("write_file: got %+v, want a refusal with what a person can do", s)
	}
	p.shows([]string{"status"}, "calls/calls/n1", ".git/config (modified)", "acode approve")
	p.shows([]string{"session", "show"}, ".git/config (modified)")
	p.shows([]string{"history"}, "ChangesHeld", "put back .git/config (modified)")
	p.shows([]string{"approve"}, "2 calls", "n1: .git/config", "n2: .git/hooks/post-merge", "not Applied")
	id := strings.Fields(c.want("done", "session_state", map[string]any{}).Structured.Text)[1]
	p.shows([]string{"approve", id, "n1"}, "+[remote \"origin\"]", "Applied")
	p.shows([]string{"deny", id, "n2", "--reason", "no hooks"}, "Dropped")
	p.shows([]string{"approve", id}, "no held changes")
	p.shows([]string{"status"}, "not post-merge", "not .git/config")
	if now := p.read(".git/config"); !strings.Contains(now, "example.com") {
		t.Errorf("after the approval: got %q", now)
	}
	p.absent(".git/hooks/post-merge")
	if again := c.want("done", "run_command", command("git remote -v")); again.Structured.Held != nil || !strings.Contains(again.Structured.Text, "example.com") {
		t.Errorf("the next command: got %+v, want nothing held", again.Structured)
	}
	if err := c.End(); err != nil {
		t.Error(err)
	}
	if err := p.command("verify").Run(); err != nil {
		t.Errorf("acode verify: %v", err)
	}
}

// The server is killed while a command runs, which then changes protected paths. The next
// connection puts them back before it gives the result.
func TestHeldAfterTheServerWasKilled(t *testing.T) {
	p := newPlace(t)
	p.repository()
	script := command("touch began; until test -e stop; do sleep 0.02; done; echo evil > .git/hooks/post-merge; chmod +x .git/hooks/post-merge; echo done > end")
	c := p.serve("--conversation", "one")
	if _, err := c.BeginCall("run_command", script); err != nil {
		t.Fatal(err)
	}
	p.until("the command begins", func() bool { return p.has("began") })
	c.kill()
	if err := os.WriteFile(filepath.Join(p.ws, "stop"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.until("the command ends", func() bool { return p.has("end") })
	c = p.serve("--conversation", "one")
	got := c.want("done", "run_command", script)
	if s := got.Structured; !s.Recovered || len(s.Held) != 1 || s.Held[0].Path != ".git/hooks/post-merge" {
		t.Errorf("the call made again: got %+v, want the record with the held change", s)
	}
	p.absent(".git/hooks/post-merge")
	if err := c.End(); err != nil {
		t.Error(err)
	}
}
