package app

import (
	"context"
	"time"

	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
)

// interruptedNotes names the steps of sess that were interrupted, and what the next resume does with
// each. It reads the records of commands and nothing else.
func (s *Site) interruptedNotes(ctx context.Context, sess *session.Session, p *session.Plan) (notes []string, err error) {
	seen := map[session.StepID]resume.Seen{}
	runner := s.records(sess.ID)
	for id, st := range sess.Steps {
		if st.Status == session.InProgress {
			rec, err := traced(ctx, runner, st.Key)
			if err != nil {
				rec = session.CommandRecord{State: session.CommandUnknown, Why: "its record cannot be read"}
			}
			seen[id] = resume.Seen{Record: rec}
		}
	}
	next, err := resume.Plan(p, sess, seen, resume.Choices{Redact: s.Redactor.String})
	if err != nil {
		return nil, err
	}
	for _, it := range next.Items {
		st := sess.Steps[it.ID]
		switch {
		case st == nil || it.Action == session.ActionAttach && seen[it.ID].Record.State != session.CommandFinished: // a note of its own says that it runs
		case it.Kind == session.KindRun && (it.Status == session.InProgress || it.Status == session.StepUncertain):
			notes = append(notes, it.ID.String()+" was interrupted: "+it.Why)
		case it.Status == session.InProgress && len(p.Tasks[it.Task-1].Steps[it.Step-1].Changes) > 0:
			notes = append(notes, it.ID.String()+" was interrupted: the next resume looks at its files and finishes it or does it again")
		case it.Status == session.StepFailed && st.Code.Ordered():
			notes = append(notes, it.ID.String()+": "+it.Why)
		}
	}
	return notes, nil
}

// traced is Trace for who only looks, and waits for no supervisor that is frozen.
func traced(ctx context.Context, runner *command.Runner, key string) (session.CommandRecord, error) {
	within, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if rec, err := runner.Trace(within, key); err == nil {
		return rec, nil
	}
	return runner.Look(ctx, key)
}
