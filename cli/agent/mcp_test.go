package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/acode-dev/acode/cli"
	"github.com/acode-dev/acode/internal/caller"
	"github.com/acode-dev/acode/internal/kernel"
)

// TestMain lets the test binary be both programs, supervisors included.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"acode":       func() { become(); os.Exit(cli.Main(context.Background(), os.Args[1:])) },
		"acode-agent": func() { become(); os.Exit(Main(context.Background(), os.Args[1:])) },
	})
}

// become makes this process run on the kernel that the environment names.
func become() {
	if err := kernel.Become(); err != nil {
		panic(err)
	}
}

// place is a workspace with a store of its own.
type place struct {
	t       *testing.T
	ws      string
	environ []string
}

func newPlace(t *testing.T) place {
	t.Helper()
	// most of these tests wait for processes
	t.Parallel()
	dir := t.TempDir()
	p := place{t, filepath.Join(dir, "ws"), append(os.Environ(), "HOME="+filepath.Join(dir, "home"), "ACODE_HOME="+filepath.Join(dir, "state"),
		"XDG_CONFIG_HOME="+filepath.Join(dir, "config"), "ACODE_KEY_KEYRING=false", "GORACE=atexit_sleep_ms=0")}
	for _, d := range []string{p.ws, filepath.Join(dir, "home")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p place) command(args ...string) *exec.Cmd {
	cmd := exec.Command("acode", args...)
	cmd.Env, cmd.Dir, cmd.Stderr = p.environ, p.ws, os.Stderr
	return cmd
}

// serve starts a server that may do everything, and connects to it.
func (p place) serve(args ...string) client {
	p.t.Helper()
	c, err := caller.Start(p.command(append([]string{"mcp", "--tools", "--allow", "files,commands,git"}, args...)...))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = c.Process.Kill() }) // it may have ended
	if err := c.Hello("tester", nil); err != nil {
		p.t.Fatal(err)
	}
	return client{c, p.t}
}

type client struct {
	*caller.Client
	t *testing.T
}

// want calls a tool and checks the outcome.
func (c client) want(outcome, tool string, arguments map[string]any) caller.Result {
	c.t.Helper()
	r, err := c.Call(tool, arguments)
	if err != nil || r.Structured.Outcome != outcome {
		c.t.Fatalf("%s %v: got %+v, %v, want %s", tool, arguments, r, err, outcome)
	}
	return r
}

func command(text string) map[string]any { return map[string]any{"command": text} }

// kill ends the server with SIGKILL.
func (c client) kill() {
	c.t.Helper()
	if err := c.Process.Kill(); err != nil {
		c.t.Fatal(err)
	}
	_ = c.Wait() // it was killed
}

func (p place) read(name string) string {
	p.t.Helper()
	content, err := os.ReadFile(filepath.Join(p.ws, name))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(content)
}

// A server is killed after an answer. The call made again gets the record.
func TestServerKilledAfterAnAnswer(t *testing.T) {
	p := newPlace(t)
	c := p.serve("--conversation", "one")
	c.want("done", "write_file", map[string]any{"path": "notes.txt", "content": "first\n"})
	<-time.After(200 * time.Millisecond) // so the next call cannot be of the same message
	c.want("failed", "run_command", command("echo line >> ledger; echo out; exit 3"))
	c.kill()
	c = p.serve("--conversation", "one")
	again := c.want("failed", "run_command", command("echo line >> ledger; echo out; exit 3"))
	if s := again.Structured; !s.Recovered || s.Exit == nil || *s.Exit != 3 || !strings.Contains(s.Text, "\nout") {
		t.Errorf("the call made again: got %+v, want the record", s)
	}
	c.want("done", "edit_file", map[string]any{"path": "notes.txt", "old_string": "first", "new_string": "second"})
	if err := c.End(); err != nil {
		t.Error(err)
	}
	if p.read("ledger") != "line\n" || p.read("notes.txt") != "second\n" {
		t.Errorf("files: got %q and %q", p.read("ledger"), p.read("notes.txt"))
	}
	c = p.serve("--conversation", "one")
	if state := c.want("done", "session_state", nil); len(state.Structured.Owed) != 0 {
		t.Errorf("after an end in order: got %+v, want nothing owed", state.Structured.Owed)
	}
	if out, err := p.command("verify").Output(); err != nil {
		t.Errorf("acode verify: %v\n%s", err, out)
	}
}

