package lock

import (
	"os"

	"golang.org/x/sys/unix"
)

// What the disk does is not to be had on demand, so tests reach these directly.

func IOError(path string, err error) error { return ioError(path, err) }

// AcquireFileBy is AcquireFile, once locked has been called with the path whenever its file has been locked.
func AcquireFileBy(path string, locked func()) (*os.File, error) {
	return acquireFile(path, unix.LOCK_EX, func(f *os.File, how int) (bool, error) {
		ok, err := tryFlock(f, how)
		locked()
		return ok, err
	})
}

func WriteHolder(f *os.File, h Holder) error { return write(f, h) }
