package syncer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

func (p *program) forkOffCommand() *cobra.Command {
	return &cobra.Command{
		Use: "fork-off ID", Short: "Go on with a session as a new one, where the server has another history of it", Args: cobra.ExactArgs(1),
		Long: "Go on with a session as a new one, where the server has another history of it: another copy\nof the store went on, or an older copy was put back. What is here is filed on the server as a\nfork and becomes a new session, linked to the old one; what was done counts as done there. A\ncommand that was in progress is asked about, since the other copy may have run it. The old\nsession is cancelled here. Repeat it after a failure: it goes on where it stopped.",
		RunE: func(cmd *cobra.Command, args []string) error { return p.forkOff(cmd.Context(), args[0]) },
	}
}

func (p *program) forkOff(ctx context.Context, ref string) error {
	l, err := p.open(ctx, "sync fork-off", outbox.Options{})
	if err != nil {
		return err
	}
	f := &forking{link: l}
	if err = f.lock(ctx, ref); err == nil {
		err = errors.Join(f.run(ctx), f.release())
	}
	if err == nil {
		err = f.print(p)
	}
	return errors.Join(err, l.close())
}

// forking is a session on its way to another id.
type forking struct {
	*link
	release func() error
	old     *session.Session
	filed   outbox.Filed
	new     session.Summary

	unknown  map[session.StepID]string // commands in progress, with why nobody can know
	finished map[session.StepID]int    // those with a result, by attempt
}

// lock finds the session and sees to it that nobody executes it.
func (f *forking) lock(ctx context.Context, ref string) error {
	id, err := f.Find(ctx, f.store, ref)
	if err != nil {
		return err
	}
	if f.release, err = f.Session(id, "acode sync fork-off"); err != nil {
		return err
	}
	f.old, err = f.store.View(ctx, id)
	return err
}

func (f *forking) run(ctx context.Context) error {
	if err := f.settled(ctx); err != nil || f.filed.Lane.WentOn() {
		return err
	}
	if err := f.meet(ctx); err != nil {
		return err
	}
	if err := f.file(ctx); err != nil {
		return err
	}
	if err := f.make(ctx); err != nil {
		return err
	}
	if err := f.Forget(f.old.ID); err != nil {
		return err
	}
	// What was made cancelled the old session, which is an event more.
	if err := f.file(ctx); err != nil {
		return err
	}
	return f.store.CloseLane(ctx, f.filed.Lane, f.new.Short)
}

// settled looks whether all of this was done before.
func (f *forking) settled(ctx context.Context) (err error) {
	if f.filed.Lane, err = f.store.Lane(ctx, f.old.ID); err == nil {
		f.new, _, err = f.store.ForkOf(ctx, f.old.ID)
	}
	return err
}

// meet delivers what is pending, which is how a fork is noticed, or waits for another process that
// does: the one that a resume has left behind. Sessions that wait for a person, this one among
// them, are no failure of it.
func (f *forking) meet(ctx context.Context) error {
	err := f.deliver(ctx, 0)
	if errors.Is(err, session.ErrForked) || errors.Is(err, session.ErrFenced) || errors.Is(err, session.ErrParked) {
		return nil
	}
	return err
}

// file has the server file all that it does not share, and refuses a session whose whole
// history it shares or takes.
func (f *forking) file(ctx context.Context) error {
	lane, err := f.store.Lane(ctx, f.old.ID)
	if err == nil {
		f.filed, err = f.syncer.File(ctx, lane)
	}
	if err != nil {
		return err
	}
	if state := f.filed.Lane.State; state == session.SyncForked || state == session.SyncFenced {
		return nil
	}
	return &session.Error{Code: session.ErrUsage, Message: "the server has no other history of this session; nothing was forked off", Place: f.old.Short, Next: "acode sync status"}
}

// make makes the new session unless it was made before.
func (f *forking) make(ctx context.Context) error {
	if f.new.ID != "" {
		return nil
	}
	if err := f.inProgress(ctx); err != nil {
		return err
	}
	id, err := f.store.NewID()
	if err != nil {
		return err
	}
	if err = f.adopt(ctx, id); err != nil {
		return errors.Join(err, f.Disown(id))
	}
	made, err := f.store.ForkOff(ctx, local.Fork{From: f.old.ID, ID: id, Shared: f.filed.Shared, Unknown: f.unknown})
	if err != nil {
		// A commit that failed may have happened: its results stay, and harm nothing.
		return err
	}
	f.new = session.Summary{ID: made.ID, Short: made.Short, State: made.State, LastSeq: made.LastSeq}
	return nil
}