// A server is killed while a command runs. The command continues, and the call made again
// waits for it.
func TestServerKilledWithARunningCommand(t *testing.T) {
	p := newPlace(t)
	c := p.serve("--conversation", "one")
	script := command("echo begin; until test -e stop; do sleep 0.02; done; echo end >> ledger")
	if _, err := c.BeginCall("run_command", script); err != nil {
		t.Fatal(err)
	}
	p.until("the command runs", func() bool {
		out, _ := p.command("logs").Output()
		return strings.Contains(string(out), "begin")
	})
	c.kill()
	c = p.serve("--conversation", "one", "--patience", "100ms")
	running := c.want("running", "run_command", script)
	if !running.Structured.Recovered || !strings.HasPrefix(running.Structured.Text, "NOT STARTED AGAIN. ") {
		t.Errorf("the call made again: got %+v", running.Structured)
	}
	if err := os.WriteFile(filepath.Join(p.ws, "stop"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for outcome := "running"; outcome == "running"; {
		r, err := c.Call("wait_command", map[string]any{"handle": running.Structured.Handle})
		if err != nil {
			t.Fatal(err)
		}
		outcome = r.Structured.Outcome
	}
	if got := p.read("ledger"); got != "end\n" {
		t.Errorf("ledger: got %q, want one line", got)
	}
}

// until waits until is returns true.
func (p place) until(what string, is func() bool) {
	p.t.Helper()
	for late := time.After(caller.Patience); !is(); {
		select {
		case <-late:
			p.t.Fatalf("never: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// The end of the input and each signal end the server within a second. The command
// continues.
func TestServerEndsWithinASecond(t *testing.T) {
	ends := map[string]func(client) error{"input": func(c client) error { return c.End() }}
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		ends[s.String()] = func(c client) error {
			if err := c.Process.Signal(s); err != nil {
				return err
			}
			return c.Wait()
		}
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			c := p.serve()
			if _, err := c.BeginCall("run_command", command("touch begun; until test -e stop; do sleep 0.02; done; touch ended")); err != nil {
				t.Fatal(err)
			}
			here := func(name string) func() bool {
				return func() bool { _, err := os.Stat(filepath.Join(p.ws, name)); return err == nil }
			}
			p.until("begun", here("begun"))
			begin := time.Now()
			if err := end(c); err != nil {
				t.Errorf("the server: got %v, want status 0", err)
			}
			if took := time.Since(begin); took > time.Second {
				t.Errorf("the server ended after %s, want at most a second", took)
			}
			if err := os.WriteFile(filepath.Join(p.ws, "stop"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			p.until("the command ends", here("ended"))
		})
	}
}

// A bad call changes neither the workspace nor the history, and the next call works.
func TestBadCallsChangeNothing(t *testing.T) {
	p := newPlace(t)
	c := p.serve()
	for _, dir := range []string{"dir", "was"} {
		if err := os.Mkdir(filepath.Join(p.ws, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc", filepath.Join(p.ws, "link")); err != nil {
		t.Fatal(err)
	}
	c.want("done", "write_file", map[string]any{"path": "twice", "content": "ab ab"})
	before := p.state()
	for name, call := range map[string][2]any{
		"through_a_link":     {"write_file", map[string]any{"path": "link/acode-test", "content": "x"}},
		"a_directory":        {"write_file", map[string]any{"path": "dir", "content": "x"}},
		"edit_matches_never": {"edit_file", map[string]any{"path": "twice", "old_string": "c", "new_string": "d"}},
		"edit_matches_twice": {"edit_file", map[string]any{"path": "twice", "old_string": "ab", "new_string": "d"}},
		"edit_of_nothing":    {"edit_file", map[string]any{"path": "none", "old_string": "ab", "new_string": "d"}},
		"delete_of_nothing":  {"delete_file", map[string]any{"path": "none"}},
		"delete_a_directory": {"delete_file", map[string]any{"path": "dir"}},
		"move_of_nothing":    {"move_file", map[string]any{"from": "none", "to": "x"}},
		"move_onto":          {"move_file", map[string]any{"from": "twice", "to": "was"}},
		"read_of_nothing":    {"read_file", map[string]any{"path": "none"}},
		"read_a_directory":   {"read_file", map[string]any{"path": "dir"}},
		"bad_pattern":        {"search", map[string]any{"pattern": "("}},
		"bad_mask":           {"write_file", map[string]any{"path": "twice", "content": "key=****abcd"}},
		"unknown_tool":       {"remove", map[string]any{"path": "twice"}},
		"unknown_field":      {"delete_file", map[string]any{"path": "twice", "force": true}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := c.Call(call[0].(string), call[1])
			if s := r.Structured; err != nil || !r.IsError || s.Outcome != "denied" || s.Code == "" || s.Hint == "" {
				t.Errorf("got %+v, %v, want an error with code and hint", r, err)
			}
			if after := p.state(); after != before {
				t.Errorf("the state changed from %s to %s", before, after)
			}
		})
	}
	c.want("done", "delete_file", map[string]any{"path": "twice"})
}

// state returns a hash of the workspace and the number of events that change something.
func (p place) state() string {
	p.t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(p.ws, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintln(sum, name, d.Type())
		if d.Type().IsRegular() {
			content, err := os.ReadFile(name)
			sum.Write(content)
			return err
		}
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := p.command("history", "--json")
	out, err := cmd.Output()
	if err != nil {
		p.t.Fatal(err)
	}
	list, err := p.command("ls", "--json").Output()
	if err != nil {
		p.t.Fatal(err)
	}
	return fmt.Sprintf("%x with %d events of %d sessions", sum.Sum(nil)[:4], bytes.Count(out, []byte("\n")), bytes.Count(list, []byte(`"short_id"`)))
}

// / and the home directory are no workspaces for an agent.
func TestWorkspacesRefused(t *testing.T) {
	p := newPlace(t)
	home := filepath.Join(filepath.Dir(p.ws), "home")
	for _, dir := range []string{"/", home} {
		c := p.serve("-C", dir)
		r, err := c.Call("run_command", command("touch here"))
		if err != nil || r.Structured.Outcome != "denied" || r.Structured.Code != "ACODE-WORKSPACE-001" {
			t.Errorf("%s: got %+v, %v, want it refused", dir, r, err)
		}
	}
}

// Two connections of one client have a session each. Each continues its own.
func TestTwoConnections(t *testing.T) {
	p := newPlace(t)
	one, two := p.serve("--settle", "1h"), p.serve("--settle", "1h")
	one.want("done", "run_command", command("echo 1 >> ledger"))
	two.want("done", "run_command", command("echo 1 >> ledger"))
	out, err := p.command("ls", "--json").Output()
	if err != nil || bytes.Count(out, []byte("Calls of tester")) != 2 {
		t.Errorf("acode ls: got %s, %v, want two sessions", out, err)
	}
	one.kill()
	three := p.serve("--settle", "1h")
	three.want("told", "run_command", command("echo 1 >> ledger"))
	if got := p.read("ledger"); got != "1\n1\n" {
		t.Errorf("ledger: got %q, want two lines", got)
	}
}

// A read is in the history after the next call that changes something.
func TestReadsAreRecorded(t *testing.T) {
	p := newPlace(t)
	c := p.serve()
	c.want("done", "write_file", map[string]any{"path": "a", "content": "text\n"})
	if r := c.want("done", "read_file", map[string]any{"path": filepath.Join(p.ws, "a")}); r.Structured.Text != "text\n" {
		t.Errorf("read_file: got %q", r.Structured.Text)
	}
	c.want("done", "search", map[string]any{"pattern": "te.t"})
	c.want("done", "list_files", nil)
	c.want("done", "run_command", command("true"))
	out, err := p.command("history", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"write_file", "read_file", "search", "list_files", "run_command"} {
		if !bytes.Contains(out, []byte(`"tool":"`+tool+`"`)) {
			t.Errorf("the history lacks %s:\n%s", tool, out)
		}
	}
}

// Flags that make no sense are refused before anything is read.
func TestFlagsOfMCP(t *testing.T) {
	p := newPlace(t)
	for _, args := range [][]string{{"--allow", "everything"}, {"--settle", "0s"}, {"--patience", "-1s"}, {"extra"}} {
		cmd := p.command(append([]string{"mcp", "--tools", "--json"}, args...)...)
		cmd.Stderr = nil
		out, err := cmd.Output()
		var last struct{ Exit int }
		if lines := strings.Split(strings.TrimSpace(string(out)), "\n"); json.Unmarshal([]byte(lines[len(lines)-1]), &last) != nil || err == nil || cmd.ProcessState.ExitCode() != 2 {
			t.Errorf("acode mcp %v: got %s, %v, want status 2", args, out, err)
		}
	}
}

// A store of a newer acode is refused in the answer of a call. The connection stays, and
// works again with the store of this version.
func TestNewerStore(t *testing.T) {
	p := newPlace(t)
	c := p.serve()
	c.want("done", "write_file", map[string]any{"path": "a", "content": "x"})
	if err := c.End(); err != nil {
		t.Fatal(err)
	}
	version := func(to string) {
		t.Helper()
		db := filepath.Join(filepath.Dir(p.ws), "state", "acode.db")
		if out, err := exec.Command("sqlite3", db, "PRAGMA user_version = "+to).CombinedOutput(); err != nil {
			t.Fatalf("sqlite3: %v: %s", err, out)
		}
	}
	version("99")
	c = p.serve()
	r, err := c.Call("write_file", map[string]any{"path": "a", "content": "y"})
	if s := r.Structured; err != nil || !r.IsError || s.Outcome != "denied" || s.Code != "ACODE-STORE-001" || s.Hint == "" {
		t.Errorf("a newer store: got %+v, %v, want it refused", r, err)
	}
	if got := p.read("a"); got != "x" {
		t.Errorf("a: got %q, want it unchanged", got)
	}
	version("1")
	c.want("done", "write_file", map[string]any{"path": "a", "content": "y"})
}
