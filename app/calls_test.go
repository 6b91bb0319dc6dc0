package app

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acode-dev/acode/process"
	"github.com/acode-dev/acode/session"
)

// connected is an agent's connection to a site.
type connected struct {
	*Calls
	t    *testing.T
	site *Site
}

func connect(t *testing.T, dir string) connected {
	t.Helper()
	setup, err := setupForTest(dir)
	if err != nil {
		t.Fatal(err)
	}
	site, err := Open(context.Background(), setup)
	if err != nil {
		t.Fatal(err)
	}
	c, err := site.Converse(context.Background(), Agent{Client: "test"}, false)
	if err != nil {
		t.Fatal(err)
	}
	return connected{c, t, site}
}

// A conversation with an id has one connection at a time, also before its first call. An
// agent that comes back waits for the server that its killed process left behind.
func TestConversationHasOneConnection(t *testing.T) {
	setup, err := setupForTest(newWorkspace(t))
	if err != nil {
		t.Fatal(err)
	}
	open := func(wait bool) (*Calls, error) {
		now := time.Now()
		setup.Now = func() time.Time {
			if !wait {
				now = now.Add(longHandover)
			}
			return now
		}
		site, err := Open(context.Background(), setup)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = site.Close() })
		return site.Converse(context.Background(), Agent{Client: "test", Conversation: "one"}, false)
	}
	first, err := open(true)
	if err != nil {
		t.Fatal(err)
	}
	var refused *session.Error
	if _, err := open(false); !errors.As(err, &refused) || refused.Code != session.ErrLocked || !refused.Retryable {
		t.Fatalf("a second connection: got %v, want a refusal that can be retried", err)
	}
	second := make(chan error, 1)
	go func() {
		c, err := open(true)
		if err == nil {
			err = c.Close()
		}
		second <- err
	}()
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if err := <-second; err != nil {
		t.Errorf("a connection after the first one: %v", err)
	}
}

// A connection whose agent has ended is waited for, and never taken for another agent's.
func TestConnectionOfAnEndedAgent(t *testing.T) {
	dir := newWorkspace(t)
	first := connect(t, dir)
	defer first.close()
	agent := exec.Command("sleep", "60")
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := process.Identify(agent.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	first.self.Client = id
	first.do(writeCall("a.txt", "x"), CallDone)
	second := func() error {
		setup, err := setupForTest(dir)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		setup.Now = func() time.Time { now = now.Add(longHandover); return now }
		site, err := Open(context.Background(), setup)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = site.Close() })
		c, err := site.Converse(context.Background(), Agent{Client: "test"}, false)
		if err == nil {
			t.Cleanup(func() { _ = c.Close() })
		}
		return err
	}
	if err := second(); err != nil {
		t.Errorf("beside an agent that lives: got %v, want a connection", err)
	}
	_ = agent.Process.Kill()
	_ = agent.Wait() // it was killed
	if err := second(); !errors.Is(err, session.ErrLocked) {
		t.Errorf("after the agent's end: got %v, want %v", err, session.ErrLocked)
	}
}

func (c connected) close() {
	c.t.Helper()
	if err := errors.Join(c.Close(), c.site.Close()); err != nil {
		c.t.Error(err)
	}
}

func writeCall(path, content string) Call {
	args, _ := json.Marshal(map[string]string{"path": path, "content": content})
	return Call{Tool: "write_file", Arguments: string(args), Step: session.Step{ID: "call", Kind: session.KindWrite,
		Changes: []session.Change{{Op: session.KindWrite, Path: path, Content: content}}}}
}

func editCall(path, before, after string) Call {
	return Call{Tool: "edit_file", Arguments: path + before + after, Step: session.Step{ID: "call", Kind: session.KindEdit,
		Changes: []session.Change{{Op: session.KindEdit, Path: path, Old: before, New: after}}}}
}

func runCall(script string) Call {
	args, _ := json.Marshal(map[string]string{"command": script})
	return Call{Tool: "run_command", Arguments: string(args), Step: session.Step{ID: "call", Kind: session.KindRun, Run: &session.Run{Shell: script}}}
}

func (c connected) do(call Call, want string) CallResult {
	c.t.Helper()
	got, err := c.Do(context.Background(), call, 20*time.Second)
	if err != nil || got.Outcome != want {
		c.t.Fatalf("%s %s: got %+v, %v, want %s", call.Tool, call.Arguments, got, err, want)
	}
	return got
}

