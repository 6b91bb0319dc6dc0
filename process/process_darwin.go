package process

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// GroupsOnly says whether processes can only be followed by their process group, which
// outlives its leader.
const GroupsOnly = true

// SSTOP and SZOMB of sys/proc.h.
const (
	halted = 4
	zombie = 5
)

// Boot names this run of the machine. The time at which it began would not do: the system
// counts it back from the clock, so that setting the clock moves it.
func Boot() (string, error) {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return "", fmt.Errorf("ask which start of the machine this is: %w", err)
	}
	return id, nil
}

// namespace is 0: there is one process table.
func namespace() (uint64, error) { return 0, nil }

// Read reads the state of pid, with its start in microseconds of the clock at that time.
// It returns ErrGone where no process has it.
func Read(pid int) (Process, error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if errors.Is(err, unix.EIO) || errors.Is(err, unix.ESRCH) || err == nil && int(info.Proc.P_pid) != pid { // the first: there was nothing to read
		err = ErrGone
	}
	if err != nil {
		return Process{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	at := info.Proc.P_starttime
	return Process{PID: pid, Start: uint64(at.Sec)*1e6 + uint64(at.Usec), Name: unix.ByteSliceToString(info.Proc.P_comm[:]),
		Dead: info.Proc.P_stat == zombie, Stopped: info.Proc.P_stat == halted}, nil
}

// dying cannot tell.
func dying(int) bool { return false }

// Executable gives the name only, of at most 16 bytes: the path is not to be had without
// cgo.
func Executable(pid int) (string, error) {
	p, err := Read(pid)
	return p.Name, err
}

// SameExecutable cannot tell.
func SameExecutable(int) bool { return false }

// Table lists nothing.
func Table() ([]Process, error) { return nil, nil }

// Childless cannot tell: no process adopts orphans here.
func Childless() bool { return false }

// Below gives the process groups of roots that still have a member.
func Below(_ []Process, roots []int) []Process {
	var found []Process
	for _, pid := range roots {
		if unix.Kill(-pid, 0) == nil {
			found = append(found, Process{PID: pid, Session: pid})
		}
	}
	return found
}

// CommandLine gives the name of p: the arguments are not to be had without cgo.
func (p Process) CommandLine() string { return p.Name }

// Variable gives nothing: the environment of a process is not shown here.
func Variable(int, string) (string, error) { return "", nil }

// Locks cannot tell.
func Locks(int, os.FileInfo) (bool, error) { return false, nil }

// Signal sends sig to the process group that p leads. A group that is gone is no error.
func (p Process) Signal(sig unix.Signal) error {
	if err := unix.Kill(-p.PID, sig); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal group %d: %w", p.PID, err)
	}
	return nil
}
