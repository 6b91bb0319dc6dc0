package cli

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

// globals are the flags that every command takes.
type globals struct {
	quiet, noColor, noInput, yes bool
	verbose                      int
	config, dir                  string
	timeout                      time.Duration
	allow                        []string
}

// Invocation is one run of a program: its command line, inputs and outputs.
type Invocation struct {
	// JSON selects output for scripts.
	JSON bool
	// Out receives the results.
	Out *Output
	// Err receives everything else.
	Err *os.File
	// Now returns the time.
	Now func() time.Time
	// Talks is nil in a program that asks no models; then another program executes plans
	// that ask one.
	Talks *app.Talks

	globals
	in     *os.File
	getenv func(string) string
	// args is the command line as typed.
	args []string
}

func newInvocation() *Invocation {
	i := &Invocation{in: os.Stdin, Err: os.Stderr, getenv: os.Getenv, Now: time.Now}
	i.Out = &Output{file: os.Stdout, lines: &i.JSON}
	return i
}

// Page returns where and how a command prints its result.
func (i *Invocation) Page() terminal.Page {
	return terminal.Page{Out: i.Out, JSON: i.JSON, Local: term.IsTerminal(int(i.Out.file.Fd())), Now: i.Now, Spell: i.Spell}
}

// quietExit is an error that ends the process with this status and prints nothing.
type quietExit int

// Error implements error.
func (q quietExit) Error() string { return fmt.Sprintf("exit status %d", int(q)) }

// Group returns a command that only holds other commands. A word that names none of them
// is an error.
func Group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: onlyHolds}
	c.AddCommand(commands...)
	return c
}

// onlyHolds executes a command that only holds others.
func onlyHolds(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknown(cmd, args[0])
	}
	return cmd.Help()
}

// unknown returns the error for a word that names no command of cmd, and suggests similar
// ones.
func unknown(cmd *cobra.Command, word string) error {
	cmd.SuggestionsMinimumDistance = 2
	meant := ""
	if like := cmd.SuggestionsFor(word); len(like) > 0 {
		meant = "\n\nDid you mean this?\n\t" + strings.Join(like, "\n\t")
	}
	return fmt.Errorf("unknown command %q for %q%s", word, cmd.CommandPath(), meant)
}

// strict makes help and completion refuse unknown words. The default of cobra prints the
// help and succeeds.
func (i *Invocation) strict(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	root.PersistentPreRunE = noneEmpty
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			c.Args, c.RunE = cobra.ArbitraryArgs, onlyHolds
		case "help":
			c.Run, c.RunE = nil, i.help
		}
	}
}

// noneEmpty refuses an empty argument, for example from a variable that is not set. It
// would count as left out, and the command would use the most recent session.
func noneEmpty(cmd *cobra.Command, args []string) error {
	if cmd.Hidden || cmd.DisableFlagParsing || !slices.Contains(args, "") {
		return nil
	}
	return &session.Error{Code: session.ErrUsage, Message: "an argument is empty; nothing was changed", Next: session.Words(cmd.CommandPath() + " --help")}
}

// help shows the help of the command that args name.
func (i *Invocation) help(cmd *cobra.Command, args []string) error {
	about, rest, err := cmd.Root().Find(args)
	switch {
	case err != nil:
		return err
	// A command of the other program.
	case about.DisableFlagParsing:
		return i.handOver(about.Annotations[programKey])
	case len(rest) > 0:
		return unknown(about, rest[0])
	}
	about.InitDefaultHelpFlag()
	return about.Help()
}

// isUsage recognises the usage errors of cobra and pflag, which have no types for them.
func isUsage(err error) bool {
	for _, s := range []string{"unknown command", "unknown flag", "unknown shorthand", "flag needs an argument", "invalid argument", "accepts ", "requires at least", "if any flags in the group", "required flag"} {
		if strings.Contains(err.Error(), s) {
			return true
		}
	}
	return false
}

