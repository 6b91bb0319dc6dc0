package lock

import (
	"os"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"
)

// Disk errors cannot be produced on demand, so tests call these functions directly.

func IOError(path string, err error) error { return ioError(path, err) }

// AcquireBy is Acquire. It calls locked each time it has locked the file at path.
func AcquireBy(path string, h Holder, locked func()) (*Lock, error) {
	return acquire(path, h, func(f *flock.Flock) (bool, error) {
		ok, err := f.TryLock()
		locked()
		return ok, err
	})
}

// AcquireFileBy is AcquireFile with the same hook.
func AcquireFileBy(path string, locked func()) (*os.File, error) {
	return acquireFile(path, openFlags, unix.LOCK_EX, func(f *os.File, how int) (bool, error) {
		ok, err := tryFlock(f, how)
		locked()
		return ok, err
	})
}

func WriteHolder(f *os.File, h Holder) error { return write(f, h) }
