package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/plan"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

func (i *Invocation) runCommand() *cobra.Command {
	var file, id, request string
	var share, dryRun, planOnly bool
	var model string
	var allow []string
	var most limitFlags
	var parallel int
	var given paramFlags
	cmd := &cobra.Command{
		Use: "run FILE|TEXT", Short: "Run a plan, or a task in words, as a new session",
		Long: "Run a plan as a new session. FILE is a plan if its name ends in .yml, .yaml or .json, or if\nthere is such a file; - is standard input. Anything else is a task in words: a model makes its\nplan, and you approve it before anything is done.",
		Args: func(cmd *cobra.Command, args []string) error {
			if file != "" {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.MinimumNArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				if file = args[0]; len(args) > 1 || !isPlan(file) {
					if len(args) == 1 && !strings.ContainsAny(file, " \t\n") && strings.ContainsAny(file, "./") {
						return &session.Error{Code: session.ErrUsage, Message: "there is no plan " + file + "; nothing was changed", Next: session.Words("a task in words has several words, or stands in quotes")}
					}
					if file, request = "", strings.Join(args, " "); dryRun {
						return &session.Error{Code: session.ErrUsage, Message: "--dry-run needs a plan, and a task in words has none yet; nothing was changed", Next: session.Words("use --plan-only to see the plan that a model makes")}
					}
				}
			}
			flags := map[string]string{}
			if share {
				flags["workspace.share"] = "true"
			}
			if model != "" {
				flags["model"] = model
			}
			most.settings(flags)
			if err := allowed(allow, flags); err != nil {
				return err
			}
			if dryRun {
				return i.outline(file, given, flags)
			}
			if err := parallelFits(parallel); err != nil {
				return err
			}
			return i.run(cmd.Context(), starting{file: file, request: request, id: session.ID(id), parallel: parallel, planOnly: planOnly, given: given, flags: flags})
		},
	}
	cmd.Flags().StringVar(&file, "plan", "", "plan `file`, as FILE")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "check the plan, say what would run and change nothing")
	cmd.Flags().BoolVar(&planOnly, "plan-only", false, "with a task in words: print the plan that the model makes, and leave the session paused")
	cmd.Flags().BoolVar(&share, "share-workspace", false, "run although another session executes in this workspace")
	defineParallel(cmd, &parallel, "the default comes from the plan, or the configuration")
	given.define(cmd)
	cmd.Flags().StringVar(&model, "model", "", "the `name` of the model that prompts ask if they name none")
	defineAllow(cmd, &allow)
	most.define(cmd)
	cmd.Flags().StringVar(&id, sessionFlag, "", "the `id` of the session")
	hide(cmd, sessionFlag)
	return cmd
}

// defineParallel adds --max-parallel to cmd. Its default is 0; otherwise describes the
// limit that then applies.
func defineParallel(cmd *cobra.Command, n *int, otherwise string) {
	cmd.Flags().IntVar(n, "max-parallel", 0, "how many steps may run at once: `1-64`; "+otherwise)
}

// parallelFits returns ErrUsage for a number of steps that cannot run at once.
func parallelFits(n int) error {
	if n >= 0 && n <= session.MostParallel {
		return nil
	}
	return &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("--max-parallel=%d: must be from 1 to %d; nothing was changed", n, session.MostParallel)}
}

// AllowUsage describes the value of --allow.
const AllowUsage = "`CLASSES`, separated by commas: files (write and delete), write, delete, commands, network, git"

// powerNames are the classes of calls that --allow takes. files stands for write and
// delete, and commands for command.
const powerNames = "write|delete|files|command|commands|network|git"

// defineAllow adds --allow to cmd.
func defineAllow(cmd *cobra.Command, allow *[]string) {
	cmd.Flags().StringSliceVar(allow, "allow", nil, "what models may do without a question while this process runs, which is recorded: "+AllowUsage)
	completeValues(cmd, "allow", powerNames)
}

// allowed adds the settings of --allow to flags.
func allowed(names []string, flags map[string]string) error {
	for _, name := range names {
		classes := []string{strings.TrimSuffix(name, "s")}
		switch {
		case !slices.Contains(strings.Split(powerNames, "|"), name):
			return &session.Error{Code: session.ErrUsage, Message: "--allow=" + name + ": must be one of " + strings.ReplaceAll(powerNames, "|", ", ") + "; nothing was changed"}
		case name == "files":
			classes = []string{"write", "delete"}
		}
		for _, class := range classes {
			flags["approvals."+class] = "allow"
		}
	}
	return nil
}

