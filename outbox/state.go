package outbox

import (
	"cmp"
	"context"
	"time"

	"github.com/acode-dev/acode/session"
)

// Snapshot is the state of a syncer. It is a copy.
type Snapshot struct {
	Heartbeat session.Heartbeat
	// Backlog holds the pending events at the last heartbeat.
	Backlog session.Backlog
	Lanes   map[session.SyncState]int

	// Leader is set if this process drains.
	Leader bool
	// Up is set if the server answered the last call.
	Up bool
	// Unknown is the number of events of this device that the server has and the store
	// does not.
	Unknown int64
	// Total is the number of lanes at the last heartbeat.
	Total int
	// Backoff is the length of the current wait; 0 if there is none.
	Backoff time.Duration
	// Enqueued is the number of the store's events for delivery, acknowledged or not.
	Enqueued uint64
	// Late is set if the oldest pending event is older than sync.late_after.
	Late bool
}

// State returns the worst state of the connection and the lanes.
func (n Snapshot) State() session.SyncState {
	var lanes []session.SyncState
	for state, count := range n.Lanes {
		if count > 0 {
			lanes = append(lanes, state)
		}
	}
	return session.WorstSync(n.Heartbeat, n.Backlog.Events, lanes...)
}

// Look makes a snapshot from the store, for processes that do not drain. lanes are the
// lanes that are not synced, total is the number of all lanes, and acked the acknowledged
// events by Remote.
func Look(h session.Heartbeat, lanes []session.Lane, b session.Backlog, total int, acked map[string]uint64) Snapshot {
	n := Snapshot{Heartbeat: h, Backlog: b, Lanes: map[session.SyncState]int{}, Total: total, Enqueued: enqueued(acked, b)}
	for _, l := range lanes {
		n.Lanes[laneState(l)]++
	}
	n.Lanes[session.SyncSynced] += max(0, total-len(lanes))
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

// Snapshot returns a copy of the syncer's state.
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

// attempted records that the server is about to be called.
func (s *Syncer) attempted() {
	us := s.wallUS()
	s.update(func(n *Snapshot) { n.Heartbeat.AttemptUS, n.Heartbeat.NextUS, n.Backoff = us, 0, 0 })
}

// greeted records that the server answers.
func (s *Syncer) greeted(h session.Hello) {
	s.conn.up = true
	s.update(func(n *Snapshot) {
		n.Up, n.Unknown = true, max(0, s.conn.surplus)
		n.Heartbeat.Remote = h.Remote.String()
	})
}

// noteLanes counts the lanes that may have events to deliver, and those that need a
// person although they have none.
func (s *Syncer) noteLanes(changed []session.Lane) {
	counts := map[session.SyncState]int{}
	pending := map[session.ID]bool{}
	s.retryReason = ""
	for _, l := range changed {
		counts[laneState(l)]++
		if l.State == session.SyncRetrying {
			s.retryReason = cmp.Or(s.retryReason, l.Reason)
		}
		pending[l.Session] = true
	}
	for _, l := range s.conn.older {
		if !pending[l.Session] {
			counts[laneState(l)]++
		}
	}
	s.update(func(n *Snapshot) { n.Lanes = counts })
}

// acknowledged records a delivery that raised the mark.
func (s *Syncer) acknowledged(ctx context.Context, res result, now session.Lane) {
	if now.Acked <= res.lane.Acked {
		return
	}
	s.acks++
	s.backoff.reset()
	s.chores.owe(now)
	s.succeeded(s.opts.Now())
	if s.ill {
		s.works(ctx)
	}
}

// works records that delivery makes progress and is not at its end.
func (s *Syncer) works(ctx context.Context) {
	s.ill = false
	if s.snap.Heartbeat.State != session.SyncPending {
		s.stand(ctx, session.SyncPending, "", 0)
	}
}

// settled records a pass after which no event can be delivered now.
func (s *Syncer) settled(ctx context.Context, next time.Duration) {
	s.ill = false
	s.backoff.reset()
	n := s.Snapshot()
	// the first state is synced
	if n.Backlog.Events > 0 || len(n.Lanes) > 1 {
		s.refresh(ctx)
		n = s.Snapshot()
	}
	state, reason := session.SyncSynced, ""
	switch {
	case n.Lanes[session.SyncRetrying] > 0:
		state, reason = session.SyncRetrying, "some sessions are tried again later: "+s.retryReason
	case n.Backlog.Events > 0:
		state = session.SyncPending
	default:
		s.succeeded(s.conn.at)
	}
	s.stand(ctx, state, reason, next)
}

// succeeded records when the server last acknowledged, or had no pending events.
func (s *Syncer) succeeded(at time.Time) {
	us := at.UnixMicro()
	s.update(func(n *Snapshot) { n.Heartbeat.LastUS = max(n.Heartbeat.LastUS, us) })
}
