package session

import (
	"errors"
	"syscall"
)

// DiskCode says what a failed call of the file system means: ErrDiskFull where there is
// no room left, for a quota or a limit on the size of files too, and ErrReadOnly where
// nothing can be written. Any other failure is otherwise.
func DiskCode(err error, otherwise Code) Code {
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, full) {
			return ErrDiskFull
		}
	}
	if errors.Is(err, syscall.EROFS) {
		return ErrReadOnly
	}
	return otherwise
}
