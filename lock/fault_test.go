package lock_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acode-dev/acode/lock"
	"github.com/acode-dev/acode/process"
	"github.com/acode-dev/acode/session"
)

// FR-063: the errno of the disk decides the code of the error.
func TestDiskTroubleHasItsCode(t *testing.T) {
	for errno, code := range map[syscall.Errno]session.Code{
		syscall.ENOSPC: session.ErrDiskFull, syscall.EDQUOT: session.ErrDiskFull, syscall.EFBIG: session.ErrDiskFull,
		syscall.EROFS: session.ErrReadOnly, syscall.EIO: session.ErrStoreIO,
	} {
		err := lock.IOError("/home/locks/x.lock", fmt.Errorf("write: %w", errno))
		var e *session.Error
		if !errors.As(err, &e) || e.Code != code || e.Place != "/home/locks/x.lock" || e.Retryable != (code == session.ErrDiskFull) {
			t.Errorf("%v: got %+v, want %s with its place", errno, e, code)
		}
	}
}

// A holder that does not fit loses its command first, then its other long fields. Its
// identity stays.
func TestHolderThatDoesNotFit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	long := strings.Repeat("x", 2000)
	if err := lock.WriteHolder(f, lock.Holder{ID: process.ID{PID: 7}, Host: long, Key: long, Command: long}); err != nil {
		t.Fatal(err)
	}
	h, _, err := lock.Read(path)
	if err != nil || h.PID != 7 || h.Host != "" || h.Command != "" {
		t.Errorf("Read: got %+v, %v, want pid 7 and nothing long", h, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := lock.WriteHolder(f, h); err == nil {
		t.Error("write to a closed file: no error")
	}
}
