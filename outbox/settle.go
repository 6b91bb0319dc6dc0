package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/acode-dev/acode/session"
)

// applyMark judges the server's mark, which is the only acknowledgement, up or down (O1).
// It returns the changed lane. Its only error is one of the store.
func (s *Syncer) applyMark(ctx context.Context, l session.Lane, d session.Delivery, m session.Mark) (session.Lane, error) {
	now := l
	if n := len(d.Events); n > 0 {
		now.LastSeq = max(now.LastSeq, d.Events[n-1].Seq)
	}
	switch {
	case m.Verdict == session.DeliveryFenced || m.Verdict == session.DeliveryForked:
		return ruled(now, m), nil
	case m.Seq > now.LastSeq:
		// until it is known whether the server has the last event
		now.Acked = min(now.Acked, now.LastSeq-1)
		now.State = session.SyncForked
		now.Reason = fmt.Sprintf("the server has %d events of this session and the store %d: the store is the older copy", m.Seq, now.LastSeq)
		return now, nil
	}
	same, err := s.agrees(ctx, d, m)
	if err != nil {
		return l, err
	}
	if !same {
		now.Acked = min(now.Acked, m.Seq-1)
		now.State = session.SyncForked
		now.Reason = fmt.Sprintf("the server's event %d is not the one in the store", m.Seq)
		return now, nil
	}
	now.Acked, now.Verified, now.Epoch, now.Remote = m.Seq, m.Verified, m.Epoch, s.conn.id
	now.Reason, now.Attempts, now.NextUS = "", 0, 0
	now.State = session.SyncSynced
	if now.Acked < now.LastSeq {
		now.State = session.SyncPending
	}
	if now.Acked >= l.Parked {
		now.Parked = 0
	} else {
		now.State, now.Reason = session.SyncParked, l.Reason
	}
	return now, nil
}

// ruled returns the lane as the server ruled it: fenced, or forked.
func ruled(l session.Lane, m session.Mark) session.Lane {
	l.State = session.SyncForked
	l.Reason = fmt.Sprintf("the server has another history of this session, up to event %d; ours is kept here and filed there as a fork", m.Seq)
	if m.Verdict == session.DeliveryFenced {
		l.State = session.SyncFenced
		l.Reason = fmt.Sprintf("the session was taken over elsewhere (epoch %d); the later events of this store are kept here and filed there as a fork", m.Epoch)
	}
	return l
}

// agrees compares the chain at the server's mark with the store's.
func (s *Syncer) agrees(ctx context.Context, d session.Delivery, m session.Mark) (bool, error) {
	if m.Seq == 0 {
		return true, nil
	}
	if n := len(d.Events); n > 0 && m.Seq >= d.Events[0].Seq && m.Seq <= d.Events[n-1].Seq {
		return d.Events[m.Seq-d.Events[0].Seq].Hash == m.Head, nil
	}
	h, err := s.opts.Source.HashAt(ctx, m.Session, m.Seq)
	if err != nil {
		return false, &storeTrouble{err}
	}
	return h == m.Head, nil
}

// progress updates the lane's own state after a delivery that was answered.
func (s *Syncer) progress(res result, now session.Lane) session.Lane {
	r := s.lane(now.Session)
	if n := len(res.d.Events); now.Acked == res.d.Events[n-1].Seq {
		r.ahead = res.ahead
	}
	if now.Acked >= r.suspect {
		r.limit, r.suspect = 0, 0
	}
	// a restored server has lost its filed events too
	if now.Acked < res.lane.Acked {
		s.refile()
	}
	switch {
	case stuck(now) && !s.passable(now):
		s.tell(now)
	case now.Acked > res.lane.Acked:
		r.backoff, r.troubles, r.trouble, r.failed = nil, 0, nil, false
	case now.Acked < res.lane.Acked && r.rewinds == 0:
		r.rewinds++
		s.opts.Metrics.retried(retryRewound)
	default: // do not ask a server without end that accepts and takes nothing
		now.NextUS = s.wallUS() + s.hold(r, errNoRise).Microseconds()
		now.State, now.Reason = session.SyncRetrying, errNoRise.Error()
	}
	if now.Pending() == 0 {
		delete(s.lanes, now.Session)
	}
	return now
}

var errNoRise = errors.New("the server's mark does not rise")

// hold makes a lane wait for trouble of its own that only time can fix.
func (s *Syncer) hold(r *lane, trouble error) time.Duration {
	r.troubles++
	r.trouble = trouble
	return s.laneDelay(r)
}

func (s *Syncer) laneDelay(r *lane) time.Duration {
	if r.backoff == nil {
		r.backoff = newSchedule(s.opts.Rand)
	}
	s.opts.Metrics.retried(retryLane)
	return r.backoff.next()
}

func (s *Syncer) tell(l session.Lane) {
	if s.opts.OnLane != nil {
		s.opts.OnLane(l)
	}
}

// save keeps a lane and updates the sums over all lanes.
func (s *Syncer) save(ctx context.Context, before, now session.Lane) error {
	if err := s.opts.Source.SaveLane(ctx, now); err != nil {
		return &storeTrouble{err}
	}
	s.chores.keep(now)
	// wraps around when the mark goes down
	delta := now.Acked - before.Acked
	if over(now) {
		// the events on the server did not change
		s.conn.surplus -= int64(delta)
		s.update(func(n *Snapshot) { n.Unknown = max(0, s.conn.surplus) })
	}
	s.conn.acked += delta
	return nil
}
