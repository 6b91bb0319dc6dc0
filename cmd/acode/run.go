package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/plan"
	"github.com/acode-dev/acode/session"
)

func (a *app) runCommand() *cobra.Command {
	var file string
	var c choices
	cmd := &cobra.Command{
		Use: "run --plan FILE", Short: "Run a plan as a new session", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.run(cmd.Context(), file, c) },
	}
	cmd.Flags().StringVar(&file, "plan", "", "plan `file`")
	cmd.Flags().BoolVar(&c.share, "share-workspace", false, "run although another session executes in this workspace")
	_ = cmd.MarkFlagRequired("plan") // the flag exists: it was defined above
	return cmd
}

func (a *app) run(ctx context.Context, file string, c choices) error {
	if info, err := os.Stat(file); err == nil && plan.Large(info.Size()) && !a.json && !a.quiet {
		fmt.Fprintf(a.io.err, "Reading %s (%d MB)...\n", file, info.Size()>>20)
	}
	p, err := plan.Load(file)
	if err != nil {
		return err
	}
	b, err := a.boot()
	if err != nil {
		return err
	}
	if err := b.guardHome(); err != nil {
		return err
	}
	store, err := b.openWrite(ctx)
	if err != nil {
		return err
	}
	w := &work{base: b, store: store, plan: p, fresh: true, choices: b.choose(c)}
	err = w.create(ctx)
	if err == nil {
		err = w.execute(ctx)
	}
	return errors.Join(err, w.close())
}

// create locks a new session before anybody can know of it, then makes it.
func (w *work) create(ctx context.Context) error {
	id, err := w.store.NewID()
	if err != nil {
		return err
	}
	if w.locks, err = w.take(id, commandLine(), w.choices.share); err != nil {
		return err
	}
	config, err := json.Marshal(w.cfg.Keys())
	if err != nil {
		return err
	}
	w.writer, err = w.store.Create(ctx, local.NewSession{
		ID: id, Task: w.plan.Task, Workspace: w.workspace, Plan: w.plan, Config: string(config), Program: version,
	})
	return err
}

// choose fills what no flag said from the configuration.
func (b *base) choose(c choices) choices {
	r := b.cfg.Config.Resume
	if c.onChanges == "" {
		c.onChanges = onChanges(r.ChangedFilesAction)
	}
	if c.inProgress == "" {
		c.inProgress = strategy(r.InProgressStrategy)
	}
	c.share = c.share || b.cfg.Config.Workspace.Share
	return c
}

// find gives the session that ref names, with the errors that resume gives (RULINGS: an
// unknown id is 14 for resume, else 2).
func find(ctx context.Context, s *local.Store, ref string, forResume bool) (session.ID, error) {
	id, err := s.Find(ctx, ref)
	if forResume && errors.Is(err, session.ErrUnknownID) {
		return "", &session.Error{Code: session.ErrNoResumable, Message: fmt.Sprintf("no session has the id %s", ref), Next: "acode session list --resumable --all"}
	}
	return id, err
}
