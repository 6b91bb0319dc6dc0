package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
	"github.com/acode-dev/acode/workspace"
)

// dryRun says what a resume would do. It takes no lock and changes no byte.
func (b *base) dryRun(ctx context.Context, store *local.Store, ref string, c choices) error {
	id, err := b.pick(ctx, store, ref, false)
	if err != nil {
		return err
	}
	writer, err := store.Load(ctx, id)
	if err != nil {
		return err
	}
	defer writer.Close()
	root, err := workspace.Open(b.workspace, b.now)
	if err != nil {
		return err
	}
	defer root.Close()
	w := &work{base: b, store: store, writer: writer, choices: c}
	if w.plan, err = store.Plan(ctx, writer.Session()); err != nil {
		return err
	}
	w.learn(w.plan)
	w.redactor.Learn(w.sealedCaptures(ctx))
	runner := w.runner()
	defer runner.Close()
	r := w.resumer(environment{root: root, blobs: writer, plan: w.plan, door: w.redactor}, root, runner, &prompter{})
	r.Options.DryRun = true
	asked, err := writer.Requests(ctx)
	if err != nil {
		return err
	}
	warnings := slices.Concat(odd(writer.Report()), b.cfg.Warnings, requestNotes(asked, false))
	r.Notify = func(n session.Notice) { // the rest is in the view below
		if n.Kind == session.NoticeWarning {
			warnings = append(warnings, n.Text)
		}
	}
	ready, err := r.Resume(ctx)
	if err != nil {
		return err
	}
	return b.printDryRun(ctx, store, writer, w.plan, ready, warnings)
}

func (b *base) printDryRun(ctx context.Context, store *local.Store, writer *local.Writer, p *session.Plan, ready resume.Ready, warnings []string) error {
	s := writer.Session()
	v := terminal.DryRunView{ID: s.ID, Short: s.Short, State: s.State, Next: &ready.Next, Changed: ready.Changed, Warnings: warnings}
	if seq := writer.Report().Checkpoint; seq > 0 {
		events, err := store.Events(ctx, s.ID, seq-1, 1)
		if err != nil {
			return err
		}
		v.Checkpoint = stepOf(events, p, ready.Next)
	}
	var err error
	if v.Sync, err = b.syncView(ctx, store, s.ID); err != nil {
		return err
	}
	if b.json {
		return terminal.DryRunJSON(b.io.out, v)
	}
	return terminal.DryRun(b.io.out, v, b.now())
}

// stepOf is where in the plan the step of a receipt stands; zero when it is none.
func stepOf(receipt []session.Event, p *session.Plan, next session.Continuation) terminal.Position {
	var id struct{ session.StepID }
	if len(receipt) != 1 || receipt[0].Decode(&id) != nil {
		return terminal.Position{}
	}
	for _, it := range next.Items {
		if it.ID == id.StepID {
			return terminal.Position{Task: it.Task, Tasks: len(p.Tasks), Step: it.Step, Steps: len(p.Tasks[it.Task-1].Steps)}
		}
	}
	return terminal.Position{}
}

// checkpointName is how log and people name the checkpoint that was used.
func checkpointName(r local.LoadReport) string {
	if r.Checkpoint == 0 {
		return "none"
	}
	return fmt.Sprintf("seq %d", r.Checkpoint)
}

// odd says what of a session is not as it was written, and keeps nobody from going on with it.
func odd(r local.LoadReport) []string {
	lines := slices.Clone(r.Warnings)
	if r.BadCheckpoint != "" {
		lines = append(lines, r.BadCheckpoint+", so an older one was used; acode verify says more")
	}
	return lines
}

// runner reaches the session's commands; it starts nothing by itself.
func (w *work) runner() *command.Runner {
	s := w.writer.Session()
	locks := workspaceLocks(w.home(), w.workspace)
	return command.NewRunner(command.Config{
		Dir: w.commandDir(s.ID), Session: s.ID, Epoch: s.Epoch + 1, Share: w.cfg.Config.Workspace.Share, Now: w.now,
		Args: []string{"supervise", string(s.ID), locks, w.commandDir(s.ID), strconv.FormatInt(w.cfg.Config.Command.MaxOutputBytes, 10)},
	})
}
