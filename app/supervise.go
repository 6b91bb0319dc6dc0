package app

import (
	"context"
	"os"
	"strconv"
	"time"

	"github.com/acode-dev/acode/lock"
	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/session"
)

// SuperviseCommand is the first argument with which a supervisor is started, detached, to
// run a session's commands: a program that carries out sessions calls Supervise then.
const SuperviseCommand = "supervise"

// TerminalCommand is the first argument with which a supervisor starts this program to
// run a command on a terminal: a program that calls Supervise calls OnTerminal then, with
// the arguments behind the next one, which is "--".
const TerminalCommand = "on-terminal"

// OnTerminal is what such a process does, with the file of a program and its arguments;
// it returns the exit status.
func OnTerminal(args []string) int { return command.OnTerminal(args[0], args[1:]) }

// leastOutput is kept of a command's output at least: all that a capture or a receipt
// takes of it, and so much more that what was cut out is never next to what they keep.
const leastOutput = 1 << 20

// supervisorArgs are the arguments of a supervisor: the session, the directories of the
// locks of its workspace and of its commands, and how much of an output is kept.
func supervisorArgs(id session.ID, locks, dir string, maxOutput int64) []string {
	return []string{SuperviseCommand, string(id), locks, dir, strconv.FormatInt(maxOutput, 10)}
}

// Supervise is what a supervisor does, with the arguments that follow SuperviseCommand.
func Supervise(ctx context.Context, args []string, now func() time.Time) error {
	if len(args) != 4 {
		return &session.Error{Code: session.ErrUsage, Message: "a supervisor takes four arguments, and is started by acode only"}
	}
	id, locks, dir := session.ID(args[0]), args[1], args[2]
	maxOutput, err := strconv.ParseInt(args[3], 10, 64)
	if err != nil {
		return &session.Error{Code: session.ErrUsage, Message: "the size of outputs is no number", Place: args[3]}
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
