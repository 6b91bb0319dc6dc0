package outbox

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/acode-dev/acode/session"
)

// Syncer delivers the pending events of a store to a server. Only one Syncer at a time
// may drain a store. Wake, Kick and Snapshot may be called at any time by any goroutine;
// Run, Drain, Settle and File one at a time.
type Syncer struct {
	opts Options
	// wake signals a local commit.
	wake chan struct{}
	// kick signals a reason to stop waiting.
	kick chan struct{}

	// The following fields belong to Run, Drain, Settle and File.

	conn connection
	// lanes holds the state of lanes beyond the state in the store.
	lanes   map[session.ID]*lane
	size    size
	backoff *schedule
	// ill is set if the last state was a fault, and no event was delivered since.
	ill bool
	// hurry makes the next look at lanes ignore their waits.
	hurry  bool
	beatAt time.Time
	chores chores
	// told is the last state that OnState was called with; empty if there was none.
	told session.SyncState
	// acks counts acknowledged deliveries.
	acks uint64
	// retryReason is why a session is tried again later.
	retryReason string

	mu   sync.Mutex
	snap Snapshot
}

// New makes a Syncer. It starts no work.
func New(o Options) *Syncer {
	o = o.withDefaults()
	s := &Syncer{
		opts:    o,
		wake:    make(chan struct{}, 1),
		kick:    make(chan struct{}, 1),
		lanes:   map[session.ID]*lane{},
		size:    newSize(),
		backoff: newSchedule(o.Rand),
	}
	s.snap.Heartbeat = o.Heartbeat
	s.snap.Heartbeat.BeatUS, s.snap.Heartbeat.AttemptUS, s.snap.Heartbeat.NextUS = 0, 0, 0
	s.snap.Lanes = map[session.SyncState]int{}
	o.Metrics.Watch(s.Snapshot)
	return s
}

// Wake signals that this process committed an event. It ends an idle wait and never
// shortens a backoff.
func (s *Syncer) Wake() { poke(s.wake) }

// Kick ends a backoff early: a person asked, the network changed, or the machine woke up.
// A wait that the server asked for continues.
func (s *Syncer) Kick() { poke(s.kick) }

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // there is a signal already
	}
}

// Run drains until ctx ends, and returns the error of ctx. No fault of server or store
// ends it.
func (s *Syncer) Run(ctx context.Context) error {
	s.lead(true)
	defer s.leave(ctx)
	// the first attempt may be slow, and pending events must not seem gone meanwhile
	s.refresh(ctx)
	for ctx.Err() == nil {
		s.turn(ctx)
	}
	return ctx.Err()
}

// turn is one pass of Run and the wait after it.
func (s *Syncer) turn(ctx context.Context) {
	if s.held(ctx) {
		s.stand(ctx, session.SyncPaused, heldReason, 0)
		s.rest(ctx, pollEvery, s.kick, nil)
		return
	}
	next, err := s.pass(ctx, nil)
	switch {
	case ctx.Err() != nil, errors.Is(err, errHeld): // the next turn sees the cause
	case err != nil:
		s.rest(ctx, s.failed(ctx, err), s.kick, nil)
	default:
		s.idle(ctx, next)
	}
}

// Drain delivers the events that are pending when it begins, and returns when all of them
// are acknowledged. A fault of the server ends it with ErrOffline, ErrRemoteAuth,
// ErrRemoteOld or ErrOtherRemote. While delivery is paused it returns ErrSyncOff. If
// lanes wait for a person, it returns ErrParked, ErrFenced or ErrForked after everything
// else is delivered.
func (s *Syncer) Drain(ctx context.Context) error {
	s.hurry = true
	s.lead(true)
	defer s.leave(ctx)
	g := &goals{}
	for {
		if s.held(ctx) {
			s.stand(ctx, session.SyncPaused, heldReason, 0)
			return errPaused()
		}
		next, err := s.pass(ctx, g)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errHeld):
		case err != nil:
			s.note(ctx, err, 0)
			return Envelope(err)
		case next == 0:
			s.settled(ctx, 0)
			return g.verdict(s.conn.older)
		default:
			s.rest(ctx, next, s.kick, nil)
		}
	}
}

const heldReason = "a person paused delivery"

// errPaused is the error for a person who requests a delivery meanwhile.
func errPaused() error {
	return &session.Error{Code: session.ErrSyncOff, Message: "delivery is paused and everything is kept", Next: session.Do(session.MoveSyncUnpause, "")}
}

// errHeld ends a round because a person paused delivery.
var errHeld = errors.New("delivery is paused")

// held reports whether a person paused delivery. It returns false if that cannot be read.
func (s *Syncer) held(ctx context.Context) bool {
	if s.opts.Paused == nil {
		return false
	}
	held, err := s.opts.Paused(ctx)
	return err == nil && held
}

// pass connects if needed and delivers the lanes that are ready. next is the wait of the
// first waiting lane; 0 if none waits.
func (s *Syncer) pass(ctx context.Context, g *goals) (next time.Duration, err error) {
	if err := s.connect(ctx); err != nil {
		return 0, err
	}
	return s.round(ctx, g)
}

// failed records a fault that stops the whole syncer, and returns how long to wait. It
// writes to no lane, so an outage counts no attempt (O2).
func (s *Syncer) failed(ctx context.Context, err error) time.Duration {
	delay := s.backoff.next
	if state, _, _ := stateOf(err); s.conn.up && state == session.SyncOffline {
		// All clients lose their connection to the server at the same moment: spread
		// their return.
		delay = func() time.Duration { return jitter(reconnectSpan, s.opts.Rand) }
	}
	d := delay()
	s.note(ctx, err, d)
	return d
}

// note ends the connection, and records the reason and the wait. The next attempt makes a
// new connection: after a failover or a corrected name the address leads to another
// server.
func (s *Syncer) note(ctx context.Context, err error, wait time.Duration) {
	state, class, reason := stateOf(err)
	s.conn.up = false
	s.opts.Remote.Reset()
	s.ill = true
	for _, r := range s.lanes {
		// an outage may be long
		r.ahead = nil
	}
	s.opts.Metrics.failed(class)
	s.stand(ctx, state, reason, wait)
}
