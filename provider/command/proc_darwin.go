package command

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/machine"
)

// groupsOnly says whether a command can only be followed by its process group, which
// outlives its leader.
const groupsOnly = true

// alive reports whether the process of id runs. A zombie does not. An error says that it could not be
// looked at.
func alive(id identity) (bool, error) {
	boot, err := machine.BootID()
	if err != nil || id.PID <= 0 || id.Boot != boot {
		return false, err
	}
	p, err := readProcess(id.PID)
	if errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	return err == nil && !p.dead && p.start == id.Start, err
}

// hidden says no: everybody sees every process here.
func hidden(identity) bool { return false }

// SZOMB and SSTOP of sys/proc.h.
const (
	zombie  = 5
	stopped = 4
)

// readProcess reads the state of pid, with its start in microseconds of the clock at that time. One
// that is gone is ESRCH.
func readProcess(pid int) (process, error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if errors.Is(err, unix.EIO) || err == nil && int(info.Proc.P_pid) != pid { // the first: there was nothing to read
		err = unix.ESRCH
	}
	if err != nil {
		return process{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	at := info.Proc.P_starttime
	return process{pid: pid, start: uint64(at.Sec)*1e6 + uint64(at.Usec), dead: info.Proc.P_stat == zombie, stopped: info.Proc.P_stat == stopped}, nil
}

// process stands for the process group that pid leads: the process table is not walked here.
type process struct {
	pid     int
	parent  int
	session int
	start   uint64
	dead    bool
	stopped bool
	holds   bool
	name    string
}

func processes() ([]process, error) { return nil, nil }

// childless cannot tell: nobody adopts orphans here.
func childless() bool { return false }

func keyOf(int) string { return "" }

func (p process) describe() string { return fmt.Sprintf("%d %s", p.pid, p.name) }

func (l leftover) describe(identity) string { return fmt.Sprintf("%d %s", l.PID, l.Name) }

// holders finds the leader's process group by the claim's start block. While it has a member no process
// gets its number; one that has it, and is not the leader, leads a group of its own.
func holders(f *os.File, _ string) ([]process, error) {
	c, err := readClaim(f)
	if err != nil || c.Start == nil {
		return nil, err
	}
	if p, err := readProcess(c.Start.Leader.PID); err == nil && p.start != c.Start.Leader.Start {
		return nil, nil
	}
	found := descendants(nil, []int{c.Start.Leader.PID})
	for i := range found {
		found[i].holds = true
	}
	return found, nil
}

// descendants gives the process groups of roots that still have a member.
func descendants(_ []process, roots []int) []process {
	var found []process
	for _, pid := range roots {
		if unix.Kill(-pid, 0) == nil {
			found = append(found, process{pid: pid, session: pid})
		}
	}
	return found
}

// signal sends sig to the group that p leads.
func (p process) signal(sig unix.Signal) error {
	if err := unix.Kill(-p.pid, sig); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal group %d: %w", p.pid, err)
	}
	return nil
}