// adopt gives the new session the results of commands before it is there: without them it would
// run the commands again.
func (f *forking) adopt(ctx context.Context, to session.ID) error {
	if len(f.finished) == 0 {
		return nil
	}
	plan, err := f.store.Plan(ctx, f.old)
	if err != nil {
		return err
	}
	for id, attempt := range f.finished {
		run := command(plan, id)
		if run == nil {
			return &session.Error{Code: session.ErrPlanning, Message: fmt.Sprintf("the journal knows the command %s, the plan does not; nothing was changed", id), Place: f.old.Short}
		}
		err := f.Adopt(ctx, f.old.ID, to, session.Key{Session: f.old.ID, Step: id, Operation: session.OpMain, Attempt: attempt}, run)
		if errors.Is(err, session.ErrCorrupt) || errors.Is(err, session.ErrUncertain) {
			f.unknown[id] = "the command ended, and what it wrote is lost: " + err.Error()
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// command finds the command of a step; nil when there is none.
func command(p *session.Plan, id session.StepID) *session.Run {
	for i := range p.Tasks {
		if p.Tasks[i].ID != id.Task {
			continue
		}
		for _, step := range p.Tasks[i].Steps {
			if step.ID == id.Step {
				return step.Run
			}
		}
	}
	return nil
}

// inProgress finds out which commands in progress nobody can know the outcome of. What the
// other copy did under the same key stands in no record of this one.
func (f *forking) inProgress(ctx context.Context) error {
	if err := f.Fence(ctx, f.old); err != nil { // what is not claimed now is never started under the old id
		return err
	}
	f.unknown, f.finished = map[session.StepID]string{}, map[session.StepID]int{}
	for id, st := range f.old.Steps {
		if st.Status != session.InProgress {
			continue
		}
		events, err := f.store.Events(ctx, f.old.ID, st.StartSeq-1, 1)
		if err != nil || len(events) == 0 {
			return err
		}
		var intent session.StepStartedData
		if err := events[0].Decode(&intent); err != nil {
			return err
		}
		if intent.Kind != session.KindRun {
			continue
		}
		if err := f.command(ctx, id, st); err != nil {
			return err
		}
	}
	return nil
}

func (f *forking) command(ctx context.Context, id session.StepID, st *session.StepState) error {
	rec, err := f.Command(ctx, f.old.ID, st.Key)
	if err != nil {
		return err
	}
	switch rec.State {
	case session.CommandRunning, session.CommandUnattended:
		return &session.Error{Code: session.ErrLocked, Message: fmt.Sprintf("the command of %s still runs; nothing was changed", id), Place: f.old.Short, Retryable: true,
			Next: "wait for its end, or end it: acode session cancel --command " + f.old.Short}
	case session.CommandUnclaimed:
		if st.StartSeq <= f.filed.Shared {
			f.unknown[id] = "this copy of the session never started the command, and the other one may have"
		}
	case session.CommandFinished:
		f.finished[id] = st.Attempt
	default:
		f.unknown[id] = rec.Why
	}
	return nil
}

func (f *forking) print(p *program) error {
	if p.JSON() {
		steps := []string{}
		for id := range f.unknown {
			steps = append(steps, id.String())
		}
		slices.Sort(steps)
		return terminal.JSON(p.Out(), map[string]any{"v": 1, "session_id": f.old.ID, "short_id": f.old.Short, "new_session_id": f.new.ID, "new_short_id": f.new.Short,
			"shared_seq": f.filed.Shared, "unknown_steps": steps})
	}
	_, err := fmt.Fprintf(p.Out(), "%s went on as %s: all of it is kept here, and on the server as a fork.\n", f.old.Short, f.new.Short)
	if f.filed.Theirs > f.filed.Shared {
		_, err = fmt.Fprintf(p.Out(), "The server's own history has %s that this store never had; what they did may be done again.\n", terminal.Plural(int(f.filed.Theirs-f.filed.Shared), "event"))
	}
	for id, why := range f.unknown {
		_, err = fmt.Fprintf(p.Out(), "Nobody can know what became of %s: %s\n", id, terminal.Clean(why))
	}
	if err == nil && !f.new.State.Terminal() {
		_, err = fmt.Fprintln(p.Out(), p.Spelled("Continue with: acode resume "+f.new.Short))
	}
	return err
}

// wentOn lists the sessions that went on as others.
func wentOn(ctx context.Context, st *local.Store) ([]terminal.LaneView, error) {
	lanes, err := st.WentOnLanes(ctx)
	var out []terminal.LaneView
	for _, l := range lanes {
		s, verr := st.View(ctx, l.Session)
		if verr != nil {
			return out, verr
		}
		out = append(out, terminal.LaneView{Short: s.Short, State: l.State, Reason: l.Reason})
	}
	return out, err
}
