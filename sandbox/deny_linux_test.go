package sandbox_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/sandbox"
)

// deny makes system calls fail in this process and its children, as on a kernel that
// refuses them. spec has an error number and the numbers of calls. The call "user" stands
// for clone with a user namespace.
func deny(spec string) error {
	fields := strings.Fields(spec)
	no, err := strconv.Atoi(fields[0])
	if err != nil {
		return err
	}
	verdict := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(no)}
	prog := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}}
	for _, field := range fields[1:] {
		if field == "user" {
			prog = append(prog, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CLONE, Jf: 4},
				unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16},
				unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.CLONE_NEWUSER, Jf: 1}, verdict,
				unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS})
			continue
		}
		nr, err := strconv.ParseUint(field, 10, 32)
		if err != nil {
			return err
		}
		prog = append(prog, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(nr), Jf: 1}, verdict)
	}
	prog = append(prog, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	if _, _, failed := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter))); failed != 0 {
		return failed
	}
	return nil
}

// The mode follows from the kernel: without user namespaces, without mounts in them, and
// without Landlock.
func TestMode(t *testing.T) {
	for name, test := range map[string]struct{ deny, want string }{
		"all":           {"", sandbox.Namespaces + " <nil>"},
		"no_namespaces": {fmt.Sprintf("%d user", unix.EPERM), sandbox.Filter + " <nil>"},
		"no_mounts":     {fmt.Sprintf("%d %d", unix.EPERM, unix.SYS_MOUNT), sandbox.Filter + " <nil>"},
		"no_landlock":   {fmt.Sprintf("%d %d", unix.EOPNOTSUPP, unix.SYS_LANDLOCK_CREATE_RULESET), " the kernel lacks Landlock"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(self(), "mode")
			cmd.Env = append(os.Environ(), "SANDBOXTEST_DENY="+test.deny, "GORACE=atexit_sleep_ms=0")
			if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), test.want) {
				t.Errorf("Mode: got %q, %v, want %q", out, err, test.want)
			}
		})
	}
}

// A program that is not acode is not taken for a first stage.
func TestModeOfAnotherProgram(t *testing.T) {
	if mode, err := sandbox.Mode("/bin/echo"); err == nil {
		t.Errorf("Mode: got %q, want an error", mode)
	}
}
