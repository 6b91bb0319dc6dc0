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
	// held by the acode that executes there
	runFile = "run"
	// held by a supervisor, and by its command, while one runs
	commandFile = "command"
	// and a session's id: held, in common, by that session and its command, where it
	// shares the workspace
	sharePrefix = "share-"
)

// AcquireRun takes the right to execute alone in the workspace whose lock files lie in
// dir, for the session that h names. It makes dir when it is missing. Besides what
// Acquire returns, it returns ErrLocked when a command of another session still runs in
// the workspace, or another session executes there that shares it; the *HeldError then
// has that session, and the command's key. runs reports whether the command that a holder
// names still runs although nobody has its lock: it may have closed what it inherited,
// and its supervisor have been killed. nil believes the lock.
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
	// The file names our session by now. CommandLock looks there after it has taken the
	// command lock, so of two that come at once at least one sees the other.
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
		// taken this instant and not signed yet
		return lockedBy(path, Holder{})
	}
	return heldByCommand(path, h)
}

// heldByCommand is the error for a command of another session, which h names.
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

// Holders says who lives and holds the lock files of a workspace in dir: executing are
// there, first who does not share it; command supervises a command of such a one, zero
// when nobody does. It takes no lock and writes nothing.
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

// AcquireFile takes the plain flock(2) of the file at path without waiting and makes the
// file when it is missing. A command can inherit the file; then the lock lasts until
// ReleaseFile or until the last of them has ended. It returns what Acquire returns.
func AcquireFile(path string) (*os.File, error) {
	return acquireFile(path, unix.LOCK_EX, tryFlock)
}

// acquireFile does it by try; how is unix.LOCK_SH or unix.LOCK_EX.
func acquireFile(path string, how int, try func(f *os.File, how int) (bool, error)) (*os.File, error) {
	for range attempts {
		f, err := os.OpenFile(path, openFlags, 0o600)
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

// tryFlock takes the flock(2) of f, unless another has it.
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

// CommandLock takes the right to run a command in the workspace whose lock files lie in
// dir, for the session that h names. The command inherits the file. It returns ErrLocked
// while another command runs there, or when another session has begun to execute there.
func CommandLock(dir string, h Holder, key string) (*os.File, error) {
	h.Key = key
	path := filepath.Join(dir, commandFile)
	f, err := persist(func() (*os.File, error) { return AcquireFile(path) })
	if err != nil {
		return nil, lingering(path, h.Session, err)
	}
	if err := write(f, h); err != nil {
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

// lingering gives, in the place of err, what has the command lock where it is neither a
// supervisor nor another session.
func lingering(path string, id session.ID, err error) error {
	h, alive, rerr := Read(path)
	if !errors.Is(err, session.ErrLocked) || rerr != nil || alive || h.Session != id {
		return err
	}
	return &session.Error{
		Code: session.ErrLocked, Message: "what an earlier command of this session started still runs in this workspace, as its supervisor was killed; the next command was not started",
		Next: session.Then("wait until it ends, then resume; to end it", session.MoveCancelCommand, string(id)), Retryable: true,
	}
}

// ReleaseFile gives up the lock of f, also for every process that inherited it, makes the
// file name nobody, and closes it.
func ReleaseFile(f *os.File) error {
	// The kernel's lock is what counts; a file that still names us is only a wrong
	// report.
	_ = overwrite(f, nil)
	return unlock(f)
}

func unlock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_UN)
	if err := errors.Join(err, f.Close()); err != nil {
		return ioError(f.Name(), err)
	}
	return nil
}
