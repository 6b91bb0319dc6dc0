package session_test

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/acode-dev/acode/session"
)

// DiskCode is the only rule that tells a full disk and a read-only one from other
// failures.
func TestDiskCode(t *testing.T) {
	for errno, want := range map[syscall.Errno]session.Code{
		syscall.ENOSPC: session.ErrDiskFull, syscall.EDQUOT: session.ErrDiskFull, syscall.EFBIG: session.ErrDiskFull,
		syscall.EROFS: session.ErrReadOnly, syscall.EIO: session.ErrStoreIO,
	} {
		err := fmt.Errorf("write: %w", &fs.PathError{Op: "write", Path: "x", Err: errno})
		if got := session.DiskCode(err, session.ErrStoreIO); got != want {
			t.Errorf("DiskCode(%v): got %s, want %s", errno, got, want)
		}
	}
	if got := session.DiskCode(errors.New("other"), ""); got != "" {
		t.Errorf("DiskCode of another error: got %s", got)
	}
}
