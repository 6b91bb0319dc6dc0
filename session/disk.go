package session

import (
	"errors"
	"syscall"
)

// DiskCode returns the code for a failed call of the file system. It returns ErrDiskFull
// if a disk, a quota or the limit on the size of a file is exhausted, and ErrReadOnly if
// the file system is read-only. For any other failure it returns otherwise.
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
