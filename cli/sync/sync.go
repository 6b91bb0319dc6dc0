package syncer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/cli"
	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/session"
)

func (p *program) syncCommand() *cobra.Command {
	return cli.Group("sync", "Deliver sessions to the server, or show the state of delivery",
		p.nowCommand(), p.statusCommand(), p.pauseCommand(true), p.pauseCommand(false), p.verifyCommand(), p.parkedCommand(), p.forkOffCommand(), p.rebindCommand(), p.drainCommand())
}

func (p *program) nowCommand() *cobra.Command {
	var wait time.Duration
	c := &cobra.Command{
		Use: "now", Short: "Deliver pending events and wait until the server has them", Args: cli.Following("wait", cobra.NoArgs),
		Long: "Deliver pending events. When it returns, everything that was committed before the call is on the\nserver. If another process already delivers, it asks that process to try at once, and waits.",
		RunE: func(cmd *cobra.Command, _ []string) error { return p.now(cmd.Context(), wait) },
	}
	c.Flags().DurationVar(&wait, "wait", 0, "keep trying for this long when the server cannot be reached; exit 11 after it")
	c.Flags().Lookup("wait").NoOptDefVal = "60s"
	return c
}

// now returns when the server has acknowledged everything that was committed before the
// call.
func (p *program) now(ctx context.Context, wait time.Duration) error {
	return p.withEndpoints(ctx, "sync now", outbox.Options{}, func(l *endpoints) error {
		if err := l.deliver(ctx, wait); err != nil {
			return err
		}
		return p.printStatus(ctx, l.Site)
	})
}

const (
	// retryEvery is how often a barrier tries again, or looks at the progress of another
	// process.
	retryEvery = 500 * time.Millisecond

	// otherDrainer is how long a barrier without --wait waits for another process that
	// delivers.
	otherDrainer = 60 * time.Second
)

// barrier holds the events that must be acknowledged before a command continues.
type barrier struct {
	*endpoints
	// goal is the last seq of each session with pending events.
	goal map[session.ID]uint64
	// since excludes older attempts of another process.
	since time.Time
	// beside reports whether another process delivered at the last attempt.
	beside bool
	// asked is set after the server reported its events, so that goal includes events
	// that it lost.
	asked bool
}

