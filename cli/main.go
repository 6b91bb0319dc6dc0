// Package cli is the door of those who type: commands, flags, questions and exit
// statuses. What is done stands in package app. Two programs have it, so that the one
// which carries out steps starts quickly and links neither PostgreSQL's driver nor
// metrics: acode, and acode-sync, which delivers to a server.
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

// Version is that of both programs. The Makefile reads this line.
const Version = "0.1.0-dev"

// Main carries out acode's command line and returns the exit status.
func Main(ctx context.Context, args []string) int {
	ownFiles()
	i := newInvocation()
	return i.carryOut(ctx, i.root(), args)
}

// ownFiles lets this process use the files that it makes, whatever umask it was started
// with: a store whose directory may not be entered is one that nobody can use any more.
// What others may do stays as it was.
func ownFiles() { syscall.Umask(syscall.Umask(0o077) &^ 0o700) }

// carryOut runs a command line and gives the exit status.
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
	i.JSON = i.JSON || slices.Contains(args, "--json") // an unknown command ends before its flags are read
	return i.fail(err, 0)
}
