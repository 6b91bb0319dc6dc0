package outbox

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/acode-dev/acode/session"
)

// Syncer delivers what a store has pending to a server. One at a time drains a store.
// Wake, Kick and Snapshot may be called by anybody at any time; Run, Drain, Settle and
// File one at a time.
type Syncer struct {
	opts Options
	// a local commit
	wake chan struct{}
	// a reason not to wait any longer
	kick chan struct{}

	// What follows belongs to Run, Drain, Settle and File.

	link link
	// what is known about lanes beyond what the store keeps
	lanes   map[session.ID]*lane
	size    size
	backoff *schedule
	// the last state was a fault, and nothing was delivered since
	ill bool
	// the next look at lanes does not mind their waits
	hurry  bool
	beatAt time.Time
	chores chores
	// by OnState; empty: nothing yet
	told session.SyncState
	// deliveries that were acknowledged
	acks uint64
	// why a session is tried again later
	again string

	mu   sync.Mutex
	snap Snapshot
}

// New makes a Syncer, which does nothing yet.
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

// Wake says that this process committed something. It ends an idle wait and never
// shortens a backoff.
func (s *Syncer) Wake() { poke(s.wake) }

// Kick cuts a backoff short: somebody asked, the network changed, or the machine woke up.
// What the server asked for is still waited for.
func (s *Syncer) Kick() { poke(s.kick) }

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is poked already
	}
}

// Run drains until ctx ends, whose error it returns. No fault of server or store ends it.
func (s *Syncer) Run(ctx context.Context) error {
	s.lead(true)
	defer s.leave(ctx)
	s.refresh(ctx) // the first attempt may take its time, and what waits must not seem gone meanwhile
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
	case ctx.Err() != nil, errors.Is(err, errHeld): // the next turn sees why
	case err != nil:
		s.rest(ctx, s.failed(ctx, err), s.kick, nil)
	default:
		s.idle(ctx, next)
	}
}

// Drain delivers what is pending when it begins, and returns when all of it is
// acknowledged. A fault of the server ends it with its Code: ErrOffline, ErrRemoteAuth,
// ErrRemoteOld or ErrOtherRemote; while delivery is paused it returns ErrSyncOff. Lanes
// that wait for a person end it with ErrParked, ErrFenced or ErrForked after everything
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
			return g.verdict(s.link.older)
		default:
			s.rest(ctx, next, s.kick, nil)
		}
	}
}

const heldReason = "a person paused delivery"

// errPaused is what a person sees who asks for a delivery meanwhile.
func errPaused() error {
	return &session.Error{Code: session.ErrSyncOff, Message: "delivery is paused and everything is kept", Next: session.Do(session.MoveSyncUnpause, "")}
}

// errHeld ends a round because a person paused delivery.
var errHeld = errors.New("delivery is paused")

// held reports whether a person paused delivery. Where that cannot be read, delivery goes
// on.
func (s *Syncer) held(ctx context.Context) bool {
	if s.opts.Paused == nil {
		return false
	}
	held, err := s.opts.Paused(ctx)
	return err == nil && held
}

// pass connects where that is needed and delivers what is ready. next is how long the
// first lane that waits has to wait; 0: none does.
func (s *Syncer) pass(ctx context.Context, g *goals) (next time.Duration, err error) {
	if err := s.connect(ctx); err != nil {
		return 0, err
	}
	return s.round(ctx, g)
}

// failed notes a fault that stops the whole syncer, and gives how long to wait. An outage
// writes to no lane: it counts no attempt (O2).
func (s *Syncer) failed(ctx context.Context, err error) time.Duration {
	delay := s.backoff.next
	if state, _, _ := stateOf(err); s.link.up && state == session.SyncOffline {
		// Whoever had a connection to the server comes back at the same moment: spread
		// them.
		delay = func() time.Duration { return jitter(reconnectSpan, s.opts.Rand) }
	}
	d := delay()
	s.note(ctx, err, d)
	return d
}

// note leaves the connection, and says why and for how long. The next attempt makes a new
// one: after a failover, or where somebody mended a name, the address leads elsewhere,
// and one that stands would not.
func (s *Syncer) note(ctx context.Context, err error, wait time.Duration) {
	state, class, reason := stateOf(err)
	s.link.up = false
	s.opts.Remote.Reset()
	s.ill = true
	for _, r := range s.lanes {
		r.ahead = nil // an outage may be long
	}
	s.opts.Metrics.failed(class)
	s.stand(ctx, state, reason, wait)
}
