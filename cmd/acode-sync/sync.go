package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/cmd/app"
	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

func (p *program) syncCommand() *cobra.Command {
	return app.Group("sync", "Deliver sessions to the server, or say how that stands",
		p.nowCommand(), p.statusCommand(), p.pauseCommand(true), p.pauseCommand(false), p.verifyCommand(), p.parkedCommand(), p.forkOffCommand(), p.rebindCommand(), p.drainCommand())
}

func (p *program) nowCommand() *cobra.Command {
	var wait time.Duration
	c := &cobra.Command{
		Use: "now", Short: "Deliver what is pending and say when the server has it", Args: cobra.NoArgs,
		Long: "Deliver what is pending. When it returns, everything that was committed before the call\nis on the server. Another process that delivers already is waited for.",
		RunE: func(cmd *cobra.Command, _ []string) error { return p.now(cmd.Context(), wait) },
	}
	c.Flags().DurationVar(&wait, "wait", 0, "go on trying for this long when the server is away; exit 11 after it")
	c.Flags().Lookup("wait").NoOptDefVal = "60s"
	return c
}

// now is a barrier: it returns when what was committed before it is acknowledged.
func (p *program) now(ctx context.Context, wait time.Duration) error {
	l, err := p.open(ctx, "sync now", outbox.Options{})
	if err != nil {
		return err
	}
	err = l.deliver(ctx, wait)
	if err == nil {
		err = p.printStatus(ctx, l.Site, l.store)
	}
	return errors.Join(err, l.close())
}

// retryEvery is how soon a barrier tries again, and looks whether another drainer got there.
const retryEvery = 500 * time.Millisecond

// deliver drains, or watches another process do it, for as long as wait allows. Without wait a
// server that is away ends it at once.
func (l *link) deliver(ctx context.Context, wait time.Duration) error {
	goal, err := l.goal(ctx)
	if err != nil {
		return err
	}
	begin := l.Now()
	tick := time.NewTicker(retryEvery)
	defer tick.Stop()
	for {
		if err = l.attempt(ctx, goal); err == nil || ctx.Err() != nil || !passing(err) {
			return err
		}
		if l.Now().Sub(begin) >= wait && !(errors.Is(err, session.ErrLocked) && wait == 0 && l.Now().Sub(begin) < otherDrainer) {
			break
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	if wait == 0 {
		return err
	}
	return &session.Error{Code: session.ErrTimeout, Message: fmt.Sprintf("not everything is delivered after %s; it is kept and delivered later", wait), Cause: err, Retryable: true, Next: "acode sync status"}
}

// otherDrainer is how long a barrier without --wait gives a process that delivers already.
const otherDrainer = 60 * time.Second

// passing reports whether waiting may help.
func passing(err error) bool {
	return errors.Is(err, session.ErrOffline) || errors.Is(err, session.ErrLocked)
}

// goal is what must be acknowledged: for each session with something pending, its last seq.
func (l *link) goal(ctx context.Context) (map[session.ID]uint64, error) {
	lanes, err := l.outbox.Changed(ctx)
	goal := map[session.ID]uint64{}
	for _, lane := range lanes {
		goal[lane.Session] = lane.LastSeq
	}
	return goal, err
}

// attempt drains as the store's one drainer. While another process is that, it only looks how
// far that one got.
func (l *link) attempt(ctx context.Context, goal map[session.ID]uint64) error {
	release, err := l.Drainer("acode sync now")
	if err == nil {
		err := l.syncer.Drain(ctx)
		if err == nil {
			l.chores(ctx)
		}
		return errors.Join(err, release())
	}
	if !errors.Is(err, session.ErrLocked) {
		return err
	}
	for id, seq := range goal {
		lane, lerr := l.store.Lane(ctx, id)
		if lerr != nil {
			return lerr
		}
		if lane.Acked < seq {
			return err
		}
		delete(goal, id)
	}
	return nil
}

// choresTime bounds what a barrier does for the server beyond delivery.
const choresTime = 5 * time.Second

// chores has the server verify and project what arrived. What is left of it is taken up by
// whoever drains next.
func (l *link) chores(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, choresTime)
	defer cancel()
	_ = l.syncer.Settle(ctx)
}

func (p *program) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Say how delivery stands; changes nothing, needs no network", Args: cobra.NoArgs,
		RunE: p.reading(p.printStatus),
	}
}

func (p *program) printStatus(ctx context.Context, s *app.Site, st *local.Store) error {
	v, err := s.SyncView(ctx, st, "")
	switch {
	case err != nil:
		return err
	case p.JSON():
		return terminal.SyncStatusJSON(p.Out(), v)
	}
	if err := terminal.SyncStatus(p.Out(), v); err != nil {
		return err
	}
	return printWentOn(ctx, p.Out(), st)
}

// reading wraps a command that only looks.
func (p *program) reading(f func(context.Context, *app.Site, *local.Store) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		return p.with(cmd.Context(), (*app.Site).OpenRead, f)
	}
}

// changing wraps a command that changes the store.
func (p *program) changing(f func(context.Context, *app.Site, *local.Store) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		return p.with(cmd.Context(), (*app.Site).OpenWrite, f)
	}
}

func (p *program) with(ctx context.Context, open func(*app.Site, context.Context) (*local.Store, error), f func(context.Context, *app.Site, *local.Store) error) error {
	s, err := p.Site()
	if err != nil {
		return err
	}
	st, err := open(s, ctx)
	if err != nil {
		return err
	}
	return errors.Join(f(ctx, s, st), st.Close())
}

func (p *program) pauseCommand(pause bool) *cobra.Command {
	c := &cobra.Command{Use: "unpause", Short: "Let delivery go on", Args: cobra.NoArgs}
	if pause {
		c.Use, c.Short = "pause", "Deliver nothing until unpause; sessions go on and nothing is lost"
	}
	c.RunE = p.changing(func(ctx context.Context, s *app.Site, st *local.Store) error {
		if err := st.PauseSync(ctx, pause); err != nil {
			return err
		}
		return p.printStatus(ctx, s, st)
	})
	return c
}
