package crash

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// traceOptions make every child traced and every filtered call stop. PTRACE_O_EXITKILL is
// absent on purpose, because a detached supervisor outlives its tracer.
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

// seize begins to trace a running thread. Its children are then seized too, so stops of
// job control and first stops differ from signals.
func seize(tid int) error {
	if err := ptrace(unix.PTRACE_SEIZE, tid, 0, traceOptions); err != nil {
		return fmt.Errorf("seize thread %d: %w", tid, err)
	}
	return nil
}

// listen leaves a thread in a stop of job control, as without a tracer. It ignores a
// thread that is gone.
func listen(tid int) { _ = ptrace(unix.PTRACE_LISTEN, tid, 0, 0) }

// syscallInfo is struct ptrace_syscall_info. Its layout is the same on every
// architecture.
type syscallInfo struct {
	op     uint8
	_      [3]uint8
	arch   uint32
	ip, sp uint64
	// nr holds the result at an exit.
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

// restarts reports whether a result means that the kernel will restart the call after a
// signal. Programs never see these results (ERESTARTSYS and its relatives).
func restarts(ret int64) bool {
	switch ret {
	case -512, -513, -514, -516:
		return true
	}
	return false
}
