// Package cli implements the command line: commands, flags, questions and exit statuses.
// Package app does the work.
//
// Three programs use it. acode executes steps; it starts quickly because it links neither
// PostgreSQL's driver nor metrics. acode-sync delivers sessions to a server. acode-agent
// serves agents.
package cli

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
)

// Version is the version of all programs. The Makefile reads this line.
const Version = "0.1.0-dev"

// Main executes acode's command line and returns the exit status.
func Main(ctx context.Context, args []string) int {
	if len(args) > 0 && args[0] == app.StageCommand {
		return app.Confined(args[1:])
	}
	if len(args) > 0 && args[0] == app.ProbeCommand {
		return app.Probe(args[1:])
	}
	ownFiles()
	i := newInvocation()
	return i.carryOut(ctx, i.root(), args)
}

// ownFiles lets this process use the files that it makes under any umask. Without it, a
// umask such as 0700 makes a store whose directory no one can enter again. The
// permissions of group and others do not change.
func ownFiles() { syscall.Umask(syscall.Umask(0o077) &^ 0o700) }

// carryOut executes a command line and returns the exit status.
func (i *Invocation) carryOut(ctx context.Context, root *cobra.Command, args []string) int {
	i.args = args
	root.SetArgs(args)
	root.SetIn(i.in)
	root.SetOut(i.Out)
	root.SetErr(i.Err)
	i.strict(root)
	cmd, err := root.ExecuteContextC(ctx)
	var said quietExit
	if lost := i.Out.Lost(); lost != nil && (err == nil || errors.As(err, &said) || errors.Is(err, lost)) {
		return cmp.Or(int(said), i.fail(lost, 0))
	}
	if err == nil || errors.As(err, &said) {
		return int(said)
	}
	if session.CodeOf(err) == session.ErrInternal && isUsage(err) {
		err = &session.Error{Code: session.ErrUsage, Message: err.Error(), Next: session.Words(cmd.CommandPath() + " --help")}
	}
	err = app.Shortage(err)
	// An unknown command ends before its flags are read.
	i.JSON = i.JSON || slices.Contains(args, "--json")
	return i.fail(err, 0)
}
