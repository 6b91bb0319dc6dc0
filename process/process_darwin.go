package process

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// GroupsOnly says whether processes can be followed only by their process group, which
// outlives its leader.
const GroupsOnly = true

// halted and zombie are SSTOP and SZOMB of sys/proc.h.
const (
	halted = 4
	zombie = 5
)

// Boot returns the id of this boot of the machine. The time of the boot is not an id,
// because the system computes it from the clock.
func Boot() (string, error) {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return "", fmt.Errorf("read the id of this boot: %w", err)
	}
	return id, nil
}

// namespace returns 0, because there is only one process table.
func namespace() (uint64, error) { return 0, nil }

// Read returns the state of pid. Start is in microseconds of the clock at that time. Read
// returns ErrGone if no process has the pid.
func Read(pid int) (Process, error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if errors.Is(err, unix.EIO) || errors.Is(err, unix.ESRCH) || err == nil && int(info.Proc.P_pid) != pid { // The system returns EIO if there was nothing to read.
		err = ErrGone
	}
	if err != nil {
		return Process{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	at := info.Proc.P_starttime
	return Process{PID: pid, Start: uint64(at.Sec)*1e6 + uint64(at.Usec), Name: unix.ByteSliceToString(info.Proc.P_comm[:]),
		Dead: info.Proc.P_stat == zombie, Stopped: info.Proc.P_stat == halted}, nil
}

// dying returns false, because the system does not show it.
func dying(int) bool { return false }

// Executable returns only a name of at most 16 bytes, because the path needs cgo.
func Executable(pid int) (string, error) {
	p, err := Read(pid)
	return p.Name, err
}

// SameExecutable returns false, because the system does not show it.
func SameExecutable(int) bool { return false }

// Table returns no processes.
func Table() ([]Process, error) { return nil, nil }

// Childless returns false, because no process adopts orphans on macOS.
func Childless() bool { return false }

// Below returns the process groups of roots that still have a member.
func Below(_ []Process, roots []int) []Process {
	var found []Process
	for _, pid := range roots {
		if unix.Kill(-pid, 0) == nil {
			found = append(found, Process{PID: pid, Session: pid})
		}
	}
	return found
}

// CommandLine returns the name of p, because the arguments need cgo.
func (p Process) CommandLine() string { return p.Name }

// Variable returns "", because the system does not show the environment of a process.
func Variable(int, string) (string, error) { return "", nil }

// Locks returns false, because the system does not show it.
func Locks(int, os.FileInfo) (bool, error) { return false, nil }

// Signal sends sig to the process group that p leads. It returns nil if the group is
// gone.
func (p Process) Signal(sig unix.Signal) error {
	if err := unix.Kill(-p.PID, sig); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal group %d: %w", p.PID, err)
	}
	return nil
}
