package outbox

import (
	"context"
	"slices"
	"time"

	"github.com/acode-dev/acode/session"
)

// Snapshot is how a syncer stands. It is a copy.
type Snapshot struct {
	Heartbeat session.Heartbeat
	Backlog   session.Backlog // as of the last heartbeat
	Bytes     int64           // of payload that waits; negative: not known
	Lanes     map[session.SyncState]int

	Leader   bool // this process drains
	Up       bool // the server answered the last call
	Hello    session.Hello
	Unknown  int64         // events of this device that the server has and the store does not
	Total    int           // lanes, as of the last connection
	InFlight int           // deliveries
	Backoff  time.Duration // of the wait that goes on; 0: none does
	Trip     time.Duration // estimate of the round trip; 0: not measured
	Enqueued uint64        // events that the store has for delivery, acknowledged or not
}

// State is the worst of connection and lanes: what a person has to know first.
func (n Snapshot) State() session.SyncState {
	worst := n.Heartbeat.State
	for state, count := range n.Lanes {
		if count > 0 && severity(state) > severity(worst) {
			worst = state
		}
	}
	if worst == "" {
		return session.SyncDisabled
	}
	return worst
}

func severity(state session.SyncState) int { return slices.Index(session.SyncStates, state) }

// Look makes a snapshot of what a store keeps, for those who only look.
func Look(h session.Heartbeat, lanes []session.Lane, b session.Backlog) Snapshot {
	n := Snapshot{Heartbeat: h, Backlog: b, Bytes: -1, Lanes: map[session.SyncState]int{}, Total: len(lanes)}
	if b.Events == 0 {
		n.Bytes = 0
	}
	for _, l := range lanes {
		n.Lanes[laneState(l)]++
		n.Enqueued += l.Acked + l.Pending()
	}
	n.Up = h.State == session.SyncSynced || h.State == session.SyncPending
	return n
}

func laneState(l session.Lane) session.SyncState {
	switch {
	case l.State != "" && l.State != session.SyncSynced:
		return l.State
	case l.Pending() > 0:
		return session.SyncPending
	}
	return session.SyncSynced
}

// Snapshot gives a copy of how the syncer stands.
func (s *Syncer) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.snap
	n.Lanes = make(map[session.SyncState]int, len(s.snap.Lanes)+1)
	changed := 0
	for state, count := range s.snap.Lanes {
		n.Lanes[state] = count
		changed += count
	}
	n.Lanes[session.SyncSynced] += max(0, n.Total-changed)
	return n
}

func (s *Syncer) update(f func(n *Snapshot)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.snap)
}

func (s *Syncer) lead(yes bool) { s.update(func(n *Snapshot) { n.Leader = yes }) }

func (s *Syncer) flying(count int) { s.update(func(n *Snapshot) { n.InFlight = count }) }

// attempted notes that the server is about to be called.
func (s *Syncer) attempted() {
	us := s.wallUS()
	s.update(func(n *Snapshot) { n.Heartbeat.AttemptUS, n.Heartbeat.NextUS, n.Backoff = us, 0, 0 })
}

// counted notes how many lanes there are, and what they have acknowledged, by whomever.
func (s *Syncer) counted(t Totals) {
	s.summed, s.acked = true, 0
	for _, n := range t.Acked {
		s.acked += n
	}
	s.update(func(n *Snapshot) { n.Total = t.Lanes })
}

// greeted notes a server that answers.
func (s *Syncer) greeted(h session.Hello) {
	s.link.up = true
	s.update(func(n *Snapshot) {
		n.Up, n.Hello, n.Unknown = true, h, max(0, s.link.surplus)
		n.Heartbeat.Remote = h.Remote.String()
	})
}

// noteLanes counts the lanes that may have something to deliver, and those that need a person
// although they have nothing.
func (s *Syncer) noteLanes(changed []session.Lane) {
	counts := map[session.SyncState]int{}
	pending := map[session.ID]bool{}
	for _, l := range changed {
		counts[laneState(l)]++
		pending[l.Session] = true
	}
	for _, l := range s.link.older {
		if !pending[l.Session] {
			counts[laneState(l)]++
		}
	}
	s.update(func(n *Snapshot) { n.Lanes = counts })
}

// acknowledged notes a delivery that the server answered for.
func (s *Syncer) acknowledged(ctx context.Context, res result, now session.Lane) {
	if now.Acked <= res.lane.Acked {
		return
	}
	s.acks++
	s.backoff.reset()
	s.mean.add(len(res.d.Events), res.bytes)
	s.chores.owe(now)
	at := s.opts.Now()
	s.succeeded(at)
	s.update(func(n *Snapshot) { n.Trip = s.size.trip })
	if s.ill {
		s.works(ctx)
	}
}

// works notes that delivery makes progress and is not at its end.
func (s *Syncer) works(ctx context.Context) {
	s.ill = false
	if s.snap.Heartbeat.State != session.SyncPending {
		s.stand(ctx, session.SyncPending, "", 0)
	}
}

