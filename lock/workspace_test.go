package lock_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acode-dev/acode/lock"
	"github.com/acode-dev/acode/session"
)

func locksDir(t *testing.T) string { return filepath.Join(t.TempDir(), "workspace") }

func madeLocksDir(t *testing.T) string {
	t.Helper()
	dir := locksDir(t)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// One session executes in a workspace.
func TestAcquireRun(t *testing.T) {
	dir := locksDir(t)
	l, err := lock.AcquireRun(dir, self(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lock.AcquireRun(dir, self(t), nil)
	wantCode(t, err, session.ErrLocked)
	var by *lock.HeldError
	if !errors.As(err, &by) || by.Holder.Session != "mine" {
		t.Errorf("AcquireRun: got %v, want the holder's session", err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
	l, err = lock.AcquireRun(dir, self(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}

// A command outlives acode and its supervisor. Until the command has ended, only its
// own session may continue in the workspace.
func TestCommandOutlivesSupervisor(t *testing.T) {
	dir := madeLocksDir(t)
	p := start(t, "supervisor", dir)
	if p.first != "holding" {
		t.Fatalf("supervisor: %s", p.first)
	}
	_ = p.Process.Signal(os.Kill)

	other := self(t)
	_, err := lock.AcquireRun(dir, other, nil)
	wantCode(t, err, session.ErrLocked)
	if !strings.Contains(err.Error(), "a command of session supervisor still runs in this workspace (v1:key)") {
		t.Errorf("AcquireRun: got %q", err)
	}
	_, err = lock.CommandLock(dir, other, "v1:other")
	wantCode(t, err, session.ErrLocked)

	own := self(t)
	own.Session = "supervisor"
	l, err := lock.AcquireRun(dir, own, nil)
	if err != nil {
		t.Fatalf("AcquireRun of its own session: %v", err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}

	// the command ends with its input
	p.rest()
	l, err = lock.AcquireRun(dir, other, nil)
	if err != nil {
		t.Fatalf("AcquireRun after the command: %v", err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}

// A command may have closed the lock that it inherited, and its supervisor may have
// been killed. AcquireRun then asks runs whether the last command of another session
// still runs.
func TestCommandThatLetGo(t *testing.T) {
	dir := madeLocksDir(t)
	other := self(t)
	other.Session = "other"
	f, err := lock.CommandLock(dir, other, "v1:key")
	if err != nil {
		t.Fatal(err)
	}
	// as when a process ends
	_ = f.Close()
	blind := errors.New("blind")
	for _, c := range []struct {
		id     session.ID
		runs   bool
		err    error
		asked  int
		failed error
	}{
		{"mine", true, nil, 1, session.ErrLocked},
		{"mine", false, nil, 1, nil},
		{"mine", false, blind, 1, blind},
		{"other", true, nil, 0, nil},
	} {
		h, asked := self(t), 0
		h.Session = c.id
		l, err := lock.AcquireRun(dir, h, func(by lock.Holder) (bool, error) {
			if asked++; by.Session != "other" || by.Key != "v1:key" {
				t.Errorf("asked about %+v", by)
			}
			return c.runs, c.err
		})
		if !errors.Is(err, c.failed) || asked != c.asked {
			t.Errorf("%+v: got %v after %d questions", c, err, asked)
		}
		if err == nil {
			if err := l.Release(); err != nil {
				t.Error(err)
			}
		}
	}
}

// A supervisor that a killed acode left behind takes the command lock and writes its
// name into it a moment later. Only then is its session known.
func TestCommandLockBeingSigned(t *testing.T) {
	for _, id := range []session.ID{"mine", "other"} {
		dir := madeLocksDir(t)
		f, err := lock.AcquireFile(filepath.Join(dir, "command"))
		if err != nil {
			t.Fatal(err)
		}
		signed := make(chan error)
		go func() {
			h := self(t)
			h.Session = id
			<-time.After(50 * time.Millisecond)
			signed <- lock.WriteHolder(f, h)
		}()
		l, err := lock.AcquireRun(dir, self(t), nil)
		switch {
		case id == "mine" && err == nil:
			err = l.Release()
		case id == "other" && err != nil && strings.Contains(err.Error(), "a command of session other still runs"):
			err = nil
		default:
			t.Errorf("AcquireRun beside a command of %s: got %v", id, err)
		}
		if err := errors.Join(err, <-signed, lock.ReleaseFile(f)); err != nil {
			t.Error(err)
		}
	}
}

// The supervisor writes the exit record while it holds the lock. Then the lock is free
// at once, even if a descendant still has the descriptor.
func TestReleaseFileFreesInherited(t *testing.T) {
	dir := madeLocksDir(t)
	f, err := lock.CommandLock(dir, self(t), "v1:key")
	if err != nil {
		t.Fatal(err)
	}
	path := f.Name()
	if h, held, err := lock.Read(path); err != nil || !held || h.Key != "v1:key" || h.Session != "mine" {
		t.Errorf("Read: got %+v, %v, %v, want this command", h, held, err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	child, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{Files: []*os.File{null, null, null, f}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Kill()
		_, _ = child.Wait()
	})
	if err := lock.ReleaseFile(f); err != nil {
		t.Fatal(err)
	}
	if _, held, err := lock.Read(path); err != nil || held {
		t.Errorf("Read: got %v, %v, want not held", held, err)
	}
	f, err = lock.CommandLock(dir, self(t), "v1:next")
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.ReleaseFile(f); err != nil {
		t.Error(err)
	}
}

// A supervisor that starts late, when another session executes already, starts no
// command.
func TestCommandLockLate(t *testing.T) {
	dir := locksDir(t)
	l, err := lock.AcquireRun(dir, self(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release() //nolint:errcheck // the test is over
	p := start(t, "supervisor", dir)
	if !strings.HasPrefix(p.first, string(session.ErrLocked)) || !strings.Contains(p.first, "session mine executes in this workspace") {
		t.Errorf("CommandLock: got %q, want %s", p.first, session.ErrLocked)
	}
	other := self(t)
	other.Session = "other"
	_, err = lock.CommandLock(dir, other, "v1:key")
	wantCode(t, err, session.ErrLocked)
	own, err := lock.CommandLock(dir, self(t), "v1:key")
	if err != nil {
		t.Fatalf("CommandLock of the executing session: %v", err)
	}
	if err := lock.ReleaseFile(own); err != nil {
		t.Error(err)
	}
}

// Processes of an earlier command keep the lock when its supervisor was killed. The
// error names them and says how to end them.
func TestCommandLockLingering(t *testing.T) {
	dir := madeLocksDir(t)
	p := start(t, "supervisor", dir)
	if _, err := p.Process.Wait(); err != nil {
		t.Fatal(err)
	}
	h := self(t)
	h.Session = "supervisor"
	_, err := lock.CommandLock(dir, h, "v1:key")
	wantCode(t, err, session.ErrLocked)
	var e *session.Error
	if !errors.As(err, &e) || !strings.Contains(e.Message, "an earlier command of this session") || e.Next.Do != session.MoveCancelCommand || e.Next.Session != "supervisor" {
		t.Errorf("CommandLock: got %+v, want the holder and how to end it", e)
	}
}

// A process that only tests the lock must not make CommandLock refuse a command.
func TestCommandLockWaitsForProbe(t *testing.T) {
	dir := madeLocksDir(t)
	probe, err := lock.AcquireFile(filepath.Join(dir, "command"))
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		f, err := lock.CommandLock(dir, self(t), "v1:key")
		if err == nil {
			err = lock.ReleaseFile(f)
		}
		got <- err
	}()
	if err := lock.ReleaseFile(probe); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Errorf("CommandLock: %v", err)
	}
}

// CommandLock stops waiting for a lock whose file names no live process.
func TestCommandLockGivesUp(t *testing.T) {
	dir := madeLocksDir(t)
	probe, err := lock.AcquireFile(filepath.Join(dir, "command"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.ReleaseFile(probe) //nolint:errcheck // the test is over
	_, err = lock.CommandLock(dir, self(t), "v1:key")
	wantCode(t, err, session.ErrLocked)
}

func TestWorkspaceDirectoryRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := lock.AcquireRun(filepath.Join(file, "workspace"), self(t), nil)
	wantCode(t, err, session.ErrStoreIO)
	_, _, err = lock.Read(filepath.Join(file, "run"))
	wantCode(t, err, session.ErrStoreIO)
	_, err = lock.CommandLock(filepath.Join(t.TempDir(), "none"), self(t), "v1:key")
	wantCode(t, err, session.ErrStoreIO)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "command"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = lock.AcquireRun(dir, self(t), nil)
	wantCode(t, err, session.ErrLockMode)
	if _, held, err := lock.Read(filepath.Join(dir, "run")); err != nil || held {
		t.Errorf("Read: got %v, %v, want the run lock given back", held, err)
	}
}

// Holders returns the live processes that hold a lock of the workspace, and none if it
// is free.
func TestHolders(t *testing.T) {
	dir := locksDir(t)
	if executing, command, err := lock.Holders(dir); err != nil || len(executing) > 0 || command.PID != 0 {
		t.Errorf("Holders: got %+v, %+v, %v where nothing is", executing, command, err)
	}
	l, err := lock.AcquireRun(dir, self(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	other := self(t)
	other.Session = "other"
	shared, err := lock.AcquireShared(dir, other)
	if err != nil {
		t.Fatal(err)
	}
	executing, command, err := lock.Holders(dir)
	if err != nil || len(executing) != 2 || executing[0].Session != "mine" || executing[1].Session != "other" || command.PID != 0 {
		t.Errorf("Holders: got %+v, %+v, %v while two sessions execute", executing, command, err)
	}
	if err := errors.Join(l.Release(), shared.Release()); err != nil {
		t.Error(err)
	}
	if executing, _, err := lock.Holders(dir); err != nil || len(executing) > 0 {
		t.Errorf("Holders: got %+v, %v after the release", executing, err)
	}
}

// A session that shares the workspace may execute beside any other. A session that does
// not share is refused while one that shares, or a command of it, is there.
func TestAcquireShared(t *testing.T) {
	dir := locksDir(t)
	mine, other := self(t), self(t)
	other.Session = "other"
	alone, err := lock.AcquireRun(dir, mine, nil)
	if err != nil {
		t.Fatal(err)
	}
	beside, err := lock.AcquireShared(dir, other)
	if err != nil {
		t.Fatalf("AcquireShared: %v beside a session that does not share", err)
	}
	f, err := lock.SharedCommandLock(dir, "other")
	if err != nil {
		t.Fatal(err)
	}
	if err := alone.Release(); err != nil {
		t.Fatal(err)
	}
	refused := func(want string) {
		t.Helper()
		_, err := lock.AcquireRun(dir, mine, nil)
		wantCode(t, err, session.ErrLocked)
		if !strings.Contains(err.Error(), want) {
			t.Errorf("AcquireRun: got %q, want %q", err, want)
		}
	}
	refused("another session executes in this workspace and shares it; nothing was changed")
	if err := beside.Release(); err != nil {
		t.Fatal(err)
	}
	refused("a command of session other still runs in this workspace; nothing was changed")
	own, err := lock.AcquireRun(dir, other, nil)
	if err != nil {
		t.Fatalf("AcquireRun: %v while the session's own command runs", err)
	}
	if err := errors.Join(own.Release(), lock.ReleaseFile(f)); err != nil {
		t.Fatal(err)
	}
	alone, err = lock.AcquireRun(dir, mine, nil)
	if err != nil {
		t.Fatalf("AcquireRun: %v after the sharing session is gone", err)
	}
	if err := alone.Release(); err != nil {
		t.Error(err)
	}
}

// A file or directory in the place of the lock files of sharing sessions is reported,
// and the call is refused.
func TestAcquireSharedRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := lock.AcquireShared(filepath.Join(file, "workspace"), self(t))
	wantCode(t, err, session.ErrStoreIO)
	_, err = lock.SharedCommandLock(filepath.Join(file, "workspace"), "mine")
	wantCode(t, err, session.ErrStoreIO)
	_, _, err = lock.Holders(file)
	wantCode(t, err, session.ErrStoreIO)

	dir := madeLocksDir(t)
	shared := filepath.Join(dir, "share-other")
	if err := errors.Join(os.WriteFile(shared, nil, 0o600), os.Chmod(shared, 0o644)); err != nil {
		t.Fatal(err)
	}
	_, err = lock.AcquireRun(dir, self(t), nil)
	wantCode(t, err, session.ErrLockMode)
	if err := errors.Join(os.Remove(shared), os.Mkdir(shared, 0o700)); err != nil {
		t.Fatal(err)
	}
	_, _, err = lock.Holders(dir)
	wantCode(t, err, session.ErrLockMode)
}