// limitFlags limit what the models of a process may use.
type limitFlags struct{ turns, tokens, cost string }

func (l *limitFlags) define(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.turns, "max-turns", "", "how many requests to models this process may make: `N|none`")
	cmd.Flags().StringVar(&l.tokens, "tokens", "", "how many tokens this process may use: `N|none`")
	cmd.Flags().StringVar(&l.cost, "budget", "", "what the models may cost in this process, by their configured prices: `AMOUNT|none`")
}

// settings adds the limits that were given to flags.
func (l limitFlags) settings(flags map[string]string) {
	for key, value := range map[string]string{"limits.turns": l.turns, "limits.tokens": l.tokens, "limits.cost": l.cost} {
		if value != "" {
			flags[key] = value
		}
	}
}

// isPlan reports whether an argument of run names a plan. Any other argument is a task in
// words.
func isPlan(arg string) bool {
	info, err := os.Stat(arg)
	return arg == "-" || slices.Contains([]string{".yml", ".yaml", ".json"}, filepath.Ext(arg)) || err == nil && !info.IsDir()
}

// starting is what run was asked for: the plan in a file, or a request in words.
type starting struct {
	file, request string
	id            session.ID
	parallel      int
	planOnly      bool
	given         paramFlags
	flags         map[string]string
}

func (i *Invocation) run(ctx context.Context, f starting) error {
	if f.file == "-" {
		text, err := keepInput()
		if err != nil {
			return err
		}
		if inWords(text) {
			f.file, f.request = "", strings.TrimSpace(string(text))
		}
	}
	if f.planOnly && f.request == "" {
		return &session.Error{Code: session.ErrUsage, Message: "--plan-only is for a task in words, and this is a plan; nothing was changed", Next: session.Words("use --dry-run to see what a plan would run")}
	}
	p, values, setup, err := i.accept(f)
	if err == nil && i.Talks == nil && app.Asks(p, nil) {
		return i.handOver(agentProgram)
	}
	if err == nil {
		err = i.complete(ctx, p, values)
	}
	if err != nil {
		return err
	}
	s, err := app.Open(ctx, setup)
	if err != nil {
		return err
	}
	d := i.screen(s, true)
	start := app.Start{ID: f.id, Plan: p, Params: values, Timeout: i.timeout, MaxParallel: f.parallel, PlanOnly: f.planOnly}
	if f.request == "" {
		start.Source = planSource(f.file)
	}
	out, err := s.Start(ctx, d.door(), start)
	return d.finish(ctx, out, errors.Join(err, s.Close()))
}

// accept checks the plan, the configuration and the workspace before a session exists. It
// changes nothing.
func (i *Invocation) accept(f starting) (*session.Plan, app.Params, app.Setup, error) {
	p, err := i.planOf(f)
	if err != nil {
		return nil, app.Params{}, app.Setup{}, err
	}
	values, err := i.params(p, f.given)
	if err != nil {
		return nil, values, app.Setup{}, err
	}
	setup, err := i.setup(f.flags)
	if err == nil {
		setup.Learn(p)
		err = setup.Guard()
	}
	return p, values, setup, err
}

// planOf returns the plan in the file, or one that begins with the planning of the
// request.
func (i *Invocation) planOf(f starting) (*session.Plan, error) {
	if f.request != "" {
		return session.PlanningPlan(f.request, ""), nil
	}
	file := input(f.file)
	if info, err := os.Stat(file); err == nil && plan.Large(info.Size()) && !i.JSON && !i.quiet {
		fmt.Fprintf(i.Err, "Reading %s (%d MB)...\n", file, info.Size()>>20)
	}
	return plan.Load(file)
}

// outline prints the steps that run would execute. It takes no lock, opens no store and
// changes no byte.
func (i *Invocation) outline(file string, given paramFlags, flags map[string]string) error {
	p, _, setup, err := i.accept(starting{file: file, given: given, flags: flags})
	if err != nil {
		return err
	}
	next, err := setup.Outline(p)
	if err != nil {
		return err
	}
	return i.Page().Outline(terminal.OutlineView{Task: setup.Redactor.String(p.Task), Workspace: setup.Workspace, OnFailure: p.OnFailure, Next: &next, Warnings: setup.Settings.Warnings})
}
