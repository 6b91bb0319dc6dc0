package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/session"
)

// AcquireShared lets the session that h names execute beside others in the workspace
// whose lock files lie in dir, which it makes when it is missing. Nobody is asked;
// whoever comes later and does not share is refused. It returns what Acquire returns.
func AcquireShared(dir string, h Holder) (*Lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, ioError(dir, err)
	}
	return persist(func() (*Lock, error) {
		return acquire(filepath.Join(dir, sharePrefix+string(h.Session)), h, (*flock.Flock).TryRLock)
	})
}

// SharedCommandLock is CommandLock for a session that shares the workspace: nobody is
// asked here either.
func SharedCommandLock(dir string, id session.ID) (*os.File, error) {
	return persist(func() (*os.File, error) {
		return acquireFile(filepath.Join(dir, sharePrefix+string(id)), unix.LOCK_SH, tryFlock)
	})
}

// unshared returns ErrLocked while another session than id, or a command of one, executes
// in the workspace because it shares it.
func unshared(dir string, id session.ID) error {
	names, err := sharing(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		other := session.ID(strings.TrimPrefix(name, sharePrefix))
		if other == id {
			continue
		}
		if err := ended(filepath.Join(dir, name), other); err != nil {
			return err
		}
	}
	return nil
}

// sharing names the lock files in dir of the sessions that ever shared the workspace. No
// dir has none.
func sharing(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, ioError(dir, err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), sharePrefix) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// ended returns ErrLocked while the session id has the lock at path, which it took to
// share a workspace.
func ended(path string, id session.ID) error {
	f, err := AcquireFile(path)
	if err == nil {
		return unlock(f)
	}
	var by *HeldError
	if !errors.As(err, &by) {
		return err
	}
	if by.Holder.PID == 0 {
		return heldByCommand(path, Holder{Session: id})
	}
	return &session.Error{
		Code: session.ErrLocked, Message: "another session executes in this workspace, which it shares; nothing was changed",
		Next: session.Hint{Text: fmt.Sprintf("wait until session %s ends, or work beside it with", id), Do: session.MoveShareWorkspace}, Retryable: true, Cause: by,
	}
}
