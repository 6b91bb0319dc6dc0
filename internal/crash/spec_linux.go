package crash

import (
	"io"
	"slices"
	"syscall"
)

// When is the side of a call on which a kill falls.
type When string

// The sides of a call. Inside means half of a write; for other calls it means a kill that
// races with the call.
const (
	Before When = "before"
	Inside When = "inside"
	After  When = "after"
)

// Fail kills no process. The call does not happen, and the program sees the Errno of the
// point.
const Fail When = "fail"

// Victim selects the processes to kill.
type Victim string

// The victims. A program that is about to start belongs to the process that starts it.
const (
	// VictimSelf is the process that makes the call. It is also the meaning of the zero
	// value.
	VictimSelf Victim = "self"
	// VictimGroup is every process in the process group of the run's root.
	VictimGroup Victim = "group"
	// VictimSupervisor is every process of the role RoleSupervisor.
	VictimSupervisor Victim = "supervisor"
	// VictimBoth is VictimGroup and VictimSupervisor.
	VictimBoth Victim = "both"
)

// The roles that DefaultRole returns.
const (
	// RoleAcode is the root of a run.
	RoleAcode = "acode"
	// RoleSupervisor is a process with "supervise" in its arguments.
	RoleSupervisor = "supervisor"
	// RoleCommand is any process below a supervisor.
	RoleCommand = "command"
	// RoleOther is any other child of a root.
	RoleOther = "other"
)

// Point is a place to kill a run or to fail a call. The zero value does neither.
type Point struct {
	Role string
	// N is the number of the call within the role, from 1; 0 means none.
	N      int
	When   When
	Victim Victim
	// Errno is the error that the program sees if When is Fail.
	Errno syscall.Errno
	// Lasting makes every later counted call fail too. It applies to Fail.
	Lasting bool
}

// Process holds the known facts of a process when its role is chosen.
type Process struct {
	PID  int
	Argv []string
	// Root means that Run itself started the process.
	Root bool
	// Parent is the role of the process that forked it, or "" if that process is unknown.
	Parent string
}

// DefaultRole distinguishes acode, its supervisor, the commands of the supervisor and
// other helpers. A process that has not started its own program keeps the role of its
// parent.
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
	// Env may be nil for an empty environment.
	Env []string
	// Dir may be empty for the harness's own directory.
	Dir string
	// Roots are the directories whose files count.
	Roots  []string
	Stdout io.Writer
	// Stdout and Stderr get all output when the root has ended; nil discards it.
	Stderr io.Writer
	// Role may be nil for DefaultRole.
	Role func(Process) string
	At   Point
	// Counts selects the calls that At.N counts, with the fields known at their entry.
	// nil means all.
	Counts func(Call) bool
	// Record is called by the tracer in order of End, also for survivors. It must be
	// quick.
	Record func(Call)
}

// Result describes a run up to the time of the request.
type Result struct {
	// PID is the pid of the root.
	PID int
	// Calls holds the number of counted calls of each role.
	Calls map[string]int
	// Struck means that the point was reached.
	Struck bool
	// At is the call at the point, with the fields known at its entry.
	At Call
	// Killed lists the processes that the kill at the point ended, in order of pid.
	Killed []int
	// ExitCode is the root's, or -1 if a signal ended it.
	ExitCode int
	// Signal is the signal that ended the root, or 0 if it exited.
	Signal syscall.Signal
}
