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
func bootID() (string, error) {
	t, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return "", fmt.Errorf("ask when the machine was started: %w", err)
	}
	return fmt.Sprintf("%d", t.Sec), nil
}

// namespace is 0: there is one process table.
func namespace() (uint64, error) { return 0, nil }

// identify names the process that has pid now, as well as this system can.
func identify(pid int) (identity, error) {
	boot, err := bootID()
	return identity{PID: pid, Boot: boot}, err
}

// alive reports whether a process with that pid runs since the same boot.
func alive(id identity) (bool, error) {
	boot, err := bootID()
	if err != nil || id.PID <= 0 || id.Boot != boot {
		return false, err
	}
	err = unix.Kill(id.PID, 0)
	return err == nil || errors.Is(err, unix.EPERM), nil
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

func processes() ([]process, error) { return nil, nil }

// childless cannot tell: nobody adopts orphans here.
func childless() bool { return false }

func keyOf(int) string { return "" }

func (p process) describe() string { return fmt.Sprintf("%d %s", p.pid, p.name) }

func (l leftover) describe(identity) string { return fmt.Sprintf("%d %s", l.PID, l.Name) }

// holders finds the leader's process group by the claim's start block.
func holders(f *os.File, _ string) ([]process, error) {
	c, err := readClaim(f)
	if err != nil || c.Start == nil {
		return nil, err
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
