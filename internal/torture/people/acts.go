package people

import (
	"fmt"
	"strings"
	"syscall"
	"time"
)

// Act is one action of a person: a typed command and its disturbance, or manual work.
type Act struct {
	// args are the arguments of acode; own means the id of the session.
	args []string
	// blow disturbs the process that args start.
	blow blow
	// beside is typed in another terminal meanwhile.
	beside []string
	// amid means that a command must run before beside is typed.
	amid bool
	// later is the time until beside is typed, as in a blow.
	later time.Duration
	// says is the answer to open questions at a terminal; empty means no terminal.
	says string
	// heeds means that the person first follows the advice of the last stop.
	heeds bool
	// hand is manual work instead of args.
	hand deed
	// choice selects a variant of the manual work.
	choice int
}

// deed is manual work without acode.
type deed string

// The kinds of manual work.
const (
	edits     deed = "edits a file"
	moves     deed = "moves the workspace"
	lookAfter deed = "kills the supervisors"
	waits     deed = "waits until nothing runs"
)

// own is the place of the session's id in arguments.
const own = "ID"

// blow sends signals to processes at a random instant.
type blow struct {
	// whom names the victims; empty means none.
	whom    string
	signals []syscall.Signal
	// amid means that a command must run first.
	amid bool
	// after is measured from the start, or from when a command was seen.
	after time.Duration
	// gap is the time between two signals.
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

// String returns the act for a report.
func (a Act) String() string {
	if a.hand != "" {
		return fmt.Sprintf("a person %s (%d)", a.hand, a.choice)
	}
	text := "acode " + strings.Join(a.args, " ")
	if a.says != "" {
		text += " on a terminal, where a person says " + a.says
	}
	if a.beside != nil {
		text += fmt.Sprintf(", after %v acode %s", a.later, strings.Join(a.beside, " "))
	}
	if a.blow.whom != "" {
		text += ", " + a.blow.String()
	}
	return text
}

// String returns the blow for a report.
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
