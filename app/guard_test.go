package app

import (
	"context"
	"errors"
	"fmt"
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

// put writes a file of the workspace.
func put(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, "ws", name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// until waits for a file of the workspace.
func until(t *testing.T, dir, name string) {
	t.Helper()
	for late := time.After(time.Minute); read(t, dir, name) == "absent"; {
		select {
		case <-late:
			t.Fatalf("a command does not make %s", name)
		case <-time.After(10 * time.Millisecond):
		}
	}
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
	until(t, dir, "made")
	second := c.do(runCall("rm -f AGENTS.md"), CallDone)
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
	until(t, dir, "began")
	c.close()
	put(t, dir, "stop", "")
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

// approveForTest is a person who applies the held changes of the only call that has some.
func approveForTest(dir string) error {
	setup, err := setupForTest(dir)
	if err != nil {
		return err
	}
	site, err := Open(context.Background(), setup)
	if err != nil {
		return err
	}
	v := Verdict{Grant: true, By: "anna"}
	h, err := site.Held(context.Background(), v)
	if err != nil {
		return err
	}
	if err := site.DecideHeld(context.Background(), *h, v); err != nil {
		return err
	}
	fmt.Println("applied")
	return site.Close()
}

// A process that outlives its command changes a protected path. The next command ends
// with the path put back.
func TestHeldFromAProcessThatOutlivesItsCommand(t *testing.T) {
	dir := newRepository(t)
	c := connect(t, dir)
	got := c.do(runCall("(until test -e late; do sleep 0.02; done; echo evil > .git/hooks/post-merge; touch written; until test -e over; do sleep 0.02; done) >/dev/null 2>&1 & echo $! > pid"), CallDone)
	if len(got.Command.Left) == 0 || got.Held != nil {
		t.Fatalf("the command: got %+v, want a process that still runs", got)
	}
	put(t, dir, "late", "")
	until(t, dir, "written")
	next := c.do(runCall("touch over; while test -e /proc/$(cat pid); do sleep 0.02; done"), CallDone)
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

// only returns the only session of the workspace.
func (c connected) only() session.ID {
	c.t.Helper()
	rows, err := c.site.rows(context.Background(), c.site.Workspace)
	if err != nil || len(rows) != 1 {
		c.t.Fatalf("sessions: got %v, %v, want one", rows, err)
	}
	return rows[0].ID
}

// decide answers the held changes of the only call that has some.
func (c connected) decide(grant bool) error {
	c.t.Helper()
	v := Verdict{Ref: string(c.only()), Grant: grant, By: "anna"}
	h, err := c.site.Held(context.Background(), v)
	if err != nil {
		return err
	}
	return c.site.DecideHeld(context.Background(), *h, v)
}

// A person approves the changes of a call. What cannot be made again stays as it is.
func TestHeldThatCannotBeApplied(t *testing.T) {
	dir := newRepository(t)
	c := connect(t, dir)
	got := c.do(runCall("rm AGENTS.md; mkfifo AGENTS.md; echo evil > .git/hooks/post-merge"), CallDone)
	if diff := cmp.Diff([]string{".git/hooks/post-merge created", "AGENTS.md modified"}, words(got.Held)); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
	if err := c.decide(true); err != nil {
		t.Errorf("DecideHeld: %v", err)
	}
	if read(t, dir, ".git/hooks/post-merge") != "evil\n" || read(t, dir, "AGENTS.md") != "be good\n" {
		t.Errorf("after the approval: got %q and %q", read(t, dir, ".git/hooks/post-merge"), read(t, dir, "AGENTS.md"))
	}
	c.do(runCall("rm AGENTS.md; mkfifo AGENTS.md"), CallDone)
	if err := c.decide(true); !errors.Is(err, session.ErrUsage) || read(t, dir, "AGENTS.md") != "be good\n" {
		t.Errorf("DecideHeld of nothing that can be applied: got %v, AGENTS.md %q", err, read(t, dir, "AGENTS.md"))
	}
	if err := c.decide(false); err != nil || read(t, dir, "AGENTS.md") != "be good\n" {
		t.Errorf("DecideHeld: %v", err)
	}
	c.close()
	verified(t, dir)
}

// The content of a file above the limit is not kept before a command. A change of it
// stays, and acode says so. One that a command makes is put back, and can be applied.
func TestHeldOfLargeFiles(t *testing.T) {
	dir := newRepository(t)
	large := strings.Repeat("0123456789abcde\n", 1<<16) + "end\n"
	put(t, dir, "AGENTS.md", large)
	c := connect(t, dir)
	got := c.do(runCall("echo evil >> AGENTS.md; tr a-e A-E < AGENTS.md > CLAUDE.md; cp CLAUDE.md CLAUDE.local.md; rm CLAUDE.local.md"), CallDone)
	if diff := cmp.Diff([]string{"AGENTS.md modified", "CLAUDE.md created"}, words(got.Held)); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
	if !got.Held[0].Stays || got.Held[1].Stays {
		t.Errorf("held: got %+v, want that only the first one stays", got.Held)
	}
	made := strings.ToUpper(large + "evil\n")
	if read(t, dir, "AGENTS.md") != large+"evil\n" || read(t, dir, "CLAUDE.md") != "absent" {
		t.Error("AGENTS.md was changed, or CLAUDE.md was not put back")
	}
	if c.blob(got.Held[1].Blob) == "" || got.Held[1].Size <= 1<<20 {
		t.Errorf("CLAUDE.md: got %+v, want its content kept", got.Held[1])
	}
	if again := c.do(runCall("true"), CallDone); again.Held != nil {
		t.Errorf("the next command: got %v held, want none", words(again.Held))
	}
	if err := c.decide(true); err != nil || !strings.EqualFold(read(t, dir, "CLAUDE.md"), made) || read(t, dir, "AGENTS.md") != large+"evil\n" {
		t.Errorf("DecideHeld: %v", err)
	}
	if gone := c.do(runCall("rm AGENTS.md"), CallDone); len(gone.Held) != 1 || !gone.Held[0].Stays || read(t, dir, "AGENTS.md") != "absent" {
		t.Errorf("a large file that was removed: got %+v, want that it stays removed", gone.Held)
	}
	c.close()
	verified(t, dir)
}

// A command makes more directories than are searched. Its result says that they were not
// searched. What was protected before is still compared.
func TestHeldUnchecked(t *testing.T) {
	dir := newRepository(t)
	put(t, dir, "z/z/CLAUDE.md", "be kind\n")
	c := connect(t, dir)
	got := c.do(runCall("seq -f a/%g 4100 | xargs mkdir -p; echo evil > z/z/CLAUDE.md; echo evil > .git/hooks/post-merge; mkdir z/new; echo evil > z/new/AGENTS.md"), CallDone)
	if diff := cmp.Diff([]string{". created", ".git/hooks/post-merge created", "z/z/CLAUDE.md modified"}, words(got.Held)); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
	if h := got.Held[0]; h.Kind != session.GuardUnchecked || !h.Stays {
		t.Errorf("the workspace: got %+v, want %s", h, session.GuardUnchecked)
	}
	if read(t, dir, "z/z/CLAUDE.md") != "be kind\n" || read(t, dir, ".git/hooks/post-merge") != "absent" {
		t.Error("the protected paths were not put back")
	}
	if again := c.do(runCall("echo work > a/1/work"), CallDone); again.Held != nil {
		t.Errorf("the next command: got %v held, want none", words(again.Held))
	}
	if err := c.decide(true); err != nil || read(t, dir, ".git/hooks/post-merge") != "evil\n" || read(t, dir, "z/z/CLAUDE.md") != "evil\n" || read(t, dir, "a/1/work") != "work\n" {
		t.Errorf("DecideHeld: %v", err)
	}
	c.close()
	verified(t, dir)
}

// begin starts a command that makes the file began and then waits for the file stop. It
// does not wait for the end of the command.
func (c connected) begin(began, stop, before, after string) session.StepID {
	c.t.Helper()
	got, err := c.Do(context.Background(), runCall(before+"; touch "+began+"; until test -e "+stop+"; do sleep 0.02; done; "+after), 10*time.Millisecond)
	if err != nil || got.Outcome != CallRuns {
		c.t.Fatalf("the command: got %+v, %v, want %s", got, err, CallRuns)
	}
	return got.Op
}

// ends waits for the end of a command and returns what it changed.
func (c connected) ends(op session.StepID) []string {
	c.t.Helper()
	got, err := c.Wait(context.Background(), op, 20*time.Second)
	if err != nil || got.Outcome != CallDone {
		c.t.Fatalf("%s: got %+v, %v, want %s", op, got, err, CallDone)
	}
	return words(got.Held)
}

// A command starts beside one that runs since an earlier connection and has changed a
// hook. The hook does not come back after either of them.
func TestHeldBesideAnEarlierCommand(t *testing.T) {
	dir := newRepository(t)
	c := connect(t, dir)
	first := c.begin("began", "stop", "echo evil > .git/hooks/post-merge", "true")
	until(t, dir, "began")
	c.close()
	c = connect(t, dir)
	second := c.begin("began2", "stop2", "true", "true")
	until(t, dir, "began2")
	put(t, dir, "stop", "")
	if diff := cmp.Diff([]string{".git/hooks/post-merge created"}, c.ends(first)); diff != "" {
		t.Errorf("held by the first (-want +got):\n%s", diff)
	}
	put(t, dir, "stop2", "")
	if held := c.ends(second); held != nil || read(t, dir, ".git/hooks/post-merge") != "absent" {
		t.Errorf("after the second: held %v, the hook is %q", held, read(t, dir, ".git/hooks/post-merge"))
	}
	c.close()
	verified(t, dir)
}

// While a call has no outcome its changes are yet to be put back, so nothing is applied.
func TestHeldWhileACallIsOpen(t *testing.T) {
	dir := newRepository(t)
	c := connect(t, dir)
	c.do(runCall("echo evil > .git/hooks/post-merge"), CallDone)
	open := c.begin("began", "stop", "true", "echo done > end")
	until(t, dir, "began")
	c.close()
	put(t, dir, "stop", "")
	until(t, dir, "end")
	c = connect(t, dir)
	if err := c.decide(true); !errors.Is(err, session.ErrLocked) || read(t, dir, ".git/hooks/post-merge") != "absent" {
		t.Errorf("DecideHeld: got %v, want %s", err, session.ErrLocked)
	}
	c.ends(open)
	if err := c.decide(true); err != nil || read(t, dir, ".git/hooks/post-merge") != "evil\n" {
		t.Errorf("DecideHeld after its end: %v", err)
	}
	c.close()
	verified(t, dir)
}
