package outbox

import (
	"context"
	"errors"
	"time"

	"github.com/acode-dev/acode/session"
)

const (
	choreRows = 2000
	// choreEvery is how soon the syncer takes up chores that other processes left.
	choreEvery = 10 * time.Minute
	// choreGap is the least time between two runs of chores, even after many small
	// deliveries.
	choreGap = 5 * time.Second

	// maxPieces limits one run of chores, in case a server always has more.
	maxPieces = 2000

	// maxMarks limits how many lanes are asked for their verified mark after
	// verification.
	maxMarks = 1000
)

// chores are the server's tasks that an idle syncer requests.
type chores struct {
	due bool
	// at is the time of the last run.
	at time.Time
	// pieces counts the pieces of the last run.
	pieces int
	// lanes were delivered since their verified mark was read.
	lanes map[session.ID]session.Lane
	// verify is set while hashes must be recomputed.
	verify bool
	// project is set while the typed tables must be filled.
	project bool
}

// idle is the time between passes after everything was delivered. It first does the
// server's chores, a piece at a time so that a commit is delivered soon, and then waits.
func (s *Syncer) idle(ctx context.Context, next time.Duration) {
	s.settled(ctx, next)
	if next == 0 {
		more, err := s.chore(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			s.rest(ctx, s.failed(ctx, err), s.kick, nil)
			return
		case more:
			return
		}
	}
	d := pollEvery
	if next > 0 {
		d = min(d, next)
	}
	s.rest(ctx, d, s.kick, s.wake)
}

// Settle does the chores of an idle syncer after delivery: it recomputes hashes, fills
// typed tables and reads verified marks. It returns the first fault.
func (s *Syncer) Settle(ctx context.Context) error {
	defer s.leave(ctx)
	if err := s.connect(ctx); err != nil {
		if ctx.Err() == nil {
			s.note(ctx, err, 0)
		}
		return Envelope(err)
	}
	s.chores.due, s.chores.at = true, time.Time{}
	for {
		more, err := s.chore(ctx)
		if err != nil || !more {
			return Envelope(err)
		}
	}
}

// chore does one piece of a chore; more reports whether there is another.
func (s *Syncer) chore(ctx context.Context) (more bool, err error) {
	c := &s.chores
	if c.due && s.old(c.at, choreGap) || s.old(c.at, choreEvery) {
		c.due, c.at, c.pieces, c.verify, c.project = false, s.opts.Now(), 0, true, true
	}
	if c.pieces++; c.pieces > maxPieces {
		return false, nil
	}
	switch {
	case c.verify:
		c.verify, err = s.piece(ctx, s.opts.Remote.Verify)
		return true, err
	case c.project:
		c.project, err = s.piece(ctx, s.opts.Remote.Project)
		return true, err
	}
	for id, l := range c.lanes {
		delete(c.lanes, id)
		return true, s.readVerified(ctx, l)
	}
	return false, nil
}

// piece runs one bounded piece. Only an unreachable server stops delivery: after any
// other fault the chore waits for the next run.
func (s *Syncer) piece(ctx context.Context, f func(context.Context, int) (bool, error)) (bool, error) {
	more, err := call(ctx, s.opts.Timeout, func(ctx context.Context) (bool, error) { return f(ctx, choreRows) })
	return more && err == nil, s.choreFault(err)
}

// choreFault counts a fault that concerns only the chore, and returns any other fault.
func (s *Syncer) choreFault(err error) error {
	var fault *session.SyncFault
	if !errors.As(err, &fault) || fault.Class == session.FaultOffline {
		return err
	}
	s.opts.Metrics.erred(fault.Class)
	return nil
}

// readVerified asks for the mark of a lane, in case it was verified since it was
// delivered.
func (s *Syncer) readVerified(ctx context.Context, l session.Lane) error {
	d := session.Delivery{Session: l.Session, Device: s.opts.Source.Device()}
	m, err := call(ctx, s.opts.Timeout, func(ctx context.Context) (session.Mark, error) { return s.opts.Remote.Deliver(ctx, d) })
	if err = s.choreFault(err); err != nil || m.Verdict != session.DeliveryTaken || m.Seq != l.Acked || m.Verified == l.Verified {
		return err
	}
	now := l
	now.Verified = m.Verified
	return s.save(ctx, l, now)
}

// owe records that the server has new events to verify and to project.
func (c *chores) owe(l session.Lane) {
	c.due = true
	if c.lanes == nil || len(c.lanes) >= maxMarks {
		c.lanes = map[session.ID]session.Lane{}
	}
	c.lanes[l.Session] = l
}

// keep updates a lane whose verified mark is still to be read. Otherwise the mark would
// undo a later change of the lane, such as a parked row.
func (c *chores) keep(l session.Lane) {
	if _, owed := c.lanes[l.Session]; owed {
		c.lanes[l.Session] = l
	}
}
