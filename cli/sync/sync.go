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
	return cli.Group("sync", "Deliver sessions to the server, or say how that stands",
		p.nowCommand(), p.statusCommand(), p.pauseCommand(true), p.pauseCommand(false), p.verifyCommand(), p.parkedCommand(), p.forkOffCommand(), p.rebindCommand(), p.drainCommand())
}

func (p *program) nowCommand() *cobra.Command {
	var wait time.Duration
	c := &cobra.Command{
		Use: "now", Short: "Deliver what is pending and say when the server has it", Args: cli.Following("wait", cobra.NoArgs),
		Long: "Deliver what is pending. When it returns, everything that was committed before the call\nis on the server. Another process that delivers already is asked to try at once, and waited for.",
		RunE: func(cmd *cobra.Command, _ []string) error { return p.now(cmd.Context(), wait) },
	}
	c.Flags().DurationVar(&wait, "wait", 0, "go on trying for this long when the server is away; exit 11 after it")
	c.Flags().Lookup("wait").NoOptDefVal = "60s"
	return c
}

// now is a barrier: it returns when what was committed before it is acknowledged.
func (p *program) now(ctx context.Context, wait time.Duration) error {
	return p.linked(ctx, "sync now", outbox.Options{}, func(l *link) error {
		if err := l.deliver(ctx, wait); err != nil {
			return err
		}
		return p.printStatus(ctx, l.Site)
	})
}

const (
	// retryEvery is how soon a barrier tries again, and looks whether another drainer got
	// there.
	retryEvery = 500 * time.Millisecond

	// otherDrainer is how long a barrier without --wait gives a process that delivers
	// already.
	otherDrainer = 60 * time.Second
)

// barrier is what must be acknowledged before a command goes on.
type barrier struct {
	*link
	// the last seq of each session with something pending
	goal map[session.ID]uint64
	// what another process tried before that says nothing
	since time.Time
	// another process delivers, as of the last attempt
	beside bool
	// the server was, and what it lost is a goal too
	asked bool
}

// deliver drains, or watches another process do it, for as long as wait allows. Without
// wait a server that is away ends it at once.
func (l *link) deliver(ctx context.Context, wait time.Duration) error {
	b := &barrier{link: l, since: l.Now()}
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
		// waiting does not help
		if err == nil || ctx.Err() != nil || !locked && !errors.Is(err, session.ErrOffline) {
			return err
		}
		// once: it may have tried over a connection that had ended long ago
		again := b.beside && !locked && !failed
		if spent := l.Now().Sub(begin); spent >= wait && !(wait == 0 && (locked || again) && spent < otherDrainer) {
			break
		}
		if again {
			failed, b.since = true, l.Now()
		}
		if b.beside && (first || again || wait > 0) {
			// one that cannot be asked tries again by itself
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

// goal is the last seq of each session with something pending.
func (l *link) goal(ctx context.Context) (map[session.ID]uint64, error) {
	lanes, err := l.outbox.Changed(ctx)
	goal := map[session.ID]uint64{}
	for _, lane := range lanes {
		goal[lane.Session] = lane.LastSeq
	}
	return goal, err
}

// attempt drains as the store's one drainer. While another process is that, it only looks
// how far that one got, and what hinders it.
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

// watch looks how far another process got.
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
	// the server said since then what it has
	if len(left) == 0 && h.LastUS >= b.since.UnixMicro() {
		if b.asked {
			return nil
		}
		// one that lost events is sent them again
		if b.goal, err = b.link.goal(ctx); err != nil || len(b.goal) == 0 {
			return err
		}
		b.asked = true
	}
	if trouble := b.syncer.Trouble(h, b.since, left); trouble != nil {
		return trouble
	}
	return &session.Error{Code: session.ErrLocked, Message: "another process delivers from this store and has not come to an end; everything is kept", Cause: holder,
		Next: session.Do(session.MoveSyncStatus, ""), Retryable: true}
}

// choresTime bounds what a barrier does for the server beyond delivery.
const choresTime = 5 * time.Second

// chores has the server verify and project what arrived. What is left of it is taken up
// by whoever drains next.
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

// printStatus says how delivery stands, with the sessions that went on as others.
func (p *program) printStatus(ctx context.Context, s *app.Site) error {
	d, err := s.Delivery(ctx, "")
	if err != nil {
		return err
	}
	// no server yet; a pause holds all the same
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

// reading wraps a command that only looks.
func (p *program) reading(f func(context.Context, *app.Site) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error { return p.with(cmd.Context(), app.OpenRead, f) }
}

// with opens the store for f.
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
	c := &cobra.Command{Use: "unpause", Short: "Let delivery go on", Args: cobra.NoArgs}
	if pause {
		c.Use, c.Short = "pause", "Deliver nothing until unpause; sessions go on and nothing is lost"
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
