package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/plan"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
	"github.com/acode-dev/acode/workspace"
)

func (a *app) runCommand() *cobra.Command {
	var file string
	var share, dryRun bool
	cmd := &cobra.Command{
		Use: "run --plan FILE", Short: "Run a plan as a new session", Args: onlyFlags,
		RunE: func(cmd *cobra.Command, _ []string) error {
			flags := map[string]string{}
			if share {
				flags["workspace.share"] = "true"
			}
			if dryRun {
				return a.outline(file, flags)
			}
			return a.run(cmd.Context(), file, flags)
		},
	}
	cmd.Flags().StringVar(&file, "plan", "", "plan `file`; - is standard input")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "check the plan, say what would run and change nothing")
	cmd.Flags().BoolVar(&share, "share-workspace", false, "run although another session executes in this workspace")
	_ = cmd.MarkFlagRequired("plan") // the flag exists: it was defined above
	return cmd
}

// onlyFlags refuses a plan file that stands alone, which is what a newcomer types.
func onlyFlags(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || cmd.Flags().Changed("plan") {
		return cobra.NoArgs(cmd, args)
	}
	next := "acode run --plan "
	if cmd.Flags().NFlag() > 0 { // they would be missing, -C among them
		next = "write --plan "
	}
	return &session.Error{Code: session.ErrUsage, Message: "run takes its plan with --plan; nothing was changed", Place: args[0], Next: next + session.ShellQuote(args[0])}
}

func (a *app) run(ctx context.Context, file string, flags map[string]string) error {
	p, b, err := a.accept(file, flags)
	if err != nil {
		return err
	}
	store, err := b.openWrite(ctx)
	if err != nil {
		return err
	}
	w := &work{base: b, store: store, plan: p, origin: planFile(file), fresh: true, tally: tally{now: b.now}}
	err = w.create(ctx)
	if err == nil {
		err = w.execute(ctx)
	}
	w.note(ctx, err)
	return errors.Join(err, w.close())
}

// accept checks everything that a new session needs before there is one: the plan, the
// configuration and the workspace. It changes nothing.
func (a *app) accept(file string, flags map[string]string) (*session.Plan, *base, error) {
	if file == "-" {
		file = "/dev/stdin"
	}
	if info, err := os.Stat(file); err == nil && plan.Large(info.Size()) && !a.json && !a.quiet {
		fmt.Fprintf(a.io.err, "Reading %s (%d MB)...\n", file, info.Size()>>20)
	}
	p, err := plan.Load(file)
	if err != nil {
		return nil, nil, err
	}
	b, err := a.boot(flags)
	if err == nil {
		b.learn(p)
		err = b.guardHome()
	}
	return p, b, err
}

// outline says what run would do. It takes no lock, opens no store and changes no byte.
func (a *app) outline(file string, flags map[string]string) error {
	p, b, err := a.accept(file, flags)
	if err != nil {
		return err
	}
	root, err := workspace.Open(b.workspace, b.now)
	if err != nil {
		return err
	}
	defer root.Close()
	next, err := resume.Plan(p, &session.Session{}, nil, resume.Choices{Redact: b.redactor.String})
	if err != nil {
		return err
	}
	v := terminal.OutlineView{Task: b.redactor.String(p.Task), Workspace: b.workspace, OnFailure: p.OnFailure, Next: &next, Warnings: b.cfg.Warnings}
	if b.json {
		return terminal.OutlineJSON(b.io.out, v)
	}
	return terminal.Outline(b.io.out, v)
}

// create locks a new session before anybody can know of it, then makes it.
func (w *work) create(ctx context.Context) error {
	id, err := w.store.NewID()
	if err != nil {
		return err
	}
	w.locks, err = w.take(id)
	w.tally.lock(err)
	if err != nil {
		return err
	}
	w.tidy(ctx, id)
	config, err := json.Marshal(w.cfg.Keys())
	if err != nil {
		return err
	}
	w.writer, err = w.store.Create(ctx, local.NewSession{
		ID: id, Task: w.plan.Task, Workspace: w.workspace, Plan: w.plan, PlanFile: w.origin, Config: string(config),
	})
	return err
}

// find gives the session that ref names, with the errors that resume gives (an
// unknown id is 14 for resume, else 2).
func find(ctx context.Context, s *local.Store, ref string, forResume bool) (session.ID, error) {
	id, err := s.Find(ctx, ref)
	if forResume && errors.Is(err, session.ErrUnknownID) {
		return "", &session.Error{Code: session.ErrNoResumable, Message: fmt.Sprintf("no session has the id %s", ref), Next: "acode session list --resumable --all"}
	}
	return id, err
}
