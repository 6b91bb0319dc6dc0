package app

import (
	"context"
	"os"
	"strconv"
	"time"

	"github.com/acode-dev/acode/lock"
	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/sandbox"
	"github.com/acode-dev/acode/session"
)

// SuperviseCommand is the first argument of a supervisor process, which runs a session's
// commands in the background. A program that executes sessions must call Supervise for
// it.
const SuperviseCommand = "supervise"

// TerminalCommand is the first argument of the process that runs a command on a terminal.
// A program that calls Supervise must call OnTerminal for it. The arguments of OnTerminal
// follow the "--" after this one.
const TerminalCommand = "on-terminal"

// StageCommand is the first argument of the first stage of a confined command. A program
// that calls Supervise must call Confined for it, before anything else.
const StageCommand = sandbox.Stage

// Confined confines this process and executes a command in its place. args follow
// StageCommand. It returns the exit status if that fails.
func Confined(args []string) int { return sandbox.Enter(args) }

// ProbeCommand is the first argument of the process that Examine starts in a sandbox.
const ProbeCommand = sandbox.Probe

// Probe carries out the acts of Examine. args follow ProbeCommand.
func Probe(args []string) int { return sandbox.Try(args) }

// OnTerminal runs a program on a terminal. args are its file and arguments. It returns
// the exit status.
func OnTerminal(args []string) int { return command.OnTerminal(args[0], args[1:]) }

// leastOutput is the least number of bytes kept of a command's output. It covers a
// capture and a receipt, and leaves enough room that the cut never touches them.
const leastOutput = 1 << 20

// supervisorArgs returns the arguments of a supervisor: the session, the directory of the
// workspace's locks, the directory of the commands, and how many bytes of an output are
// kept.
func supervisorArgs(id session.ID, locks, dir string, maxOutput int64) []string {
	return []string{SuperviseCommand, string(id), locks, dir, strconv.FormatInt(maxOutput, 10)}
}

// Supervise runs a supervisor. args follow SuperviseCommand.
func Supervise(ctx context.Context, args []string, now func() time.Time) error {
	if len(args) != 4 {
		return &session.Error{Code: session.ErrUsage, Message: "a supervisor takes four arguments, and is started by acode only"}
	}
	id, locks, dir := session.ID(args[0]), args[1], args[2]
	maxOutput, err := strconv.ParseInt(args[3], 10, 64)
	if err != nil {
		return &session.Error{Code: session.ErrUsage, Message: "the size of outputs is not a number", Place: args[3]}
	}
	return command.Supervise(ctx, command.SupervisorConfig{
		Dir: dir, Session: id, Conn: os.NewFile(3, "connection"), Now: now, MaxOutput: max(maxOutput, leastOutput),
		Terminal: []string{TerminalCommand, "--"},
		LockCommand: func(key string, share bool) (*os.File, error) {
			if share {
				return lock.SharedCommandLock(locks, id)
			}
			h, err := lock.Self("acode supervise", now())
			if err != nil {
				return nil, err
			}
			h.Session = id
			return lock.CommandLock(locks, h, key)
		},
	})
}
