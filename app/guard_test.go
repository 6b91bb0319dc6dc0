package app

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/session"
)

// newRepository is newWorkspace with a git repository in which a person has made hooks.
func newRepository(t *testing.T) (dir string) {
	t.Helper()
	dir = newWorkspace(t)
	ws := filepath.Join(dir, "ws")
	for _, args := range [][]string{{"init", "-q"}, {"config", "user.name", "anna"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = ws
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	for name, content := range map[string]string{".git/hooks/pre-commit": "#!/bin/sh\nexit 0\n", "AGENTS.md": "be good\n"} {
		if err := os.WriteFile(filepath.Join(ws, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "ws", name))
	if errors.Is(err, os.ErrNotExist) {
		return "absent"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func words(held []session.HeldChange) (out []string) {
	for _, h := range held {
		out = append(out, h.Path+" "+h.Change)
	}
	return out
}

// What a command changes of the protected paths is put back, kept and told. The rest of
// its work stays.
func TestChangesOfACommandAreHeld(t *testing.T) {
	dir := newRepository(t)
	config := read(t, dir, ".git/config")
	c := connect(t, dir)
	got := c.do(runCall("git remote add evil https://example.com/x; echo evil > .git/hooks/post-merge; rm AGENTS.md; echo work > work.txt; exit 3"), CallFailed)
	if diff := cmp.Diff([]string{".git/config modified", ".git/hooks/post-merge created", "AGENTS.md deleted"}, words(got.Held)); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{".git/config": config, ".git/hooks/post-merge": "absent", "AGENTS.md": "be good\n", "work.txt": "work\n"} {
		if now := read(t, dir, name); now != want {
			t.Errorf("%s: got %q, want %q", name, now, want)
		}
	}
	r, err := c.present().writer.Open(context.Background(), got.Held[1].Blob.Hash)
	if err != nil {
		t.Fatal(err)
	}
	kept := make([]byte, 10)
	if n, _ := r.Read(kept); string(kept[:n]) != "evil\n" {
		t.Errorf("kept: got %q", kept[:n])
	}
	if again := c.do(runCall("echo more >> work.txt"), CallDone); again.Held != nil {
		t.Errorf("a command that changes nothing protected: got %v", words(again.Held))
	}
	c.close()
	verified(t, dir)
}

// A file tool may not change a protected path. Nothing is recorded.
func TestProtectedPathIsRefused(t *testing.T) {
	dir := newRepository(t)
	c := connect(t, dir)
	defer c.close()
	c.do(writeCall("a", "x"), CallDone)
	before := c.present().writer.Session().LastSeq
	for _, path := range []string{".git/hooks/post-merge", "AGENTS.md", "sub/dir/CLAUDE.md", ".github/workflows/ci.yml"} {
		_, err := c.Do(context.Background(), writeCall(path, "x"), time.Second)
		var e *session.Error
		if !errors.As(err, &e) || e.Code != session.ErrDenied || !strings.Contains(e.Next.Text, "a person can") {
			t.Errorf("write %s: got %v, want a refusal with what a person can do", path, err)
		}
	}
	if after := c.present().writer.Session().LastSeq; after != before {
		t.Errorf("events: got %d, want none", after-before)
	}
	c.do(writeCall(".github/CODEOWNERS", "*\n"), CallDone)
}

// A command that starts beside another one has the state from before both.
func TestTwoCommandsAtOnceAreHeld(t *testing.T) {
	dir := newRepository(t)
	c := connect(t, dir)
	first, err := c.Do(context.Background(), runCall("echo evil > .git/hooks/post-merge; touch made; until test -e stop; do sleep 0.02; done"), 10*time.Millisecond)
	if err != nil || first.Outcome != CallRuns {
		t.Fatalf("the first command: got %+v, %v", first, err)
	}
	second := c.do(runCall("until test -e made; do sleep 0.02; done; rm -f AGENTS.md"), CallDone)
	if diff := cmp.Diff([]string{".git/hooks/post-merge created", "AGENTS.md deleted"}, words(second.Held)); diff != "" {
		t.Errorf("held by the second (-want +got):\n%s", diff)
	}
	third := c.do(runCall("touch stop"), CallDone)
	last, err := c.Wait(context.Background(), first.Op, 20*time.Second)
	if err != nil || last.Outcome != CallDone || last.Held != nil || third.Held != nil {
		t.Errorf("the others: got %+v and %+v, %v, want nothing held", last, third, err)
	}
	if read(t, dir, ".git/hooks/post-merge") != "absent" || read(t, dir, "AGENTS.md") != "be good\n" {
		t.Error("the protected paths were not put back")
	}
	c.close()
	verified(t, dir)
}

// A connection ends while a command runs. The next one puts the changes back before it
// takes the result.
func TestHeldByTheNextConnection(t *testing.T) {
	dir := newRepository(t)
	c := connect(t, dir)
	got, err := c.Do(context.Background(), runCall("touch began; until test -e stop; do sleep 0.02; done; echo evil > .git/hooks/post-merge; echo done > end"), 300*time.Millisecond)
	if err != nil || got.Outcome != CallRuns {
		t.Fatalf("the command: got %+v, %v", got, err)
	}
	for late := time.After(time.Minute); read(t, dir, "began") == "absent"; {
		select {
		case <-late:
			t.Fatal("the command does not begin")
		case <-time.After(10 * time.Millisecond):
		}
	}
	c.close()
	if err := os.WriteFile(filepath.Join(dir, "ws", "stop"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c = connect(t, dir)
	if got, err = c.Wait(context.Background(), got.Op, 20*time.Second); err != nil || got.Outcome != CallDone {
		t.Fatalf("its result: got %+v, %v", got, err)
	}
	if diff := cmp.Diff([]string{".git/hooks/post-merge created"}, words(got.Held)); diff != "" || read(t, dir, ".git/hooks/post-merge") != "absent" || read(t, dir, "end") != "done\n" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
	c.close()
	verified(t, dir)
}

// guardedCall does some work and changes protected paths.
func guardedCall() Call {
	return runCall("echo line >> ledger; echo evil > .git/hooks/post-merge; chmod +x .git/hooks/post-merge; echo '[alias]' >> .git/config; rm AGENTS.md")
}

// callForTest is an agent's server that carries out one command.
func callForTest(dir, script string) error {
	setup, err := setupForTest(dir)
	if err != nil {
		return err
	}
	site, err := Open(context.Background(), setup)
	if err != nil {
		return err
	}
	c, err := site.Converse(context.Background(), Agent{Client: "test"}, false)
	if err != nil {
		return err
	}
	if _, err := c.Do(context.Background(), runCall(script), time.Minute); err != nil {
		return err
	}
	return errors.Join(c.Close(), site.Close())
}

// A process that outlives its command changes a protected path. The next command ends
// with the path put back.
func TestHeldFromAProcessThatOutlivesItsCommand(t *testing.T) {
	dir := newRepository(t)
	c := connect(t, dir)
	got := c.do(runCall("(until test -e late; do sleep 0.02; done; echo evil > .git/hooks/post-merge; touch written) >/dev/null 2>&1 &"), CallDone)
	if len(got.Command.Left) == 0 || got.Held != nil {
		t.Fatalf("the command: got %+v, want a process that still runs", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "ws", "late"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	pid, _, _ := strings.Cut(got.Command.Left[0], " ")
	next := c.do(runCall("until test -e written; do sleep 0.02; done; while kill -0 "+pid+" 2>/dev/null; do sleep 0.02; done"), CallDone)
	if diff := cmp.Diff([]string{".git/hooks/post-merge created"}, words(next.Held)); diff != "" || read(t, dir, ".git/hooks/post-merge") != "absent" {
		t.Errorf("held by the next command (-want +got):\n%s", diff)
	}
	c.do(runCall("true"), CallDone) // at its start no such process runs any more
	if err := os.WriteFile(filepath.Join(dir, "ws", "AGENTS.md"), []byte("a person\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if last := c.do(runCall("true"), CallDone); last.Held != nil || read(t, dir, "AGENTS.md") != "a person\n" {
		t.Errorf("after the edit of a person: got %v held", words(last.Held))
	}
	c.close()
	verified(t, dir)
}
