package outbox

import (
	"context"
	"time"

	"github.com/acode-dev/acode/session"
)

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
		s.beat(ctx)
	}
	s.beatWhenDue(ctx)
	if s.told != state && s.opts.OnState != nil {
		s.opts.OnState(s.Snapshot().Heartbeat)
	}
	s.told = state
}

// leave ends the right to drain with a heartbeat that says how things stand now, however
// it came to an end: whoever looks next has nothing else. Nobody tries again after it.
// One that was ended before it saw anything says nothing: what the store keeps may be
// newer than what it began with.
func (s *Syncer) leave(ctx context.Context) {
	if s.told == "" {
		s.lead(false)
		return
	}
	s.update(func(n *Snapshot) {
		n.Leader, n.Backoff, n.Heartbeat.NextUS = false, 0, 0
		n.Up = s.link.up
	})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
	defer cancel()
	s.beat(ctx)
}

// beatWhenDue refreshes counts and heartbeat where they are old.
func (s *Syncer) beatWhenDue(ctx context.Context) {
	if s.old(s.beatAt, beatEvery) {
		s.beat(ctx)
	}
}

// beat reads what waits and leaves the heartbeat in the store. That informs and decides
// nothing, so a failure of it is left to the next call that matters.
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

// refresh reads what waits, so that its age rises in every fault (O5).
func (s *Syncer) refresh(ctx context.Context) {
	b, err := s.opts.Source.Backlog(ctx)
	if err != nil {
		return // the numbers of before stay
	}
	s.update(func(n *Snapshot) { n.Backlog = b })
	if lanes, acked, err := s.opts.Source.Totals(ctx); err == nil {
		s.update(func(n *Snapshot) { n.Total, n.Enqueued = lanes, max(n.Enqueued, enqueued(acked, b)) })
	}
}

// enqueued counts the events of a store by what was acknowledged, by whomever, and what
// was not.
func enqueued(acked map[string]uint64, b session.Backlog) uint64 {
	sum := b.Events
	for _, n := range acked {
		sum += n
	}
	return sum
}