// fail shows the error that ended the command, and returns the exit status: as, or for 0
// the status of err. It masks secrets, because the error may quote arguments or files,
// even when no configuration could be read. With --json it prints to standard error only
// when standard output is lost.
func (i *Invocation) fail(err error, as int) int {
	status, hint := i.verdict(err)
	status = cmp.Or(as, status)
	mask := redact.New(redact.FromEnvironment(os.Environ())).String
	if i.JSON {
		terminal.ErrorJSON(i.Out, err, status, hint, i.Now(), mask)
		if i.Out.Lost() == nil {
			return status
		}
	}
	terminal.Error(i.Err, &session.Error{Code: session.CodeOf(err), Message: mask(err.Error())}, mask(hint))
	return status
}

func (i *Invocation) root() *cobra.Command {
	root := i.bare()
	root.Version = Version
	list := i.listCommand()
	list.Use = "ls"
	root.AddCommand(i.initCommand(), i.runCommand(), i.resumeCommand(), i.statusCommand(), i.followCommand(), i.logsCommand(), list, i.historyCommand(), i.cancelCommand(), i.sessionCommand(),
		i.approveCommand(), i.denyCommand(), i.trustCommand(), i.checkCommand(), i.verifyCommand(), i.configCommand(), i.schemaCommand(),
		i.exitCodesCommand(), i.doctorCommand(), i.versionCommand(), i.superviseCommand(), i.terminalCommand())
	root.AddCommand(i.otherCommands()...)
	return root
}

// bare returns a root command with the common flags and no command for users.
func (i *Invocation) bare() *cobra.Command {
	root := &cobra.Command{
		Use:           "acode",
		Short:         "Run long agent work that survives every crash",
		Long:          "acode runs plans of tasks and steps so that no crash, kill or power cut loses work,\nrepeats a side effect, or hides what happened.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	f := root.PersistentFlags()
	f.BoolVar(&i.JSON, "json", false, "print JSON Lines; the last one is the result")
	f.BoolVarP(&i.quiet, "quiet", "q", false, "print only results, warnings and errors")
	f.CountVarP(&i.verbose, "verbose", "v", "print more")
	f.BoolVar(&i.noColor, "no-color", false, "never colour")
	f.BoolVar(&i.noInput, "no-input", false, "never ask")
	f.BoolVarP(&i.yes, "yes", "y", false, "answer yes to questions; never grants an approval")
	f.StringVar(&i.config, "config", "", "user configuration `file`")
	f.StringVarP(&i.dir, "dir", "C", "", "work in this `directory`")
	f.DurationVar(&i.timeout, "timeout", 0, "pause the session after this time")
	f.StringArrayVar(&i.allow, "allow-workspace", nil, "allow this `directory` although it is / or the home directory")
	for _, name := range []string{"dir", "allow-workspace"} {
		_ = root.MarkPersistentFlagDirname(name) // the flag exists
	}
	root.AddCommand(i.referenceCommand())
	return root
}

// interactive reports whether a person can be asked.
func (i *Invocation) interactive() bool {
	return !i.noInput && !i.JSON && term.IsTerminal(int(i.in.Fd())) && term.IsTerminal(int(i.Err.Fd()))
}

// superviseCommand returns the command that acode starts, detached, to run a session's
// commands. It is not for people.
func (i *Invocation) superviseCommand() *cobra.Command {
	return &cobra.Command{
		Use: app.SuperviseCommand + " SESSION LOCKS DIR MAXOUTPUT", Hidden: true, Args: cobra.ExactArgs(4),
		RunE: func(cmd *cobra.Command, args []string) error { return app.Supervise(cmd.Context(), args, i.Now) },
	}
}

// terminalCommand returns the command that a supervisor starts to run a command on a
// terminal. It is not for people.
func (i *Invocation) terminalCommand() *cobra.Command {
	return &cobra.Command{
		Use: app.TerminalCommand + " -- FILE NAME [ARGUMENT...]", Hidden: true, Args: cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error { return quietExit(app.OnTerminal(args)) },
	}
}
