package lock

import (
	"errors"

	"golang.org/x/sys/unix"
)

// errGone is returned for a process that has ended, waited for or not.
var errGone = errors.New("the process has ended")

// halted and zombie are SSTOP and SZOMB of sys/proc.h.
const (
	halted = 4
	zombie = 5
)

// process gives the start of a process in microseconds of the wall clock, and whether it is stopped.
func process(pid int) (start uint64, stopped bool, err error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0, false, err
	}
	if int(info.Proc.P_pid) != pid || info.Proc.P_stat == zombie {
		return 0, false, errGone
	}
	at := info.Proc.P_starttime
	return uint64(at.Sec)*1e6 + uint64(at.Usec), info.Proc.P_stat == halted, nil
}

// executable gives the name only, of at most 16 bytes: the path is not to be had without cgo.
func executable(pid int) (string, error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return "", err
	}
	return unix.ByteSliceToString(info.Proc.P_comm[:]), nil
}

func sameExecutable(int) bool { return false }
