package lock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/session"
)

// The lock files of a workspace.
const (
	// runFile is held by the acode that executes there.
	runFile = "run"
	// commandFile is held by a supervisor and by its command while one runs.
	commandFile = "command"
	// sharePrefix and a session's id name the file of a session that shares the
	// workspace. The session and its command hold a shared lock on it.
	sharePrefix = "share-"
)

// AcquireRun takes the right to execute alone in the workspace whose lock files are in
// dir, for the session that h names. It makes dir when it is missing. It returns the
// errors of Acquire. It also returns ErrLocked if a command of another session still
// runs in the workspace, or if another session that shares the workspace executes
// there. The *HeldError then has that session, and the command's key.
//
// runs reports whether the command that a holder names still runs although its lock is
// free. This happens when the command closed the file that it inherited and its
// supervisor was killed. If runs is nil, AcquireRun relies on the lock alone.
func AcquireRun(dir string, h Holder, runs func(Holder) (bool, error)) (*Lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, ioError(dir, err)
	}
	l, err := Acquire(filepath.Join(dir, runFile), h)
	if err != nil {
		var locked *session.Error
		if errors.As(err, &locked) && locked.Code == session.ErrLocked {
			locked.Message = "another session executes in this workspace; nothing was changed"
		}
		return nil, err
	}
	// The file names our session by now. CommandLock reads that file after it has taken
	// the command lock, so of two that come at once at least one sees the other.
	_, err = persist(func() (*Lock, error) {
		if err := commandFree(dir, h.Session, runs); err != nil {
			return l, err
		}
		return l, unshared(dir, h.Session)
	})
	if err != nil {
		// the error says more
		_ = l.Release()
		return nil, err
	}
	return l, nil
}

// commandFree returns ErrLocked while a command of another session than id runs.
func commandFree(dir string, id session.ID, runs func(Holder) (bool, error)) error {
	path := filepath.Join(dir, commandFile)
	f, err := AcquireFile(path)
	if err == nil {
		last, rerr := holderIn(f)
		if err := errors.Join(rerr, unlock(f)); err != nil || runs == nil || last.Session == id || last.Key == "" {
			return err
		}
		if still, err := runs(last); err != nil || !still {
			return err
		}
		return heldByCommand(path, last)
	}
	var by *HeldError
	if !errors.As(err, &by) {
		return err
	}
	h, _, err := Read(path)
	if err != nil {
		return err
	}
	switch h.Session {
	case id:
		return nil
	case "":
		// taken this instant, and its holder has not written its name yet
		return lockedBy(path, Holder{})
	}
	return heldByCommand(path, h)
}

// heldByCommand returns the error for a command of another session, which h names.
func heldByCommand(path string, h Holder) error {
	which := ""
	if h.Key != "" {
		which = " (" + h.Key + ")"
	}
	return &session.Error{
		Code: session.ErrLocked, Message: fmt.Sprintf("a command of session %s still runs in this workspace%s; nothing was changed", h.Session, which),
		Next: session.Then("wait for it, or end it with", session.MoveCancelCommand, string(h.Session)), Retryable: true, Cause: &HeldError{path, h},
	}
}

// Holders returns the live holders of the lock files of a workspace in dir. executing
// are the sessions that execute there; a session that does not share comes first.
// command is the supervisor of a command of a session that does not share, and zero if
// none runs. Holders takes no lock and writes nothing.
func Holders(dir string) (executing []Holder, command Holder, err error) {
	names, err := sharing(dir)
	if err != nil {
		return nil, Holder{}, err
	}
	for _, name := range append([]string{runFile}, names...) {
		h, alive, err := Read(filepath.Join(dir, name))
		if err != nil {
			return nil, Holder{}, err
		}
		if alive {
			executing = append(executing, h)
		}
	}
	h, alive, err := Read(filepath.Join(dir, commandFile))
	if err != nil || !alive {
		return executing, Holder{}, err
	}
	return executing, h, nil
}