func newWorkspace(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "ws"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A call has its effect once, and its record outlives the connection until the agent
// has seen the answer.
func TestCallsOfAConversation(t *testing.T) {
	dir := newWorkspace(t)
	c := connect(t, dir)
	c.do(writeCall("notes.txt", "one ${HOME}\n"), CallDone)
	ran := c.do(runCall("echo line >> ledger; echo out; exit 3"), CallFailed)
	if ran.Command == nil || ran.Command.Exit != 3 || ran.Command.Stdout.Text != "out\n" {
		t.Errorf("command: got %+v, want exit 3 and its output", ran.Command)
	}
	if owed, err := c.Owed(context.Background()); err != nil || len(owed) != 2 {
		t.Errorf("owed: got %v, %v, want two calls", owed, err)
	}
	c.Settle(session.CallID(session.CallsStep(), 1))
	c.close()

	c = connect(t, dir)
	owed, err := c.Owed(context.Background())
	if err != nil || len(owed) != 1 || owed[0].Digest != runCall("echo line >> ledger; echo out; exit 3").Digest() || owed[0].Command.Exit != 3 {
		t.Errorf("owed on the next connection: got %+v, %v, want the command", owed, err)
	}
	if third := c.do(writeCall("notes.txt", "two\n"), CallDone); third.Op.Op != "n3" {
		t.Errorf("the third call: got the name %s, want n3", third.Op.Op)
	}
	if first, err := c.Answered(context.Background(), session.CallID(session.CallsStep(), 1)); err != nil || first.Outcome != CallDone || first.Tool != "write_file" {
		t.Errorf("the record of a settled call: got %+v, %v", first, err)
	}
	c.close()
	content, _ := os.ReadFile(filepath.Join(dir, "ws", "notes.txt"))
	ledger, _ := os.ReadFile(filepath.Join(dir, "ws", "ledger"))
	if string(content) != "two\n" || string(ledger) != "line\n" {
		t.Errorf("files: got %q and %q", content, ledger)
	}
	verified(t, dir)
}

func verified(t *testing.T, dir string) {
	t.Helper()
	setup, err := setupForTest(dir)
	if err != nil {
		t.Fatal(err)
	}
	site, err := OpenRead(context.Background(), setup)
	if err != nil {
		t.Fatal(err)
	}
	defer site.Close()
	report, err := site.store.Verify(context.Background(), "")
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("verify: got %+v, %v, want no problem", report.Problems, err)
	}
}

// A call that cannot begin is refused and leaves no event.
func TestRefusedCallFreesItsPath(t *testing.T) {
	c := connect(t, newWorkspace(t))
	defer c.close()
	c.do(writeCall("a", "ab ab"), CallDone)
	if _, err := c.Do(context.Background(), editCall("a", "ab", "c"), time.Minute); !errors.Is(err, session.ErrFileStep) {
		t.Fatalf("an edit that matches twice: got %v, want %s", err, session.ErrFileStep)
	}
	c.do(editCall("a", "ab ab", "c"), CallDone)
}

func TestCallRefused(t *testing.T) {
	c := connect(t, newWorkspace(t))
	defer c.close()
	c.do(writeCall("a", "x"), CallDone)
	before := c.present().writer.Session().LastSeq
	edit := Call{Tool: "edit_file", Step: session.Step{ID: "call", Kind: session.KindEdit, Changes: []session.Change{{Op: session.KindEdit, Path: "a", Old: "y", New: "z"}}}}
	if _, err := c.Do(context.Background(), edit, time.Second); err == nil || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("edit that matches never: got %v, want a refusal", err)
	}
	if _, err := c.Do(context.Background(), writeCall("../b", "x"), time.Second); session.CodeOf(err) != session.ErrEscape {
		t.Errorf("path outside: got %v, want %s", err, session.ErrEscape)
	}
	if after := c.present().writer.Session().LastSeq; after != before {
		t.Errorf("events: got %d, want none after seq %d", after-before, before)
	}
}

// The agent has seen an answer, and its connection is killed before the next commit: the
// call is settled.
func TestSettledBeforeAKill(t *testing.T) {
	dir := newWorkspace(t)
	c := connect(t, dir)
	defer c.close()
	c.Settle(c.do(writeCall("a", "x"), CallDone).Op)
	c.do(writeCall("b", "x"), CallDone)
	seen := c.do(writeCall("c", "x"), CallDone).Op
	c.Settle(seen)
	if err := c.live.Release(); err != nil { // as the kernel does after a kill
		t.Fatal(err)
	}
	next := connect(t, dir)
	defer next.close()
	if owed, err := next.Owed(context.Background()); err != nil || len(owed) != 1 || owed[0].Op.Op != "n2" {
		t.Errorf("owed: got %+v, %v, want n2", owed, err)
	}
}

