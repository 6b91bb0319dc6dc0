package outbox

import (
	"context"
	"time"

	"github.com/acode-dev/acode/session"
)

// stand records the state of the connection, with its reason and the wait that follows.
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
		n.Up = s.conn.up
	})
	if turned || wait > 0 {
		s.beat(ctx)
	}
	s.beatWhenDue(ctx)
	if s.told != state && s.opts.OnState != nil {
		s.opts.OnState(s.Snapshot().Heartbeat)
	}
	s.told = state
}

// leave ends the right to drain. Its heartbeat holds the current state, because no
// process tries again and a reader has no other source. A syncer that ended before it
// recorded a state writes no heartbeat: the heartbeat in the store may be newer than its
// own.
func (s *Syncer) leave(ctx context.Context) {
	if s.told == "" {
		s.lead(false)
		return
	}
	s.update(func(n *Snapshot) {
		n.Leader, n.Backoff, n.Heartbeat.NextUS = false, 0, 0
		n.Up = s.conn.up
	})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
	defer cancel()
	s.beat(ctx)
}

// beatWhenDue refreshes counts and heartbeat if they are old.
func (s *Syncer) beatWhenDue(ctx context.Context) {
	if s.old(s.beatAt, beatEvery) {
		s.beat(ctx)
	}
}

// beat reads the backlog and writes the heartbeat to the store. The heartbeat only
// informs, so beat ignores a failure.
func (s *Syncer) beat(ctx context.Context) {
	s.refresh(ctx)
	s.beatAt = s.wall()
	var h session.Heartbeat
	s.update(func(n *Snapshot) {
		n.Heartbeat.BeatUS = s.beatAt.UnixMicro()
		h = n.Heartbeat
	})
	_ = s.opts.Source.Beat(ctx, h)
}

// refresh reads the backlog, so that its age rises in every fault (O5).
func (s *Syncer) refresh(ctx context.Context) {
	b, err := s.opts.Source.Backlog(ctx)
	if err != nil {
		// the earlier numbers stay
		return
	}
	s.update(func(n *Snapshot) { n.Backlog = b })
	if lanes, acked, err := s.opts.Source.Totals(ctx); err == nil {
		s.update(func(n *Snapshot) { n.Total, n.Enqueued = lanes, max(n.Enqueued, enqueued(acked, b)) })
	}
}

// enqueued counts the events of a store: those that any server acknowledged, and those
// that are pending.
func enqueued(acked map[string]uint64, b session.Backlog) uint64 {
	sum := b.Events
	for _, n := range acked {
		sum += n
	}
	return sum
}
