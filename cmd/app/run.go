package app

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
	var share bool
	cmd := &cobra.Command{
		Use: "run --plan FILE", Short: "Run a plan as a new session", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			flags := map[string]string{}
			if share {
				flags["workspace.share"] = "true"
			}
			return a.run(cmd.Context(), file, flags)
		},
	}
	cmd.Flags().StringVar(&file, "plan", "", "plan `file`")
	cmd.Flags().BoolVar(&share, "share-workspace", false, "run although another session executes in this workspace")
	_ = cmd.MarkFlagRequired("plan") // the flag exists: it was defined above
	return cmd
}

func (a *app) run(ctx context.Context, file string, flags map[string]string) error {
	if info, err := os.Stat(file); err == nil && plan.Large(info.Size()) && !a.json && !a.quiet {
		fmt.Fprintf(a.io.err, "Reading %s (%d MB)...\n", file, info.Size()>>20)
	}
	p, err := plan.Load(file)
	if err != nil {
		return err
	}
	b, err := a.boot(flags)
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
	w := &work{base: b, store: store, plan: p, fresh: true}
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
	if w.locks, err = w.take(id, commandLine(), w.cfg.Config.Workspace.Share); err != nil {
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

// find gives the session that ref names, with the errors that resume gives (an
// unknown id is 14 for resume, else 2).
func find(ctx context.Context, s *local.Store, ref string, forResume bool) (session.ID, error) {
	id, err := s.Find(ctx, ref)
	if forResume && errors.Is(err, session.ErrUnknownID) {
		return "", &session.Error{Code: session.ErrNoResumable, Message: fmt.Sprintf("no session has the id %s", ref), Next: "acode session list --resumable --all"}
	}
	return id, err
}