// settled notes a pass that left nothing that could be delivered.
func (s *Syncer) settled(ctx context.Context, next time.Duration) {
	s.ill = false
	s.backoff.reset()
	n := s.Snapshot()
	if n.Backlog.Events > 0 || len(n.Lanes) > 1 { // one is the state synced
		s.refresh(ctx)
		n = s.Snapshot()
	}
	state, reason := session.SyncSynced, ""
	switch {
	case n.Lanes[session.SyncRetrying] > 0:
		state, reason = session.SyncRetrying, "some sessions are tried again later"
	case n.Backlog.Events > 0:
		state = session.SyncPending
	default:
		s.succeeded(s.link.at)
	}
	s.stand(ctx, state, reason, next)
}

// succeeded notes when the server last acknowledged, or said that there is nothing to.
func (s *Syncer) succeeded(at time.Time) {
	us := at.UnixMicro()
	s.update(func(n *Snapshot) { n.Heartbeat.LastUS = max(n.Heartbeat.LastUS, us) })
}

// stand notes the state of the connection, with its reason and the wait that follows.
func (s *Syncer) stand(ctx context.Context, state session.SyncState, reason string, wait time.Duration) {
	us := s.wallUS()
	var turned bool
	s.update(func(n *Snapshot) {
		h := &n.Heartbeat
		turned = h.State != state
		if turned {
			h.SinceUS = us
		}
		h.State, h.Reason, h.Paused = state, reason, state == session.SyncPaused
		h.NextUS, n.Backoff = 0, wait
		if wait > 0 {
			h.NextUS = us + wait.Microseconds()
		}
		n.Up = s.link.up
	})
	if turned || wait > 0 {
		s.refresh(ctx) // a beat without would put off the next one that has it
		s.beat(ctx)
	}
	s.beatWhenDue(ctx)
	if s.told != state && s.opts.OnState != nil {
		s.opts.OnState(s.Snapshot().Heartbeat)
	}
	s.told = state
}

// leave ends the right to drain with a heartbeat that says how things stand now, however it
// came to an end: whoever looks next has nothing else. Nobody tries again after it.
func (s *Syncer) leave(ctx context.Context) {
	s.update(func(n *Snapshot) {
		n.Leader, n.InFlight, n.Backoff, n.Heartbeat.NextUS = false, 0, 0, 0
		n.Up = s.link.up
	})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
	defer cancel()
	s.refresh(ctx)
	s.beat(ctx)
}

// beatWhenDue refreshes counts and heartbeat where they are old.
func (s *Syncer) beatWhenDue(ctx context.Context) {
	if s.old(s.beatAt, beatEvery) {
		s.refresh(ctx)
		s.beat(ctx)
	}
}

// beat leaves the heartbeat in the store. That informs and decides nothing, so a failure of it
// is left to the next call that matters.
func (s *Syncer) beat(ctx context.Context) {
	s.beatAt = s.wall()
	var h session.Heartbeat
	s.update(func(n *Snapshot) {
		n.Heartbeat.BeatUS = s.beatAt.UnixMicro()
		h = n.Heartbeat
	})
	_ = s.opts.Source.Beat(ctx, h)
}

// refresh reads what waits, so that its age rises in every fault (O5).
func (s *Syncer) refresh(ctx context.Context) {
	b, err := s.opts.Source.Backlog(ctx)
	if err != nil {
		return // the numbers of before stay
	}
	var bytes int64
	if z, ok := s.opts.Source.(Sizer); ok {
		if exact, err := z.PendingBytes(ctx); err == nil {
			bytes = exact
		}
	} else {
		s.sample(ctx, b)
		bytes = s.mean.of(b.Events)
	}
	enqueued := s.enqueued(ctx, b)
	s.update(func(n *Snapshot) { n.Backlog, n.Bytes, n.Enqueued = b, bytes, max(n.Enqueued, enqueued) })
}

// enqueued counts the events of the store. It never starts from less than all of them, which
// would look like many commits at once as soon as a server is there.
func (s *Syncer) enqueued(ctx context.Context, b session.Backlog) uint64 {
	if !s.summed {
		t, err := s.totals(ctx)
		if err != nil {
			return 0
		}
		s.counted(t)
	}
	return s.acked + b.Events
}

const (
	sampleEvents = 200
	sampleBytes  = 256 << 10
)

// sample reads a few pending events where nothing was read yet, so that what waits can be
// estimated in an outage that was there from the start.
func (s *Syncer) sample(ctx context.Context, b session.Backlog) {
	if s.mean.events > 0 || b.Events == 0 {
		return
	}
	changed, err := s.opts.Source.Changed(ctx)
	for _, l := range changed {
		if err != nil || l.Pending() == 0 {
			continue
		}
		var d session.Delivery
		if d, err = s.opts.Source.Delivery(ctx, l.Session, l.Acked, sampleEvents, sampleBytes); err == nil {
			s.mean.add(len(d.Events), payloads(d))
		}
		return // an estimate is not worth a second try
	}
}
