package syncer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

func (p *program) forkOffCommand() *cobra.Command {
	return &cobra.Command{
		Use: "fork-off ID", Short: "Continue a session as a new one when the server has another history of it", Args: cobra.ExactArgs(1),
		Long: "Continue a session as a new one when the server has another history of it. That happens when\nanother copy of the store continued it, or an older copy was restored. The history here is filed\non the server as a fork and becomes a new session, linked to the old one. Finished work counts\nas done in the new session. acode asks about a command that was in progress, because the other\ncopy may have run it. The old session is cancelled here. Repeat the command after a failure: it\ncontinues where it stopped.",
		RunE: func(cmd *cobra.Command, args []string) error { return p.forkOff(cmd.Context(), args[0]) },
	}
}

func (p *program) forkOff(ctx context.Context, ref string) error {
	return p.withEndpoints(ctx, "sync fork-off", outbox.Options{}, func(l *endpoints) error {
		fork, err := l.Fork(ctx, ref, "acode sync fork-off")
		if err != nil {
			return err
		}
		f := &forking{endpoints: l, Fork: fork}
		if err := errors.Join(f.run(ctx), f.Release()); err != nil {
			return err
		}
		return f.print(p)
	})
}

// forking continues a session under a new id and files its old history on the server.
type forking struct {
	*endpoints
	*app.Fork
	filed outbox.Filed
}

func (f *forking) run(ctx context.Context) (err error) {
	// After WentOn, everything below was done by an earlier call.
	if f.filed.Lane, err = f.store.Lane(ctx, f.Old.ID); err != nil || f.filed.Lane.WentOn() {
		return err
	}
	if err := f.meet(ctx); err != nil {
		return err
	}
	if err := f.file(ctx); err != nil {
		return err
	}
	if err := f.Make(ctx, f.filed.Shared); err != nil {
		return err
	}
	// Make cancelled the old session, which added an event.
	if err := f.file(ctx); err != nil {
		return err
	}
	return f.store.CloseLane(ctx, f.filed.Lane, f.New.Short)
}

// meet delivers pending events, because delivery detects the fork. While another process
// delivers, for example one that a resume left behind, meet waits for it. Sessions that
// wait for a person are no error, because this session is one of them.
func (f *forking) meet(ctx context.Context) error {
	err := f.deliver(ctx, 0)
	if errors.Is(err, session.ErrForked) || errors.Is(err, session.ErrFenced) || errors.Is(err, session.ErrParked) {
		return nil
	}
	return err
}

// file makes the server file the events that it does not share. It refuses a session
// whose whole history the server shares or accepts.
func (f *forking) file(ctx context.Context) error {
	lane, err := f.store.Lane(ctx, f.Old.ID)
	if err == nil {
		f.filed, err = f.syncer.File(ctx, lane)
	}
	if err != nil {
		return err
	}
	if state := f.filed.Lane.State; state == session.SyncForked || state == session.SyncFenced {
		return nil
	}
	return &session.Error{Code: session.ErrUsage, Message: "the server has no other history of this session; nothing was forked off", Place: f.Old.Short, Next: session.Do(session.MoveSyncStatus, "")}
}

func (f *forking) print(p *program) error {
	if p.JSON {
		steps := []string{}
		for id := range f.Unknown {
			steps = append(steps, id.String())
		}
		slices.Sort(steps)
		return terminal.JSON(p.Out, map[string]any{"v": 1, "session_id": f.Old.ID, "short_id": f.Old.Short, "new_session_id": f.New.ID, "new_short_id": f.New.Short,
			"shared_seq": f.filed.Shared, "unknown_steps": steps})
	}
	_, err := fmt.Fprintf(p.Out, "%s went on as %s: all of it is kept here, and on the server as a fork.\n", f.Old.Short, f.New.Short)
	if f.filed.Theirs > f.filed.Shared {
		_, err = fmt.Fprintf(p.Out, "The server's own history has %s that this store never had; their work may be done again.\n", terminal.Plural(int(f.filed.Theirs-f.filed.Shared), "event"))
	}
	for id, why := range f.Unknown {
		_, err = fmt.Fprintf(p.Out, "The outcome of %s is unknown: %s\n", id, terminal.Clean(why))
	}
	if err == nil && !f.New.State.Terminal() {
		_, err = fmt.Fprintln(p.Out, p.Spell(session.Then("Continue with", session.MoveResume, f.New.Short)))
	}
	return err
}

// wentOn lists the sessions that continue under another id.
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
