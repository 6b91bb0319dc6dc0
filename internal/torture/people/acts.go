package people

import (
	"fmt"
	"strings"
	"syscall"
	"time"
)

// Act is one thing that people do: a command that they type, and how that is disturbed,
// or something that they do by hand.
type Act struct {
	// of acode; own stands for the id of the session
	args []string
	// against the process that args start
	blow blow
	// typed in another terminal meanwhile
	beside []string
	// for that, a command must run first
	amid bool
	// when that is typed, as in a blow
	later time.Duration
	// to open questions, at a terminal; empty without one
	says string
	// it is done after what the last stop asks for
	heeds bool
	// instead of args
	hand deed
	// of what is done by hand
	choice int
}

// deed is something that a person does without acode.
type deed string

// What people do by hand.
const (
	edits     deed = "edits a file"
	moves     deed = "moves the workspace"
	lookAfter deed = "kills the supervisors"
	waits     deed = "waits until nothing runs"
)

// own is the id of the session, where a person types it.
const own = "ID"

// blow ends processes at an instant that nobody counts.
type blow struct {
	// of the victims; empty strikes nobody
	whom    string
	signals []syscall.Signal
	// a command must run first
	amid bool
	// since the start, or since a command was seen
	after time.Duration
	// between two signals
	gap time.Duration
}

// Victims of blows.
const (
	onAcode      = "acode"
	onGroup      = "acode's process group"
	onSupervisor = "the supervisor"
	onBoth       = "acode and the supervisor"
	onAll        = "everything"
)

// String is the act as a report shows it.
func (a Act) String() string {
	if a.hand != "" {
		return fmt.Sprintf("somebody %s (%d)", a.hand, a.choice)
	}
	text := "acode " + strings.Join(a.args, " ")
	if a.says != "" {
		text += " on a terminal, where somebody says " + a.says
	}
	if a.beside != nil {
		text += fmt.Sprintf(", after %v acode %s", a.later, strings.Join(a.beside, " "))
	}
	if a.blow.whom != "" {
		text += ", " + a.blow.String()
	}
	return text
}

// String says what a blow does.
func (b blow) String() string {
	var names []string
	for _, s := range b.signals {
		names = append(names, signalNames()[s])
	}
	text := fmt.Sprintf("after %v %s to %s", b.after, strings.Join(names, ", "), b.whom)
	if b.amid {
		text = "while a command runs, " + text
	}
	if len(b.signals) > 1 {
		text += fmt.Sprintf(", %v apart", b.gap)
	}
	return text
}

func signalNames() map[syscall.Signal]string {
	return map[syscall.Signal]string{syscall.SIGINT: "INT", syscall.SIGTERM: "TERM", syscall.SIGHUP: "HUP", syscall.SIGKILL: "KILL",
		syscall.SIGSTOP: "STOP", syscall.SIGCONT: "CONT"}
}