// deliver delivers, or waits while another process does it, for at most wait. With a zero
// wait it returns at once when the server cannot be reached.
func (l *endpoints) deliver(ctx context.Context, wait time.Duration) error {
	b := &barrier{endpoints: l, since: l.Now()}
	var err error
	if b.goal, err = l.goal(ctx); err != nil {
		return err
	}
	tick := time.NewTicker(retryEvery)
	defer tick.Stop()
	begin, failed := b.since, false
	for first := true; ; first = false {
		err = b.attempt(ctx)
		locked := errors.Is(err, session.ErrLocked)
		// Waiting does not help.
		if err == nil || ctx.Err() != nil || !locked && !errors.Is(err, session.ErrOffline) {
			return err
		}
		// Once, because the other process may have tried a connection that had ended long
		// ago.
		again := b.beside && !locked && !failed
		if spent := l.Now().Sub(begin); spent >= wait && !(wait == 0 && (locked || again) && spent < otherDrainer) {
			break
		}
		if again {
			failed, b.since = true, l.Now()
		}
		if b.beside && (first || again || wait > 0) {
			// A process that cannot be asked tries again by itself.
			_ = l.AskDrainer()
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	if wait == 0 {
		return err
	}
	return &session.Error{Code: session.ErrTimeout, Message: fmt.Sprintf("not everything is delivered after %s; it is kept and delivered later", wait), Cause: err, Retryable: true, Next: session.Do(session.MoveSyncStatus, "")}
}

// goal returns the last seq of each session with pending events.
func (l *endpoints) goal(ctx context.Context) (map[session.ID]uint64, error) {
	lanes, err := l.outbox.Changed(ctx)
	goal := map[session.ID]uint64{}
	for _, lane := range lanes {
		goal[lane.Session] = lane.LastSeq
	}
	return goal, err
}

// attempt delivers while it holds the lock of the store. When another process holds the
// lock, it only looks at the progress and the errors of that process.
func (b *barrier) attempt(ctx context.Context) error {
	lock, err := b.LockDrainer("acode sync now")
	if b.beside = errors.Is(err, session.ErrLocked); b.beside {
		return b.watch(ctx, app.HolderOf(err))
	}
	if err != nil {
		return err
	}
	if err = b.syncer.Drain(ctx); err == nil {
		b.chores(ctx)
	}
	return errors.Join(err, lock.Release())
}

// watch returns nil when another process has delivered the goal.
func (b *barrier) watch(ctx context.Context, holder error) error {
	var left []session.Lane
	for id, seq := range b.goal {
		lane, err := b.store.Lane(ctx, id)
		if err != nil {
			return err
		}
		if lane.Acked < seq && !lane.WentOn() {
			left = append(left, lane)
		}
	}
	h, _, _, err := b.store.Sync(ctx)
	if err != nil {
		return err
	}
	// After since, the server has reported which events it has.
	if len(left) == 0 && h.LastUS >= b.since.UnixMicro() {
		if b.asked {
			return nil
		}
		// A server that lost events receives them again.
		if b.goal, err = b.endpoints.goal(ctx); err != nil || len(b.goal) == 0 {
			return err
		}
		b.asked = true
	}
	if trouble := b.syncer.Trouble(h, b.since, left); trouble != nil {
		return trouble
	}
	return &session.Error{Code: session.ErrLocked, Message: "another process delivers from this store and has not finished; everything is kept", Cause: holder,
		Next: session.Do(session.MoveSyncStatus, ""), Retryable: true}
}

// choresTime bounds the time for the server's work beyond delivery.
const choresTime = 5 * time.Second

// chores makes the server verify and project the delivered events. The next process that
// delivers continues with the rest.
func (l *endpoints) chores(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, choresTime)
	defer cancel()
	_ = l.syncer.Settle(ctx)
}

func (p *program) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the state of delivery; changes nothing, needs no network", Args: cobra.NoArgs,
		RunE: p.reading(p.printStatus),
	}
}

// printStatus prints the state of delivery and the sessions that continue under another
// id.
func (p *program) printStatus(ctx context.Context, s *app.Site) error {
	d, err := s.Delivery(ctx, "")
	if err != nil {
		return err
	}
	// There is no server yet, but a pause applies already.
	if d.State == "" {
		h, _, _, err := s.Store().Sync(ctx)
		if err != nil {
			return err
		}
		d.Paused = h.Paused
	}
	others, err := wentOn(ctx, s.Store())
	if err != nil {
		return err
	}
	return p.Page().SyncStatus(d, others)
}

// reading returns a command that only reads the store.
func (p *program) reading(f func(context.Context, *app.Site) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error { return p.with(cmd.Context(), app.OpenRead, f) }
}

// with opens the store and calls f.
func (p *program) with(ctx context.Context, open func(context.Context, app.Setup) (*app.Site, error), f func(context.Context, *app.Site) error) error {
	setup, err := p.Setup()
	if err != nil {
		return err
	}
	s, err := open(ctx, setup)
	if err != nil {
		return err
	}
	return errors.Join(f(ctx, s), s.Close())
}

func (p *program) pauseCommand(pause bool) *cobra.Command {
	c := &cobra.Command{Use: "unpause", Short: "Continue delivery", Args: cobra.NoArgs}
	if pause {
		c.Use, c.Short = "pause", "Deliver nothing until unpause; sessions continue and nothing is lost"
	}
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		return p.with(cmd.Context(), app.Open, func(ctx context.Context, s *app.Site) error {
			if err := s.Store().PauseSync(ctx, pause); err != nil {
				return err
			}
			return p.printStatus(ctx, s)
		})
	}
	return c
}
