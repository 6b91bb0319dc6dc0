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

// Fail kills nobody: the call does not happen, and the program sees the Errno of the point.
const Fail When = "fail"

// Victim says who is killed.
type Victim string

// The victims. A program that is about to be started belongs to the process that starts
// it.
const (
	VictimSelf       Victim = "self"       // the process that makes the call; also the zero value
	VictimGroup      Victim = "group"      // every process in the process group of the run's root
	VictimSupervisor Victim = "supervisor" // every process of the role RoleSupervisor
	VictimBoth       Victim = "both"       // VictimGroup and VictimSupervisor
)

// The roles that DefaultRole gives.
const (
	RoleAcode      = "acode"      // the root of a run
	RoleSupervisor = "supervisor" // a process with "supervise" in its arguments
	RoleCommand    = "command"    // whatever runs below a supervisor
	RoleOther      = "other"      // any other child of a root
)

// Point is where a run is killed, or a call of it fails. The zero value does neither.
type Point struct {
	Role    string
	N       int // which call of the role, from 1; 0 means none
	When    When
	Victim  Victim
	Errno   syscall.Errno // what the program sees when When is Fail
	Lasting bool          // with Fail: every later call that counts fails too
}

// Process is what is known of a process when its role is chosen.
type Process struct {
	PID    int
	Argv   []string
	Root   bool   // started by Run itself
	Parent string // role of the process that forked it; empty when that one is unknown
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
	Argv   []string
	Env    []string // nil means an empty environment
	Dir    string   // empty means the harness's own
	Roots  []string // files elsewhere are not counted
	Stdout io.Writer
	Stderr io.Writer            // both get all output when the root has ended; nil discards it
	Role   func(Process) string // nil means DefaultRole
	At     Point
	Counts func(Call) bool // which calls At.N counts, as known at their entry; nil means all
	Record func(Call)      // called in order of End by the tracer, also for survivors; must be quick
}

// Result is what happened in a run until it was asked for.
type Result struct {
	PID      int            // of the root
	Calls    map[string]int // counted calls of each role
	Struck   bool           // the point was reached
	At       Call           // the call at the point, as known at its entry
	Killed   []int          // processes that the kill at the point ended, in order of pid
	ExitCode int            // of the root; -1 when a signal ended it
	Signal   syscall.Signal // that ended the root; 0 when it exited
}