// AcquireFile takes the plain flock(2) of the file at path without waiting. It makes
// the file when it is missing. A command can inherit the file. The lock then lasts
// until ReleaseFile, or until the last process with the file has ended. AcquireFile
// returns the errors of Acquire.
func AcquireFile(path string) (*os.File, error) {
	return acquireFile(path, openFlags, unix.LOCK_EX, tryFlock)
}

// acquireFile is AcquireFile with its own flags and try. how is unix.LOCK_SH or
// unix.LOCK_EX.
func acquireFile(path string, flags, how int, try func(f *os.File, how int) (bool, error)) (*os.File, error) {
	for range attempts {
		f, err := os.OpenFile(path, flags, 0o600)
		if err != nil {
			return nil, openError(path, err)
		}
		locked := false
		if err = check(path, f); err == nil {
			locked, err = try(f, how)
		}
		if locked && same(path, f) {
			return f, nil
		}
		// nothing was written
		_ = f.Close()
		switch {
		case err != nil:
			return nil, err
		case !locked:
			return nil, held(path)
		}
	}
	return nil, replaced(path)
}

// tryFlock takes the flock(2) of f. It returns false if another process has it.
func tryFlock(f *os.File, how int) (bool, error) {
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if err == nil || errors.Is(err, unix.EWOULDBLOCK) {
			return err == nil, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return false, ioError(f.Name(), err)
		}
	}
}

// CommandLock takes the right to run a command in the workspace whose lock files are in
// dir, for the session that h names. The command inherits the file. CommandLock returns
// ErrLocked while another command runs there, or if another session has begun to
// execute there.
func CommandLock(dir string, h Holder, key string) (*os.File, error) {
	h.Key = key
	path := filepath.Join(dir, commandFile)
	f, err := persist(func() (*os.File, error) { return acquireFile(path, inheritedFlags, unix.LOCK_EX, tryFlock) })
	if err != nil {
		return nil, lingering(path, h.Session, err)
	}
	if err := rewrite(path, func(f *os.File) error { return write(f, h) }); err != nil {
		// the error of write says more
		_ = unlock(f)
		return nil, ioError(f.Name(), err)
	}
	path = filepath.Join(dir, runFile)
	by, alive, err := Read(path)
	if err == nil && alive && by.Session != h.Session {
		err = &session.Error{
			Code: session.ErrLocked, Message: fmt.Sprintf("session %s executes in this workspace; the command was not started", by.Session),
			Next: session.Then("look at it with", session.MoveStatus, string(by.Session)), Retryable: true, Cause: &HeldError{path, by},
		}
	}
	if err != nil {
		// the error says more
		_ = ReleaseFile(f)
		return nil, err
	}
	return f, nil
}

// rewrite calls do with a lock file that this process has locked. The file that commands
// inherit cannot be written to.
func rewrite(path string, do func(*os.File) error) error {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return errors.Join(do(f), f.Close())
}

// lingering replaces err if processes of an earlier command of this session have the
// command lock, rather than a supervisor or another session.
func lingering(path string, id session.ID, err error) error {
	h, alive, rerr := Read(path)
	if !errors.Is(err, session.ErrLocked) || rerr != nil || alive || h.Session != id {
		return err
	}
	return &session.Error{
		Code: session.ErrLocked, Message: "processes of an earlier command of this session still run in this workspace, because its supervisor was killed; the next command was not started",
		Next: session.Then("wait until it ends, then resume; to end it", session.MoveCancelCommand, string(id)), Retryable: true,
	}
}

// ReleaseFile gives up the lock of f for this process and for every process that
// inherited it. It removes the holder from the file and closes it.
func ReleaseFile(f *os.File) error {
	// Only the kernel's lock counts. A file that still names us is only a wrong report.
	_ = rewrite(f.Name(), func(f *os.File) error { return overwrite(f, nil) })
	return unlock(f)
}

func unlock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_UN)
	if err := errors.Join(err, f.Close()); err != nil {
		return ioError(f.Name(), err)
	}
	return nil
}