// An agent may see the record of a call that was settled on an earlier connection. That
// does not settle the call again, which the journal would refuse together with the next
// call.
func TestSettledTwice(t *testing.T) {
	dir := newWorkspace(t)
	c := connect(t, dir)
	first := c.do(writeCall("a", "x"), CallDone).Op
	c.Settle(first)
	c.do(writeCall("b", "x"), CallDone)
	c.close()
	c = connect(t, dir)
	c.do(writeCall("c", "x"), CallDone)
	c.close()
	c = connect(t, dir)
	defer c.close()
	c.do(writeCall("d", "x"), CallDone)
	c.Settle(first)
	c.do(writeCall("e", "x"), CallDone)
}

// A command that outlasts the patience runs on, also without the connection. The next
// connection gets its result.
func TestCallOutlastsItsConnection(t *testing.T) {
	dir := newWorkspace(t)
	c := connect(t, dir)
	got, err := c.Do(context.Background(), runCall("echo begin; until test -e stop; do sleep 0.02; done; echo end >> ledger"), 300*time.Millisecond)
	if err != nil || got.Outcome != CallRuns {
		t.Fatalf("a long command: got %+v, %v, want %s", got, err, CallRuns)
	}
	text := ""
	for text == "" && err == nil { // the command may just be starting
		text, _, _, err = c.Output(context.Background(), got.Op, 0, 100)
	}
	if err != nil || text != "begin\n" {
		t.Errorf("its output so far: got %q, %v", text, err)
	}
	c.Settle(got.Op) // ignored, because it runs
	c.close()
	c = connect(t, dir)
	if owed, err := c.Owed(context.Background()); err != nil || len(owed) != 1 || owed[0].Outcome != CallRuns {
		t.Errorf("owed: got %+v, %v, want the running command", owed, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ws", "stop"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err = c.Wait(context.Background(), got.Op, 20*time.Second); err != nil || got.Outcome != CallDone {
		t.Errorf("its result: got %+v, %v, want %s", got, err, CallDone)
	}
	c.close()
	if ledger, _ := os.ReadFile(filepath.Join(dir, "ws", "ledger")); string(ledger) != "end\n" {
		t.Errorf("ledger: got %q", ledger)
	}
	verified(t, dir)
}

// A command that is not started yet cannot be stopped. The agent is asked to try again.
func TestStopBeforeTheStart(t *testing.T) {
	c := connect(t, newWorkspace(t))
	defer c.close()
	supervisor, err := strconv.Atoi(strings.TrimSpace(c.do(runCall("echo $PPID"), CallDone).Command.Stdout.Text))
	if err == nil {
		err = syscall.Kill(supervisor, syscall.SIGSTOP)
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Do(context.Background(), runCall("sleep 600"), 50*time.Millisecond)
	if err != nil || got.Outcome != CallRuns {
		t.Errorf("a command of a stopped supervisor: got %+v, %v, want %s", got, err, CallRuns)
	}
	var e *session.Error
	if _, err := c.Stop(context.Background(), got.Op); !errors.As(err, &e) || e.Code != session.ErrCommand || !e.Retryable {
		t.Errorf("stop before the start: got %v, want a retryable %s", err, session.ErrCommand)
	}
	if err := syscall.Kill(supervisor, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for e != nil {
		e = nil
		got, err = c.Stop(context.Background(), got.Op)
		errors.As(err, &e)
	}
	if err != nil || got.Outcome != CallFailed || !got.Command.Cancelled {
		t.Errorf("stop: got %+v, %v, want an ended command", got, err)
	}
}

// Calls run at once, and each has its own record.
func TestManyCallsAtOnce(t *testing.T) {
	dir := newWorkspace(t)
	c := connect(t, dir)
	defer c.close()
	errs := make(chan error)
	for i := range 20 {
		go func() {
			got, err := c.Do(context.Background(), runCall("echo x >> ledger"), 30*time.Second)
			if i%2 == 0 {
				got, err = c.Do(context.Background(), writeCall("same", "text"), 30*time.Second)
			}
			if err == nil && got.Outcome != CallDone {
				err = errors.New(got.Outcome + " " + got.Message)
			}
			errs <- err
		}()
	}
	for range 20 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if ledger, _ := os.ReadFile(filepath.Join(dir, "ws", "ledger")); strings.Count(string(ledger), "x") != 20 {
		t.Errorf("ledger: got %d lines, want 20", strings.Count(string(ledger), "x"))
	}
}
