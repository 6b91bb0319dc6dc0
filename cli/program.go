package cli

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

// Run executes the command line of another program of acode. Flags, errors and exit
// statuses are the same; commands returns its commands.
func Run(ctx context.Context, args []string, commands func(*Invocation) []*cobra.Command) int {
	ownFiles()
	i := newInvocation()
	root := i.bare()
	root.AddCommand(commands(i)...)
	return i.carryOut(ctx, root, args)
}

// Setup returns the setup for commands that need no workspace. They keep no log.
func (i *Invocation) Setup() (app.Setup, error) {
	setup, err := i.setupIn("", nil)
	setup.KeepLog = false
	return setup, err
}

// Confirm asks a person to type what. It returns ErrUsage when no one can be asked, and
// when the answer differs.
func (i *Invocation) Confirm(what, typed string) error {
	if typed == what {
		return nil
	}
	if !i.interactive() {
		return &session.Error{Code: session.ErrUsage, Message: "this must be confirmed, and no one can be asked; nothing was changed", Next: session.Words("add --confirm=" + session.ShellQuote(what))}
	}
	yes, err := unlessEnded(terminal.Confirm(i.in, i.Err, what))
	if err == nil && !yes {
		err = &session.Error{Code: session.ErrUsage, Message: "not confirmed; nothing was changed"}
	}
	return err
}

// syncProgram is the program that delivers sessions.
const syncProgram = "acode-sync"

// deliveryCommands are the commands of acode-sync. acode passes their command lines on
// unchanged.
func (i *Invocation) deliveryCommands() []*cobra.Command {
	var out []*cobra.Command
	for _, c := range []struct{ name, short string }{
		{"sync", "Deliver sessions to the server, or show the state of delivery"},
		{"syncer", "Deliver sessions for as long as it runs, with metrics and health"},
		{"metrics", "Print the metrics that the store can show"},
		{"admin", "Administer the server: migrate, devices, verify, prune"},
	} {
		out = append(out, &cobra.Command{Use: c.name, Short: c.short, DisableFlagParsing: true,
			RunE: func(*cobra.Command, []string) error { return i.handOver() },
			ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
				// handOver returns only when acode-sync is missing; there is nothing to
				// complete then.
				_ = i.handOver()
				return nil, cobra.ShellCompDirectiveNoFileComp
			}})
	}
	return out
}

// handOver replaces this process with acode-sync and the same command line.
func (i *Invocation) handOver() error {
	path, err := deliveryProgram()
	if err != nil {
		return err
	}
	err = syscall.Exec(path, append([]string{syncProgram}, i.args...), os.Environ())
	return notInstalled(err)
}

// drainer returns the command line of the process that delivers beside a session.
func (i *Invocation) drainer() ([]string, error) {
	path, err := deliveryProgram()
	if err != nil {
		return nil, err
	}
	args := []string{path, "sync", "drain"}
	if i.config != "" {
		args = append(args, "--config", i.config)
	}
	return args, nil
}

// deliveryProgram finds acode-sync beside this program, or else in PATH.
func deliveryProgram() (string, error) {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), syncProgram)
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside, nil
		}
	}
	path, err := exec.LookPath(syncProgram)
	if err != nil {
		return "", notInstalled(err)
	}
	return path, nil
}

func notInstalled(err error) error {
	return &session.Error{Code: session.ErrConfig, Message: syncProgram + ", the part of acode that delivers to a server, cannot be started; nothing is lost",
		Cause: err, Next: session.Words("install it beside acode")}
}
