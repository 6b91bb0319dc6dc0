package crash

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// traceOptions make every child traced and every filtered call stop. PTRACE_O_EXITKILL is
// left out on purpose: a detached supervisor outlives whoever traced it.
const traceOptions = unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_TRACECLONE |
	unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACEEXEC |
	unix.PTRACE_O_TRACESYSGOOD

// syscallStop is the signal of a stop at the exit of a call, as PTRACE_O_TRACESYSGOOD
// marks it.
const syscallStop = unix.SIGTRAP | 0x80

func ptrace(request, tid int, addr, data uintptr) error {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(tid), addr, data, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// seize begins to trace a running thread. Its children are then seized too, so that stops
// of job control and first stops are told apart from signals.
func seize(tid int) error {
	if err := ptrace(unix.PTRACE_SEIZE, tid, 0, traceOptions); err != nil {
		return fmt.Errorf("seize thread %d: %w", tid, err)
	}
	return nil
}

// listen leaves a thread in a stop of job control, as it would be without a tracer.
// gone: nothing to leave
func listen(tid int) { _ = ptrace(unix.PTRACE_LISTEN, tid, 0, 0) }

// syscallInfo is struct ptrace_syscall_info; it reads alike on every architecture.
type syscallInfo struct {
	op     uint8
	_      [3]uint8
	arch   uint32
	ip, sp uint64
	// at an exit: the result
	nr   uint64
	args [6]uint64
	_    [2]uint64
}

func readSyscall(tid int) (syscallInfo, error) {
	var info syscallInfo
	err := ptrace(unix.PTRACE_GET_SYSCALL_INFO, tid, unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)))
	if err != nil {
		return info, fmt.Errorf("read system call of %d: %w", tid, err)
	}
	return info, nil
}

// restarts reports whether a result means that the kernel will make the call again after
// a signal (ERESTARTSYS and its relatives, which programs never see).
func restarts(ret int64) bool {
	switch ret {
	case -512, -513, -514, -516:
		return true
	}
	return false
}
