package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/acode-dev/acode/process"
)

// member is a process that belongs to a command; holds is set if it holds the lock on the
// claim.
type member struct {
	process.Process
	holds bool
}

// describe returns the pid and the command line of p.
func describe(p process.Process) string {
	return fmt.Sprintf("%d %s", p.PID, cutText(p.CommandLine(), 200))
}

// describe returns the pid and the command line, or the name if the process is gone. by
// is the supervisor that listed it.
func (l leftover) describe(by process.ID) string {
	id := process.ID{PID: l.PID, Start: l.Start, Boot: by.Boot, NS: by.NS}
	// otherwise only its name is known
	if lives, _ := id.Alive(); lives {
		return describe(process.Process{PID: l.PID, Name: l.Name})
	}
	return fmt.Sprintf("%d %s", l.PID, l.Name)
}

// members returns the processes that belong to the command of key:
//
//   - those that hold the lock on its claim; a process that only reads the claim has it
//     open too, but does not hold its exclusive lock,
//   - those that were started with its key,
//   - those in the process session of leader, which was recorded when the command
//     started.
//
// claim is nil if there is none, and leader is zero if it is not known. This process
// itself is left out.
func members(claim *os.File, key string, leader process.ID) ([]member, error) {
	if process.GroupsOnly {
		return group(leader), nil
	}
	ps, err := process.Table()
	if err != nil {
		return nil, err
	}
	same, err := sessionOfLeader(ps, leader)
	if err != nil {
		return nil, err
	}
	var file os.FileInfo
	if claim != nil {
		if file, err = claim.Stat(); err != nil {
			return nil, err
		}
	}
	var found []member
	for _, p := range ps {
		if p.Dead || p.PID == os.Getpid() {
			continue
		}
		m := member{Process: p}
		if file != nil {
			if m.holds, err = process.Locks(p.PID, file); err != nil {
				return nil, err
			}
		}
		carried, err := process.Variable(p.PID, keyVariable)
		if err != nil {
			return nil, err
		}
		if m.holds || carried == key || same && p.Session == leader.PID {
			found = append(found, m)
		}
	}
	return found, nil
}

// sessionOfLeader reports whether a process session with the leader's pid is the leader's
// own. The system gives the pid to no other process while the session has a member.
func sessionOfLeader(ps []process.Process, leader process.ID) (bool, error) {
	if leader.PID <= 0 || leader.Elsewhere() {
		return false, nil
	}
	for _, p := range ps {
		if p.PID == leader.PID && p.Start != leader.Start && leader.Start != 0 {
			return false, nil
		}
	}
	boot, err := process.Boot()
	return err == nil && boot == leader.Boot, err
}

// remains describes the processes of the command of key in dir that still run. It does
// not depend on the record, and there need not be one.
func remains(dir, key string) ([]string, error) {
	var c claim
	f, err := openClaim(claimPath(dir, key))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f = nil
	case err != nil:
		return nil, err
	default:
		defer func() { _ = f.Close() }()
		if c, err = readClaim(f); err != nil {
			return nil, err
		}
	}
	c.Header.Key = key
	ms, err := c.members(f)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, m := range ms {
		found = append(found, describe(m.Process))
	}
	if len(found) > 0 || f == nil {
		return found, nil
	}
	free, err := lockFree(f)
	if err == nil && !free {
		found = []string{"a process that cannot be seen from here and holds its claim"}
	}
	return found, err
}

// group returns the process group of leader. While the group has a member no process gets
// its number. A process that has the number, and is not the leader, leads a group of its
// own.
func group(leader process.ID) []member {
	if leader.PID <= 0 {
		return nil
	}
	if p, err := process.Read(leader.PID); err == nil && p.Start != leader.Start {
		return nil
	}
	var found []member
	for _, p := range process.Below(nil, []int{leader.PID}) {
		found = append(found, member{p, true})
	}
	return found
}
