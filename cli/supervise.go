package cli

import (
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/lock"
	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/session"
)

// leastOutput is kept of each output whatever is configured: all that a capture or a receipt takes of it,
// and so much more that what was cut out is never next to what they keep.
const leastOutput = 512 << 10

// superviseCommand is what acode starts, detached, to run a session's commands. It is not
// for people.
func (a *app) superviseCommand() *cobra.Command {
	return &cobra.Command{
		Use: "supervise SESSION LOCKS DIR MAXOUTPUT", Hidden: true, Args: cobra.ExactArgs(4),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, locks, dir := session.ID(args[0]), args[1], args[2]
			maxOutput, err := strconv.ParseInt(args[3], 10, 64)
			if err != nil {
				return &session.Error{Code: session.ErrUsage, Message: "the size of outputs is no number", Place: args[3]}
			}
			return command.Supervise(cmd.Context(), command.SupervisorConfig{
				Dir: dir, Session: id, Conn: os.NewFile(3, "connection"), Now: a.now, MaxOutput: max(maxOutput, leastOutput),
				LockCommand: a.commandLock(id, locks),
			})
		},
	}
}

// commandLock takes the lock that a command of the session holds in its workspace, whose lock files lie in dir.
func (a *app) commandLock(id session.ID, dir string) func(key string, share bool) (*os.File, error) {
	return func(key string, share bool) (*os.File, error) {
		if share {
			return lock.SharedCommandLock(dir, id)
		}
		h, err := lock.Self("acode supervise", a.now())
		if err != nil {
			return nil, err
		}
		h.Session = id
		return lock.CommandLock(dir, h, key)
	}
}
