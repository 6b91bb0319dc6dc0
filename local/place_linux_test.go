package local_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/local"
)

// denyStatx has statx fail with errno in the thread of the caller, for good.
func denyStatx(errno unix.Errno) error {
	prog := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_STATX, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	filter := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	if _, _, failed := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&filter))); failed != 0 {
		return fmt.Errorf("install filter: %w", failed)
	}
	return unix.Statx(unix.AT_FDCWD, "/", 0, unix.STATX_INO, &unix.Statx_t{})
}

// Where a sandbox knows no statx, a store that is in its place is found there.
func TestPlaceWithoutStatx(t *testing.T) {
	dir := t.TempDir()
	want, err := local.WhereIs(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, errno := range []unix.Errno{unix.ENOSYS, unix.EPERM} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // which ends with this function, and the filter with it
			if err := denyStatx(errno); !errors.Is(err, errno) {
				t.Errorf("statx: got %v, want %v", err, errno)
			}
			if got, err := local.WhereIs(dir); got != want || err != nil {
				t.Errorf("whereIs: got %v, %v, want %v", got, err, want)
			}
			if _, err := local.WhereIs(filepath.Join(dir, "gone")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("whereIs: got %v for a file that is gone", err)
			}
		}()
		<-done
	}
}
