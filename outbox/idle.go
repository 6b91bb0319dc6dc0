package outbox

import (
	"context"
	"errors"
	"time"

	"github.com/acode-dev/acode/session"
)

const (
	choreRows = 2000
	// how soon work that others left is taken up
	choreEvery = 10 * time.Minute
	// how often at most, however many small deliveries there are
	choreGap = 5 * time.Second

	// maxPieces bounds one run of chores against a server that always has more.
	maxPieces = 2000

	// maxMarks bounds how many lanes are asked for their verified mark after
	// verification.
	maxMarks = 1000
)

// chores is the server's work that an idle syncer asks for.
type chores struct {
	due bool
	// of the last run
	at time.Time
	// of it
	pieces int
	// delivered since their verified mark was read
	lanes map[session.ID]session.Lane
	// to be done: recompute hashes
	verify bool
	// to be done: fill the typed tables
	project bool
}

// idle is the time between passes that had nothing left: first the server's chores, a
// piece at a time so that a commit is delivered soon, then a wait.
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

// Settle does what an idle syncer does for the server after delivery: hashes recomputed,
// typed tables filled, verified marks read. It returns the first fault.
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

// chore does one piece of work; more reports whether there is another.
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

// piece runs one bounded piece. Only a server that is away stops delivery: after any
// other fault the chore is left until the next time.
func (s *Syncer) piece(ctx context.Context, f func(context.Context, int) (bool, error)) (bool, error) {
	more, err := call(ctx, s.opts.Timeout, func(ctx context.Context) (bool, error) { return f(ctx, choreRows) })
	return more && err == nil, s.choreFault(err)
}

// choreFault counts a fault that is the chore's own, and gives any other back.
func (s *Syncer) choreFault(err error) error {
	var fault *session.SyncFault
	if !errors.As(err, &fault) || fault.Class == session.FaultOffline {
		return err
	}
	s.opts.Metrics.erred(fault.Class)
	return nil
}

// readVerified asks for the mark of a lane that was verified since it was delivered.
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

// owe notes that the server has something new to verify and to project.
func (c *chores) owe(l session.Lane) {
	c.due = true
	if c.lanes == nil || len(c.lanes) >= maxMarks {
		c.lanes = map[session.ID]session.Lane{}
	}
	c.lanes[l.Session] = l
}

// keep brings a lane whose verified mark is owed up to date: what happened to it since it
// was delivered, that its next row is parked for one, must not be undone with the mark.
func (c *chores) keep(l session.Lane) {
	if _, owed := c.lanes[l.Session]; owed {
		c.lanes[l.Session] = l
	}
}
