//go:build !linux

package command

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// groupsOnly says whether a command can only be followed by its process group, which
// outlives its leader.
const groupsOnly = true

// bootID names this run of the machine by when it began.
func bootID() string {
	t, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d", t.Sec)
}

// identify names the process that has pid now, as well as this system can.
func identify(pid int) (identity, error) {
	return identity{PID: pid, Boot: bootID()}, nil
}

// alive reports whether a process with that pid runs since the same boot.
func alive(id identity) bool {
	err := unix.Kill(id.PID, 0)
	return id.PID > 0 && id.Boot == bootID() && (err == nil || errors.Is(err, unix.EPERM))
}

// process stands for the process group that pid leads: there is no process table to walk.
type process struct {
	pid     int
	parent  int
	session int
	start   uint64
	dead    bool
	holds   bool
	name    string
}

func processes() []process { return nil }

// childless cannot tell: nobody adopts orphans here.
func childless() bool { return false }

func keyOf(int) string { return "" }

func (p process) describe() string { return fmt.Sprintf("%d %s", p.pid, p.name) }

func (l leftover) describe(string) string { return fmt.Sprintf("%d %s", l.PID, l.Name) }

// holders finds the leader's process group by the claim's start block.
func holders(f *os.File, _ string) []process {
	c, err := readClaim(f)
	if err != nil || c.Start == nil {
		return nil
	}
	found := descendants(nil, []int{c.Start.Leader.PID})
	for i := range found {
		found[i].holds = true
	}
	return found
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
