package lock

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/process"
	"github.com/acode-dev/acode/session"
)

// Directory is the lock on the directory of a workspace itself. Its descriptor is closed
// on exec, so no command inherits it.
type Directory struct {
	// nil if the directory is not locked
	file *os.File
}

// AcquireDirectory takes the flock(2) of the directory at path, without waiting for a
// live process. The lock files of a workspace go by its path, and a directory may have
// several paths. It may be bind-mounted, move while a session executes there, or be in
// the stores of two users.
//
// If shared is set, AcquireDirectory takes a shared lock. If a session that does not
// share holds the directory, it goes on without a lock, as AcquireShared does. It locks
// nothing on a file system that cannot lock directories. It returns ErrLocked with a
// *HeldError as its cause. The caller calls Release. The death of the process does the
// same.
func AcquireDirectory(path string, shared bool) (*Directory, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &session.Error{Code: session.ErrEnvironment, Message: "the workspace cannot be opened; nothing was changed", Place: path, Cause: err}
	}
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	locked, err := persist(func() (bool, error) {
		locked, err := tryFlock(f, how)
		// on a file system without such locks, the lock files must be enough
		if locked || shared || err != nil {
			return locked, nil
		}
		return false, &session.Error{Code: session.ErrLocked, Retryable: true, Cause: &HeldError{Path: path},
			Message: "another session executes in this directory by another path or from another store; nothing was changed",
			Next:    session.Then("wait until it ends, or look for it with", session.MoveList, "")}
	})
	if locked {
		return &Directory{file: f}, nil
	}
	var by *HeldError
	if errors.As(err, &by) {
		by.Holder = whoLocks(f)
	}
	// nothing is held
	_ = f.Close()
	return &Directory{}, err
}

// whoLocks returns the process that holds the exclusive lock of the directory f, as far
// as /proc shows it.
func whoLocks(f *os.File) Holder {
	info, err := f.Stat()
	// no process is named if the table cannot be read
	ps, _ := process.Table()
	for _, p := range ps {
		if err != nil || p.Dead || p.PID == os.Getpid() {
			continue
		}
		if locks, _ := process.Locks(p.PID, info); locks {
			// if Identify fails, the Holder has only the pid
			id, _ := process.Identify(p.PID)
			id.PID = p.PID
			return Holder{ID: id, Command: p.CommandLine()}
		}
	}
	return Holder{}
}

// Release gives the lock up.
func (d *Directory) Release() error {
	if d.file == nil {
		return nil
	}
	if err := d.file.Close(); err != nil {
		return fmt.Errorf("unlock the workspace: %w", err)
	}
	return nil
}
