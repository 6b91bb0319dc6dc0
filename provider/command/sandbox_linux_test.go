package command_test

import (
	"fmt"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// deny makes calls fail with errno from now on, in this process and in all that it starts, as the
// sandboxes of containers do with calls that they do not know.
func deny(errno unix.Errno, calls ...uint32) error {
	prog := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // the number of the call
	for _, nr := range calls {
		prog = append(prog, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nr, Jf: 1},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)})
	}
	prog = append(prog, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	filter := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	_, _, failed := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter)))
	if failed != 0 {
		return fmt.Errorf("install filter: %w", failed)
	}
	return nil
}

// C2: where a sandbox has no pidfds, a command whose time is over ends all the same.
func TestTimeoutWithoutPidfds(t *testing.T) {
	for _, errno := range []unix.Errno{unix.ENOSYS, unix.EPERM} {
		t.Run(unix.ErrnoName(errno), func(t *testing.T) {
			timeoutEndsEveryDescendant(t, newStage(t, fmt.Sprintf("CMDTEST_DENY=%d", errno)))
		})
	}
}
