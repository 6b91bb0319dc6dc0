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
// whose lock files are in dir. It makes dir when it is missing. It does not check for
// other sessions, but a later session that does not share is refused. It returns the
// errors of Acquire.
func AcquireShared(dir string, h Holder) (*Lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, ioError(dir, err)
	}
	return persist(func() (*Lock, error) {
		return acquire(filepath.Join(dir, sharePrefix+string(h.Session)), h, (*flock.Flock).TryRLock)
	})
}

// SharedCommandLock is CommandLock for a session that shares the workspace. It does not
// check for other sessions either.
func SharedCommandLock(dir string, id session.ID) (*os.File, error) {
	return persist(func() (*os.File, error) {
		return acquireFile(filepath.Join(dir, sharePrefix+string(id)), inheritedFlags, unix.LOCK_SH, tryFlock)
	})
}

// unshared returns ErrLocked while a session other than id shares the workspace and
// executes there, or a command of such a session runs there.
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

// sharing returns the names of the lock files in dir that belong to sessions that ever
// shared the workspace. A dir that does not exist has none.
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

// ended returns ErrLocked while the session id, which shares the workspace, has the
// lock at path.
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
		Code: session.ErrLocked, Message: "another session executes in this workspace and shares it; nothing was changed",
		Next: session.Hint{Text: fmt.Sprintf("wait until session %s ends, or work beside it with", id), Do: session.MoveShareWorkspace}, Retryable: true, Cause: by,
	}
}
