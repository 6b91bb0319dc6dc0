package app

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/lock"
	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/session"
)

// Fork is a session that gets a new id because the server has another history under the
// old one. No process executes the session meanwhile. The caller must call Release.
type Fork struct {
	Old *session.Session
	// New is zero until Make has made the new session.
	New session.Summary
	// Unknown maps each command in progress with an unknown outcome to the reason.
	Unknown map[session.StepID]string

	site *Site
	lock *lock.Lock
	// attempts of the commands in progress that have a result
	finished map[session.StepID]int
}

// Fork locks the session that ref names, so that no process executes it. doing describes
// this process to others.
func (s *Site) Fork(ctx context.Context, ref, doing string) (*Fork, error) {
	id, err := s.store.Find(ctx, ref)
	if err != nil {
		return nil, err
	}
	f := &Fork{site: s}
	if f.lock, err = s.hold(id, doing); err != nil {
		return nil, err
	}
	if f.Old, err = s.store.View(ctx, id); err == nil {
		f.New, _, err = s.store.ForkOf(ctx, id)
	}
	if err != nil {
		return nil, errors.Join(err, f.lock.Release())
	}
	return f, nil
}

// Release unlocks the session.
func (f *Fork) Release() error { return f.lock.Release() }

// Make makes the new session if it does not exist yet. shared is the last event that the
// server has too.
func (f *Fork) Make(ctx context.Context, shared uint64) error {
	if f.New.ID == "" {
		if err := f.make(ctx, shared); err != nil {
			return err
		}
	}
	return command.ForgetAll(f.site.commandDir(f.Old.ID))
}

func (f *Fork) make(ctx context.Context, shared uint64) error {
	if err := f.inProgress(ctx, shared); err != nil {
		return err
	}
	id, err := f.site.store.NewID()
	if err != nil {
		return err
	}
	if err = f.adopt(ctx, id); err != nil {
		return errors.Join(err, os.RemoveAll(f.site.commandDir(id)))
	}
	// A commit that failed may still have happened. Its results stay and do no harm.
	made, err := f.site.store.ForkOff(ctx, local.Fork{From: f.Old.ID, ID: id, Shared: shared, Unknown: f.Unknown})
	if err == nil {
		f.New = summary(made)
	}
	return err
}

// adopt gives the new session the results of finished commands before the session exists.
// Without them the new session would run the commands again.
func (f *Fork) adopt(ctx context.Context, to session.ID) error {
	if len(f.finished) == 0 {
		return nil
	}
	plan, err := f.site.store.Plan(ctx, f.Old)
	if err != nil {
		return err
	}
	for id, attempt := range f.finished {
		run := commandOf(plan, id)
		if run == nil {
			return &session.Error{Code: session.ErrPlanning, Message: fmt.Sprintf("the journal has the command %s, but the plan does not; nothing was changed", id), Place: f.Old.Short}
		}
		key := session.Key{Session: f.Old.ID, Step: id, Operation: session.OpMain, Attempt: attempt}
		from := key.String()
		key.Session = to
		err := f.site.records(to).Adopt(ctx, f.site.commandDir(f.Old.ID), from, session.CommandRequest{Key: key.String(), Argv: run.Command(), Dir: run.Dir})
		if errors.Is(err, session.ErrCorrupt) || errors.Is(err, session.ErrUncertain) {
			f.Unknown[id] = "the command ended, and its output is lost: " + err.Error()
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// records gives access to the records of a session's commands. It starts nothing.
func (s *Site) records(id session.ID) *command.Runner {
	return command.NewRunner(command.Config{Dir: s.commandDir(id), Session: id, Now: s.Now})
}

// commandOf returns the command of a step, nil if there is none.
func commandOf(p *session.Plan, id session.StepID) *session.Run {
	for at, step := range p.All() {
		if at == id {
			return step.Run
		}
	}
	return nil
}

// inProgress collects the commands in progress: those with a result, and those whose
// outcome is unknown. This copy has no record of the commands that the other copy ran
// under the same key.
func (f *Fork) inProgress(ctx context.Context, shared uint64) error {
	if err := f.site.fence(ctx, f.Old); err != nil { // commands without a claim now never start under the old id
		return err
	}
	f.Unknown, f.finished = map[session.StepID]string{}, map[session.StepID]int{}
	for id, st := range f.Old.Steps {
		if st.Status != session.InProgress {
			continue
		}
		var intent session.StepStartedData
		if err := f.site.eventAt(ctx, f.Old.ID, st.StartSeq, &intent); err != nil {
			return err
		}
		if intent.Kind != session.KindRun {
			continue
		}
		if err := f.command(ctx, id, st, shared); err != nil {
			return err
		}
	}
	return nil
}

func (f *Fork) command(ctx context.Context, id session.StepID, st *session.StepState, shared uint64) error {
	rec, err := f.site.records(f.Old.ID).Trace(ctx, st.Key)
	if err != nil {
		return err
	}
	switch rec.State {
	case session.CommandRunning, session.CommandUnattended:
		return &session.Error{Code: session.ErrLocked, Message: fmt.Sprintf("the command of %s still runs; nothing was changed", id), Place: f.Old.Short, Retryable: true,
			Next: session.Then("wait for its end, or end it", session.MoveCancelCommand, f.Old.Short)}
	case session.CommandUnclaimed, session.CommandVoid:
		if st.StartSeq <= shared {
			f.Unknown[id] = "this copy of the session never started the command, but the other copy may have"
		}
	case session.CommandFinished:
		f.finished[id] = st.Attempt
	default:
		f.Unknown[id] = rec.Why
	}
	return nil
}
