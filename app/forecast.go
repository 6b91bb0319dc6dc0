package app

import (
	"context"
	"fmt"
	"slices"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/workspace"
)

// Forecast is the plan of a resume.
type Forecast struct {
	Session *session.Session
	// Checkpoint is the position of the step of the last checkpoint, zero if there is
	// none.
	Checkpoint Position
	Next       session.Continuation
	Changed    []session.ChangedFile
	Warnings   []string
	// Edited is set if the plan file was edited after the session began.
	Edited session.Hint
	// Delivery is the state of delivery of this session.
	Delivery Delivery
}

// Forecast returns the plan of a resume. It takes no lock and changes no byte. ref is as
// in Resume.
func (s *Site) Forecast(ctx context.Context, ref string, c Choices) (Forecast, error) {
	id, err := s.pick(ctx, ref, nil)
	if err != nil {
		return Forecast{}, err
	}
	writer, err := s.store.Load(ctx, id)
	if err != nil {
		return Forecast{}, err
	}
	defer writer.Close()
	w := &work{Site: s, writer: writer, choices: c}
	if w.plan, err = s.store.Plan(ctx, writer.Session()); err != nil {
		return Forecast{}, err
	}
	s.Learn(w.plan)
	ready, warnings, err := w.try(ctx)
	if err != nil {
		return Forecast{}, err
	}
	out := Forecast{Session: writer.Session(), Next: ready.Next, Changed: ready.Changed, Warnings: warnings, Edited: w.edited(ctx)}
	var receipt struct{ session.StepID }
	if err := s.eventAt(ctx, id, writer.Report().Checkpoint, &receipt); err != nil {
		return out, err
	}
	for _, it := range ready.Next.Items {
		if it.ID == receipt.StepID {
			out.Checkpoint = placeOf(w.plan, it)
		}
	}
	out.Delivery, err = s.Delivery(ctx, id)
	return out, err
}

// try runs the parts of a resume that change nothing.
func (w *work) try(ctx context.Context) (resume.Ready, []string, error) {
	root, err := workspace.Open(w.Workspace, w.Now)
	if err != nil {
		return resume.Ready{}, nil, err
	}
	defer root.Close()
	asked, err := w.writer.Requests(ctx)
	if err != nil {
		return resume.Ready{}, nil, err
	}
	warnings := slices.Concat(loadWarnings(w.writer.Report()), w.Settings.Warnings, requestNotes(asked, false))
	runner := w.runner()
	defer runner.Close()
	env := newEnvironment(root, w.writer, w.plan, w.Redactor)
	r := w.resumer(env, runner, asking{Person: NoPerson{}}, func(n session.Notice) {
		if n.Kind == session.NoticeWarning { // the Forecast has the rest
			warnings = append(warnings, n.Text)
		}
	})
	r.Options.DryRun = true
	if r.Options.Inputs, err = w.restore(ctx, NoPerson{}); err != nil {
		return resume.Ready{}, nil, err
	}
	ready, err := r.Resume(ctx)
	return ready, warnings, err
}

// checkpointName is the name of the used checkpoint in the log and in messages.
func checkpointName(r local.LoadReport) string {
	if r.Checkpoint == 0 {
		return "none"
	}
	return fmt.Sprintf("seq %d", r.Checkpoint)
}

// loadWarnings returns warnings about a session whose data is not as it was written, but
// can still be continued.
func loadWarnings(r local.LoadReport) []string {
	lines := slices.Clone(r.Warnings)
	if r.BadCheckpoint != "" {
		lines = append(lines, r.BadCheckpoint+", so an older one was used; a verification says more")
	}
	return lines
}

// Outline returns the work of a new session of p. It opens no store and changes no byte.
func (s *Setup) Outline(p *session.Plan) (session.Continuation, error) {
	root, err := workspace.Open(s.Workspace, s.Now)
	if err != nil {
		return session.Continuation{}, err
	}
	defer root.Close()
	return resume.Plan(p, &session.Session{}, nil, resume.Choices{Redact: s.Redactor.String})
}
