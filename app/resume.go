package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
)

// load finds, locks and verifies the session. The id is empty if there is none.
func (w *work) load(ctx context.Context, ref string) (session.ID, error) {
	id, err := w.pick(ctx, ref, w.door)
	if err != nil {
		return id, err
	}
	w.tally.resumes = true
	w.tally.begin()
	w.locks, err = w.takeWithin(ctx, id, w.Settings.Config.Lock.Wait)
	w.tally.lock(err)
	if err != nil {
		return id, w.lockedOut(ctx, id, err)
	}
	w.tally.ended(session.PhaseLock)
	killed := w.tidy(ctx, id)
	if err = w.notForked(ctx, id); err != nil {
		return id, err
	}
	w.git = askGit(ctx, w.Workspace)
	if w.writer, err = w.store.Load(ctx, id); err != nil {
		return id, err
	}
	if !killed {
		w.sweepAfter(w.writer.Session().State)
	}
	w.tally.ended(session.PhaseLoad)
	w.tally.found(w.writer.Session())
	rested := summary(w.writer.Session())
	w.restUS = w.stopped(ctx, Row{Summary: rested, Interrupted: underWay(rested.State)})
	if err = resume.Allowed(w.writer.Session()); err != nil {
		return id, err
	}
	if w.after != nil && *w.after != w.writer.Session().Epoch {
		return id, &session.Error{Code: session.ErrConflict, Message: "the session was continued meanwhile; nothing was changed", Next: session.Do(session.MoveStatus, "")}
	}
	if err = w.askedBefore(ctx); err != nil {
		return id, err
	}
	return id, w.confinable(ctx)
}

// askedBefore carries out a request to cancel that an earlier process did not answer.
func (w *work) askedBefore(ctx context.Context) error {
	asked, err := w.writer.Requests(ctx)
	if err != nil {
		return err
	}
	for _, r := range asked {
		if r.Kind != session.RequestCancel {
			continue
		}
		if err := w.takeUp(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// takeUp cancels the session as r asks, and then returns ErrCancelled. A request cannot
// be withdrawn, so a person may say that r no longer counts.
func (w *work) takeUp(ctx context.Context, r session.Request) error {
	counts, err := w.door.Cancel(ctx, requestNote(r))
	if err != nil {
		return err
	}
	if !counts {
		_, err := w.writer.AppendAnswering(ctx, r.ID)
		return err
	}
	var also Decision
	if err := w.cancelNow(ctx, w.writer, r, &also); err != nil {
		return err
	}
	said := append([]string{"session " + w.writer.Session().Short + " is cancelled now: " + requestNote(r)}, also.Warnings...)
	return errors.Join(w.forgetOver(ctx, r.Session), &session.Error{Code: session.ErrCancelled, Message: strings.Join(said, "; ")})
}

// refuse logs an attempt that could not load or lock the session. It returns the session
// if it can be read.
func (w *work) refuse(ctx context.Context, id session.ID, err error) (*session.Session, error) {
	if errors.Is(err, ErrDeclined) {
		return nil, err
	}
	s, short := (*session.Session)(nil), ""
	if id != "" {
		if seen, verr := w.store.View(ctx, id); verr == nil { // else log and result lack the session
			s, short = seen, seen.Short
		}
	}
	logRefused(w.Log, short, err)
	if s == nil {
		return nil, err
	}
	return s, about(short, Shortage(err))
}

// findToResume returns the session that ref names, or ErrNoResumable if ref is unknown.
func (s *Site) findToResume(ctx context.Context, ref string) (session.ID, error) {
	id, err := s.store.Find(ctx, ref)
	if errors.Is(err, session.ErrUnknownID) {
		return "", &session.Error{Code: session.ErrNoResumable, Message: fmt.Sprintf("no session has the id %s", ref), Next: session.Do(session.MoveListResumable, "")}
	}
	return id, err
}

// pick returns the session that ref names. Without ref it returns the most recent
// resumable session of this workspace, which person may decline. If all are being
// executed, it returns the most recent one, with ErrLocked if person is nil. A nil person
// is not asked.
func (s *Site) pick(ctx context.Context, ref string, person Person) (session.ID, error) {
	if ref != "" {
		return s.findToResume(ctx, ref)
	}
	rows, err := s.rows(ctx, s.Workspace)
	if err != nil {
		return "", err
	}
	var free, running []Row
	for _, r := range rows {
		switch {
		case r.State.Terminal() || r.Calls > 0: // an agent continues its own session
		case r.Running:
			running = append(running, r)
		default:
			free = append(free, r)
		}
	}
	switch {
	case len(free) > 0 && person != nil:
		return s.confirmed(ctx, free, person)
	case len(free) > 0:
		return free[0].ID, nil
	case len(running) > 0 && person != nil:
		return running[0].ID, nil // taking its lock fails with the holder, or waits
	case len(running) > 0:
		return running[0].ID, s.lockedOut(ctx, running[0].ID, &session.Error{Code: session.ErrLocked, Message: "another process executes it"})
	}
	return "", s.noneHere(ctx)
}

// confirmed returns the session in free that person chooses.
func (s *Site) confirmed(ctx context.Context, free []Row, person Person) (session.ID, error) {
	at := func() (Position, error) {
		sess, p, next, err := s.outlook(ctx, free[0].ID)
		if err != nil {
			return Position{}, err
		}
		return stands(sess, p, next), nil
	}
	for i := range free[:min(len(free), fewRows)] {
		free[i].UpdatedUS = s.stopped(ctx, free[i])
	}
	taken, err := person.Confirm(ctx, free, at)
	if err == nil && taken < 0 {
		err = ErrDeclined
	}
	if err != nil {
		return "", err
	}
	return free[taken].ID, nil
}

// stopped returns the time at which a session stopped. An approval may have come later.
func (s *Site) stopped(ctx context.Context, r Row) int64 {
	const few = 64
	at := r.UpdatedUS
	if r.Interrupted {
		return at
	}
	events, _ := s.store.Events(ctx, r.ID, r.LastSeq-min(r.LastSeq, few), few) // on an error use the time of the last event
	for _, e := range events {
		if e.Type == session.StateChanged {
			at = e.TimeUS
		}
	}
	return at
}

// NoResumable returns the error for a workspace without a session to resume.
func NoResumable() *session.Error {
	return &session.Error{Code: session.ErrNoResumable, Message: "no resumable session", Next: session.Then("start one with", session.MoveRun, "")}
}

func (s *Site) noneHere(ctx context.Context) error {
	all, err := s.rows(ctx, "")
	if err != nil {
		return err
	}
	e := NoResumable()
	var elsewhere []string
	for _, r := range all {
		if !r.State.Terminal() && !r.Running && r.Calls == 0 {
			if _, _, err := s.store.Workspace(ctx, r.ID); err != nil { // a session that cannot be read may be of this workspace
				return err
			}
			elsewhere = append(elsewhere, r.Short+" in "+r.Workspace)
		}
	}
	if len(elsewhere) > 0 {
		e.Message = "no resumable session in this workspace; elsewhere: " + session.Few(elsewhere, fewRows)
		e.Next = session.Then("each continues in its own workspace", session.MoveResume, "")
	}
	if len(elsewhere) > fewRows {
		e.Next = session.Then("name one, and it continues in its own workspace; to list all of them", session.MoveListResumable, "")
	}
	return e
}
