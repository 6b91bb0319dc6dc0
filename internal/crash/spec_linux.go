package crash

import (
	"io"
	"slices"
	"syscall"
)

// When says on which side of its call a kill falls.
type When string

// The sides of a call. Inside means half of a write, and for every other call a kill that
// races with it.
const (
	Before When = "before"
	Inside When = "inside"
	After  When = "after"
)

// Fail kills nobody: the call does not happen, and the program sees the Errno of the
// point.
const Fail When = "fail"

// Victim says who is killed.
type Victim string

// The victims. A program that is about to be started belongs to the process that starts
// it.
const (
	// the process that makes the call; also the zero value
	VictimSelf Victim = "self"
	// every process in the process group of the run's root
	VictimGroup Victim = "group"
	// every process of the role RoleSupervisor
	VictimSupervisor Victim = "supervisor"
	// VictimGroup and VictimSupervisor
	VictimBoth Victim = "both"
)

// The roles that DefaultRole gives.
const (
	// the root of a run
	RoleAcode = "acode"
	// a process with "supervise" in its arguments
	RoleSupervisor = "supervisor"
	// whatever runs below a supervisor
	RoleCommand = "command"
	// any other child of a root
	RoleOther = "other"
)

// Point is where a run is killed, or a call of it fails. The zero value does neither.
type Point struct {
	Role string
	// which call of the role, from 1; 0 means none
	N      int
	When   When
	Victim Victim
	// what the program sees when When is Fail
	Errno syscall.Errno
	// with Fail: every later call that counts fails too
	Lasting bool
}

// Process is what is known of a process when its role is chosen.
type Process struct {
	PID  int
	Argv []string
	// started by Run itself
	Root bool
	// role of the process that forked it; empty when that one is unknown
	Parent string
}

// DefaultRole tells acode, its supervisor, the commands of the supervisor and other
// helpers apart. A process that has not started a program of its own keeps its parent's
// role.
func DefaultRole(p Process) string {
	switch {
	case p.Root:
		return RoleAcode
	case p.Parent == RoleSupervisor || p.Parent == RoleCommand:
		return RoleCommand
	case len(p.Argv) > 1 && slices.Contains(p.Argv[1:], "supervise"):
		return RoleSupervisor
	}
	return RoleOther
}

// Spec describes one run of a program.
type Spec struct {
	Argv []string
	// nil means an empty environment
	Env []string
	// empty means the harness's own
	Dir string
	// files elsewhere are not counted
	Roots  []string
	Stdout io.Writer
	// both get all output when the root has ended; nil discards it
	Stderr io.Writer
	// nil means DefaultRole
	Role func(Process) string
	At   Point
	// which calls At.N counts, as known at their entry; nil means all
	Counts func(Call) bool
	// called in order of End by the tracer, also for survivors; must be quick
	Record func(Call)
}

// Result is what happened in a run until it was asked for.
type Result struct {
	// of the root
	PID int
	// counted calls of each role
	Calls map[string]int
	// the point was reached
	Struck bool
	// the call at the point, as known at its entry
	At Call
	// processes that the kill at the point ended, in order of pid
	Killed []int
	// of the root; -1 when a signal ended it
	ExitCode int
	// that ended the root; 0 when it exited
	Signal syscall.Signal
}
