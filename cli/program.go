package cli

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// Dir returns the directory that -C names; empty without -C.
func (i *Invocation) Dir() string { return i.dir }

// Setup returns the setup for commands that need no workspace. They keep no log.
func (i *Invocation) Setup() (app.Setup, error) { return i.SetupAllowing(nil) }

// SetupAllowing is Setup for a process that allows classes of calls, as --allow names
// them.
func (i *Invocation) SetupAllowing(names []string) (app.Setup, error) {
	flags := map[string]string{}
	if err := allowed(names, flags); err != nil {
		return app.Setup{}, err
	}
	setup, err := i.setupIn("", flags)
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

// The programs beside acode. Each has the commands that need what acode does not link.
const (
	syncProgram  = "acode-sync"
	agentProgram = "acode-agent"
)

// otherCommands are the commands of other programs. acode passes their command lines on
// unchanged.
func (i *Invocation) otherCommands() []*cobra.Command {
	var out []*cobra.Command
	for _, c := range []struct{ program, name, short string }{
		{syncProgram, "sync", "Deliver sessions to the server, or show the state of delivery"},
		{syncProgram, "syncer", "Deliver sessions for as long as it runs, with metrics and health"},
		{syncProgram, "metrics", "Print the metrics that the store can show"},
		{syncProgram, "admin", "Administer the server: migrate, devices, verify, prune"},
		{agentProgram, "mcp", "Serve tasks, or files and commands, over the Model Context Protocol"},
		{agentProgram, "dev", "Try agents without a model"},
		{agentProgram, "install", "Add acode's tools to the configuration of an agent"},
		{agentProgram, "uninstall", "Remove acode's tools from the configuration of an agent"},
	} {
		out = append(out, &cobra.Command{Use: c.name, Short: c.short, DisableFlagParsing: true, Annotations: map[string]string{programKey: c.program},
			RunE: func(*cobra.Command, []string) error { return i.handOver(c.program) },
			ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
				// handOver returns only when the program is missing; there is nothing to
				// complete then.
				_ = i.handOver(c.program)
				return nil, cobra.ShellCompDirectiveNoFileComp
			}})
	}
	return out
}

// Executing returns the commands that execute plans, for the program that links models.
// People type them to acode, which passes on those that need a model.
func (i *Invocation) Executing() []*cobra.Command {
	out := []*cobra.Command{i.runCommand(), i.resumeCommand()}
	for _, c := range out {
		c.Hidden = true
	}
	return out
}

// programKey is the annotation of a command that belongs to another program.
const programKey = "program"

// handOver replaces this process with another program and the same command line, with
// more arguments at its end.
func (i *Invocation) handOver(program string, more ...string) error {
	path, err := otherProgram(program)
	if err != nil {
		return err
	}
	err = syscall.Exec(path, slices.Concat([]string{program}, i.args, more), os.Environ())
	return notInstalled(program, err)
}

// drainer returns the command line of the process that delivers beside a session.
func (i *Invocation) drainer() ([]string, error) {
	path, err := otherProgram(syncProgram)
	if err != nil {
		return nil, err
	}
	args := []string{path, "sync", "drain"}
	if i.config != "" {
		args = append(args, "--config", i.config)
	}
	return args, nil
}

// otherProgram finds a program of acode beside this one, or else in PATH.
func otherProgram(name string) (string, error) {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", notInstalled(name, err)
	}
	return path, nil
}

// Supervisor returns the program that supervises commands, for a program that is not
// acode itself.
func Supervisor() (string, error) { return otherProgram("acode") }

func notInstalled(program string, err error) error {
	does := map[string]string{syncProgram: "delivers to a server", agentProgram: "serves agents and asks models", "acode": "runs commands"}[program]
	return &session.Error{Code: session.ErrConfig, Message: program + ", the part of acode that " + does + ", cannot be started; nothing is lost",
		Cause: err, Next: session.Words("install it beside acode: go install github.com/acode-dev/acode/cmd/" + program + "@latest")}
}
