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
	// nil where it is not locked
	file *os.File
}

// AcquireDirectory takes the flock(2) of the directory at path, without waiting for a
// process that lives. Where shared is set it takes the lock in common with others, and
// goes on without it beside a session that does not share, as AcquireShared does. The
// lock files of a workspace go by its path, and a directory may have two paths: by a bind
// mount, by a move while a session executes there, or in the stores of two users. It
// returns ErrLocked with a *HeldError as its cause. Where the file system locks no
// directories it locks nothing. The caller calls Release; the death of the process does
// the same.
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
		// a file system without such locks: the lock files have to do
		if locked || shared || err != nil {
			return locked, nil
		}
		return false, &session.Error{Code: session.ErrLocked, Retryable: true, Cause: &HeldError{Path: path},
			Message: "another session executes in this directory, which has another path there or belongs to another store; nothing was changed",
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

// whoLocks names the process that has the directory f for itself, as far as it can be
// seen.
func whoLocks(f *os.File) Holder {
	info, err := f.Stat()
	// nobody is named where it cannot be read
	ps, _ := process.Table()
	for _, p := range ps {
		if err != nil || p.Dead || p.PID == os.Getpid() {
			continue
		}
		if locks, _ := process.Locks(p.PID, info); locks {
			// without it the pid alone is told
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
