package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

// globals are the flags that every command takes.
type globals struct {
	json, quiet, noColor, noInput, yes bool
	verbose                            int
	config, dir                        string
	timeout                            time.Duration
	allow                              []string
}

// app is one invocation of acode.
type app struct {
	globals
	io     stdio
	getenv func(string) string
	now    func() time.Time
	args   []string // as typed
}

// quietExit ends the process with a status that has been explained already.
type quietExit int

// Error implements error.
func (q quietExit) Error() string { return fmt.Sprintf("exit status %d", int(q)) }

// ExitStatus is what the process exits with.
func (q quietExit) ExitStatus() int { return int(q) }

func newApp() *app {
	a := &app{getenv: os.Getenv, now: time.Now}
	a.io = stdio{in: os.Stdin, out: &output{file: os.Stdout, lines: &a.json}, err: os.Stderr}
	return a
}

// Group is a command that only holds others. A word that is none of them is an error.
func Group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: func(cmd *cobra.Command, args []string) error {
		return onlyHolds(cmd, args)
	}}
	c.AddCommand(commands...)
	return c
}

// onlyHolds carries out a command that only holds others.
func onlyHolds(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknown(cmd, args[0])
	}
	return cmd.Help()
}

// unknown is the error for a word that names no command of cmd, with those that it may mean.
func unknown(cmd *cobra.Command, word string) error {
	cmd.SuggestionsMinimumDistance = 2
	meant := ""
	if like := cmd.SuggestionsFor(word); len(like) > 0 {
		meant = "\n\nDid you mean this?\n\t" + strings.Join(like, "\n\t")
	}
	return fmt.Errorf("unknown command %q for %q%s", word, cmd.CommandPath(), meant)
}

// strict makes an error of a word that help or completion does not know: cobra's own answer it
// with help and with success.
func (a *app) strict(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	root.PersistentPreRunE = noneEmpty
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			c.Args, c.RunE = cobra.ArbitraryArgs, onlyHolds
		case "help":
			c.Run, c.RunE = nil, a.help
		}
	}
}

// noneEmpty refuses an argument that is empty, as of a variable that is not set: it would count
// as left out, and stand for the most recent session.
func noneEmpty(cmd *cobra.Command, args []string) error {
	if cmd.Hidden || cmd.DisableFlagParsing || !slices.Contains(args, "") {
		return nil
	}
	return &session.Error{Code: session.ErrUsage, Message: "an argument is empty; nothing was changed", Next: cmd.CommandPath() + " --help"}
}

// help shows the help of the command that args name.
func (a *app) help(cmd *cobra.Command, args []string) error {
	about, rest, err := cmd.Root().Find(args)
	switch {
	case err != nil:
		return err
	case about.DisableFlagParsing: // a command of the other program
		return a.handOver()
	case len(rest) > 0:
		return unknown(about, rest[0])
	}
	about.InitDefaultHelpFlag()
	return about.Help()
}

// isUsage recognises what cobra and pflag complain about; they have no types for it.
func isUsage(err error) bool {
	for _, s := range []string{"unknown command", "unknown flag", "unknown shorthand", "flag needs an argument", "invalid argument", "accepts ", "requires at least", "if any flags in the group", "required flag"} {
		if strings.Contains(err.Error(), s) {
			return true
		}
	}
	return false
}

// fail shows an error that ended the command. It may quote what was typed or stands in a file,
// also where no configuration could be read. Standard error is left when the output is lost.
func (a *app) fail(err error, status int, hint string) {
	r := redact.New(redact.FromEnvironment(os.Environ()))
	if a.json {
		terminal.ErrorJSON(r.Writer(a.io.out), err, status, hint, a.now())
		if a.io.out.Lost() == nil {
			return
		}
	}
	terminal.Error(r.Writer(a.io.err), err, hint)
}

func (a *app) root() *cobra.Command {
	root := a.bare()
	root.AddCommand(a.runCommand(), a.resumeCommand(), a.statusCommand(), a.sessionCommand(),
		a.approveCommand(), a.denyCommand(), a.verifyCommand(), a.configCommand(), a.schemaCommand(),
		a.exitCodesCommand(), a.versionCommand(), a.superviseCommand())
	root.AddCommand(a.deliveryCommands()...)
	return root
}

// bare has the flags that every command takes and no command.
func (a *app) bare() *cobra.Command {
	root := &cobra.Command{
		Use:           "acode",
		Short:         "Run long agent work that survives every crash",
		Long:          "acode runs plans of tasks and steps so that no crash, kill or power cut loses work,\nrepeats a side effect, or hides what happened.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	f := root.PersistentFlags()
	f.BoolVar(&a.json, "json", false, "print JSON Lines; the last one is the result")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "print only results, warnings and errors")
	f.CountVarP(&a.verbose, "verbose", "v", "print more")
	f.BoolVar(&a.noColor, "no-color", false, "never colour")
	f.BoolVar(&a.noInput, "no-input", false, "never ask")
	f.BoolVarP(&a.yes, "yes", "y", false, "answer yes to questions; never grants an approval")
	f.StringVar(&a.config, "config", "", "user configuration `file`")
	f.StringVarP(&a.dir, "dir", "C", "", "work in this `directory`")
	f.DurationVar(&a.timeout, "timeout", 0, "pause the session after this time")
	f.StringArrayVar(&a.allow, "allow-workspace", nil, "allow this `directory` although it is / or the home directory")
	for _, name := range []string{"dir", "allow-workspace"} {
		_ = root.MarkPersistentFlagDirname(name) // the flag exists
	}
	root.AddCommand(a.referenceCommand())
	return root
}

// interactive reports whether somebody can be asked.
func (a *app) interactive() bool {
	return !a.noInput && !a.json && term.IsTerminal(int(a.io.in.Fd())) && term.IsTerminal(int(a.io.err.Fd()))
}

// printer shows what a session does; once done is closed it waits for no reader any more.
func (b *base) printer(done <-chan struct{}, fresh bool, delivery terminal.SyncView) *terminal.Printer {
	o := terminal.Detect(b.io.out.file, b.io.err, b.getenv)
	o.Out, o.Err = &outlet{to: b.io.out, done: done, lines: b.json}, &outlet{to: b.io.err, done: done}
	o.JSON, o.Quiet, o.Verbose, o.Fresh, o.Now = b.json, b.quiet, b.verbose, fresh, b.now
	o.Color = (o.Color || b.cfg.Config.Terminal.Color == "always") && b.cfg.Config.Terminal.Color != "never" && !b.noColor
	o.Exit, o.Sync = exitOfResult, delivery
	return terminal.New(o)
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		if a.json {
			return terminal.JSON(a.io.out, map[string]any{"v": 1, "version": version})
		}
		_, err := fmt.Fprintln(a.io.out, "acode "+version)
		return err
	}}
}
