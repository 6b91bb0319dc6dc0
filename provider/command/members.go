package command

import (
	"fmt"
	"os"

	"github.com/acode-dev/acode/process"
)

// member is a process that belongs to a command.
type member struct {
	process.Process
	holds bool // the lock on the claim
}

// describe gives the pid and the command line of p.
func describe(p process.Process) string {
	return fmt.Sprintf("%d %s", p.PID, cutText(p.CommandLine(), 200))
}

// describe gives pid and command line, or the name alone when the process is gone.
// by is the supervisor that listed it.
func (l leftover) describe(by process.ID) string {
	id := process.ID{PID: l.PID, Start: l.Start, Boot: by.Boot, NS: by.NS}
	if lives, _ := id.Alive(); lives { // else its name is all there is
		return describe(process.Process{PID: l.PID, Name: l.Name})
	}
	return fmt.Sprintf("%d %s", l.PID, l.Name)
}

// holders lists the processes that belong to the command of key: those that hold the lock
// on its claim, and those that were started with its key. Somebody who only looks at the
// claim holds it open too, but not its exclusive lock. leader is that of the claim's start block.
func holders(claim *os.File, key string, leader process.ID) ([]member, error) {
	if process.GroupsOnly {
		return group(leader), nil
	}
	info, err := claim.Stat()
	if err != nil {
		return nil, err
	}
	ps, err := process.Table()
	if err != nil {
		return nil, err
	}
	var found []member
	for _, p := range ps {
		if p.Dead || p.PID == os.Getpid() {
			continue
		}
		holds, err := process.Locks(p.PID, info)
		if err != nil {
			return nil, err
		}
		carried, err := process.Variable(p.PID, keyVariable)
		if err != nil {
			return nil, err
		}
		if holds || carried == key {
			found = append(found, member{p, holds})
		}
	}
	return found, nil
}

// group gives the process group of leader. While it has a member no process gets its number; one that has it, and
// is not the leader, leads a group of its own.
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
