package command_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/session"
)

// denial returns a spec for deny: calls fail with errno.
func denial(errno unix.Errno, calls ...int) string {
	spec := strconv.Itoa(int(errno))
	for _, nr := range calls {
		spec += fmt.Sprintf(" %d", nr)
	}
	return "CMDTEST_DENY=" + spec
}

// deny makes calls fail from now on, in this process and its children. The sandboxes of
// containers do this with unknown calls.
func deny(spec string) error {
	var numbers []uint32
	for _, field := range strings.Fields(spec) {
		n, err := strconv.ParseUint(field, 10, 32)
		if err != nil {
			return fmt.Errorf("parse the calls to deny: %w", err)
		}
		numbers = append(numbers, uint32(n))
	}
	// the number of the call
	prog := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}}
	for _, nr := range numbers[1:] {
		prog = append(prog, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nr, Jf: 1},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | numbers[0]})
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

// confine sets the limit that spec names for this process: a number of open files, or a
// spec of denial.
func confine(spec string) error {
	if n, err := strconv.ParseUint(spec, 10, 64); err == nil {
		return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n})
	}
	return deny(strings.TrimPrefix(spec, "CMDTEST_DENY="))
}

// A limit of processes, memory or open files is reported differently from a program that
// cannot be started.
func TestStartedAtALimit(t *testing.T) {
	for name, limit := range map[string]string{
		"processes": denial(unix.EAGAIN, unix.SYS_EXECVE), "memory": denial(unix.ENOMEM, unix.SYS_EXECVE), "files": "20",
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, "CMDTEST_FORKING="+limit)
			if rec := s.run(s.sh(s.key, "echo ran >> ledger")); rec.State != session.CommandFinished || rec.StartError == "" || !rec.Starved || s.has("ledger") {
				t.Errorf("Run: got %+v", rec)
			}
		})
	}
	s := newStage(t, "CMDTEST_FORKING="+denial(unix.EACCES, unix.SYS_EXECVE))
	if rec := s.run(s.sh(s.key, "true")); rec.StartError == "" || rec.Starved {
		t.Errorf("Run: got %+v", rec)
	}
}

// A sandbox without unix sockets is no bug, and no step has failed. A limit that was
// reached is still reported as one.
func TestSpawnWithoutSockets(t *testing.T) {
	for errno, want := range map[unix.Errno]session.Code{unix.EAFNOSUPPORT: session.ErrEnvironment, unix.EMFILE: session.ErrInternal} {
		s := newStage(t)
		cmd := s.client([]session.CommandRequest{s.sh(s.key, "touch ran")}, "CMDTEST_CLIENT_"+strings.TrimPrefix(denial(errno, unix.SYS_SOCKETPAIR), "CMDTEST_"))
		// only its output counts
		_ = cmd.Wait()
		if out := fmt.Sprint(cmd.Stdout); !strings.Contains(out, " "+string(want)+" ") || !strings.Contains(out, errno.Error()) || s.has("ran") {
			t.Errorf("%v: got %s, want %s", errno, out, want)
		}
	}
}
