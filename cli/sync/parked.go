package syncer

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/cli"
	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

func (p *program) parkedCommand() *cobra.Command {
	return cli.Group("parked", "Handle events that the server refused", p.parkedList(), p.parkedShow(), p.parkedRetry(), p.parkedDrop())
}

func (p *program) parkedList() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List events that the server refused, with its reasons", Args: cobra.NoArgs,
		RunE: p.reading(p.printParked)}
}

func (p *program) printParked(ctx context.Context, site *app.Site) error {
	_, lanes, _, err := site.Store().Sync(ctx)
	if err != nil {
		return err
	}
	rows := []terminal.LaneView{}
	for _, l := range lanes {
		if l.Parked == 0 {
			continue
		}
		s, err := site.Store().View(ctx, l.Session)
		if err != nil {
			return err
		}
		rows = append(rows, terminal.LaneView{Short: s.Short, State: l.State, Seq: l.Parked, Reason: l.Reason})
	}
	if p.JSON {
		return terminal.JSON(p.Out, map[string]any{"v": 1, "parked": rows})
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(p.Out, "Nothing is parked.")
		return err
	}
	for _, r := range rows {
		if _, err := fmt.Fprintln(p.Out, r); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) parkedShow() *cobra.Command {
	return &cobra.Command{Use: "show ID", Short: "Print the event of a session that the server refused", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.with(cmd.Context(), app.OpenRead, func(ctx context.Context, s *app.Site) error {
				l, err := parkedLane(ctx, s, args[0])
				if err != nil {
					return err
				}
				events, err := s.Store().Events(ctx, l.Session, l.Parked-1, 1)
				if err != nil {
					return err
				}
				for _, e := range events {
					err = errors.Join(err, terminal.JSON(p.Out, terminal.NewEventJSON(e)))
				}
				return err
			})
		}}
}

// parkedLane returns the lane of the session that ref names. It returns ErrUsage when no
// event of it is parked.
func parkedLane(ctx context.Context, s *app.Site, ref string) (session.Lane, error) {
	id, err := s.Find(ctx, ref)
	if err != nil {
		return session.Lane{}, err
	}
	l, err := s.Store().Lane(ctx, id)
	if err == nil && l.Parked == 0 {
		err = &session.Error{Code: session.ErrUsage, Message: "nothing of this session is parked; nothing was changed", Next: session.Do(session.MoveSyncParked, "")}
	}
	return l, err
}

func (p *program) parkedRetry() *cobra.Command {
	return &cobra.Command{Use: "retry ID", Short: "Try again to deliver the event that was refused", Args: cobra.ExactArgs(1),
		Long: "Try again to deliver the event that was refused, after its cause was fixed on the server.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.decide(cmd.Context(), args[0], func(l session.Lane) (session.Lane, outbox.Options) {
				l.Parked, l.Attempts, l.NextUS, l.State, l.Reason = 0, 0, 0, session.SyncPending, ""
				return l, outbox.Options{}
			})
		}}
}

func (p *program) parkedDrop() *cobra.Command {
	var confirm string
	c := &cobra.Command{Use: "drop ID", Short: "Deliver a stand-in for the refused event and continue", Args: cobra.ExactArgs(1),
		Long: "Deliver a stand-in for the event that the server refused. It keeps the event's place and hash\nand says why the event is missing. The event itself stays in the store. Type the event's id to\nconfirm: the short id of the session, a slash and its number.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.decide(cmd.Context(), args[0], func(l session.Lane) (session.Lane, outbox.Options) {
				return l, outbox.Options{Dropped: map[session.ID]uint64{l.Session: l.Parked}}
			}, confirm)
		}}
	c.Flags().StringVar(&confirm, "confirm", "", "`id` of the event, instead of typing it")
	return c
}

// decide saves the lane that how returns and delivers. When confirm is given, a person
// must first type the id of the event.
func (p *program) decide(ctx context.Context, ref string, how func(session.Lane) (session.Lane, outbox.Options), confirm ...string) error {
	var lane session.Lane
	err := p.with(ctx, app.OpenRead, func(ctx context.Context, s *app.Site) (err error) {
		if lane, err = parkedLane(ctx, s, ref); err != nil || len(confirm) == 0 {
			return err
		}
		sess, err := s.Store().View(ctx, lane.Session)
		if err != nil {
			return err
		}
		return p.Confirm(sess.Short+"/"+strconv.FormatUint(lane.Parked, 10), confirm[0])
	})
	if err != nil {
		return err
	}
	lane, options := how(lane)
	return p.withEndpoints(ctx, "sync parked", options, func(l *endpoints) error {
		if err := l.alone(ctx, func() error {
			if err := l.outbox.SaveLane(ctx, lane); err != nil {
				return err
			}
			return l.syncer.Drain(ctx)
		}); err != nil {
			return err
		}
		return p.printStatus(ctx, l.Site)
	})
}

// alone runs f while no other process delivers. It returns ErrLocked when one does.
func (l *endpoints) alone(ctx context.Context, f func() error) error {
	lock, err := l.LockDrainer("acode sync")
	if errors.Is(err, session.ErrLocked) {
		return &session.Error{Code: session.ErrLocked, Message: "another process delivers from this store; nothing was changed", Cause: app.HolderOf(err),
			Next: session.Words("stop the syncer for this, or try again when the run has ended"), Retryable: true}
	}
	if err != nil {
		return err
	}
	return errors.Join(f(), lock.Release())
}
