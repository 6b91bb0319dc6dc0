package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/acode-dev/acode/session"
)

// troubled judges a delivery that failed. It halves a refused batch until the row is
// found, and parks that row after its attempts. Trouble of the lane alone makes the lane
// wait. troubled returns any other fault, because it stops every lane.
func (s *Syncer) troubled(ctx context.Context, res result) (session.Lane, error) {
	if ctx.Err() != nil {
		return res.lane, ctx.Err()
	}
	var f *session.SyncFault
	if !errors.As(res.err, &f) {
		return s.later(ctx, res.lane, res.err)
	}
	if res.sent && (timedOut(f) || broke(f)) {
		s.shrink(res)
	}
	switch {
	case f.Class == session.FaultRefused && over(res.lane):
		return s.unfiled(ctx, res, f)
	case f.Class == session.FaultRefused:
		return s.refused(ctx, res, f)
	case laneOnly(f), s.provedOwn(res.lane.Session, f):
		s.opts.Metrics.erred(f.Class)
		return s.later(ctx, res.lane, f)
	}
	return res.lane, f
}

// provedOwn reports whether a passing fault of the server concerns one lane only: it met
// that lane before, and other lanes were delivered since. Otherwise a row that makes the
// server fail would hold every session (O3).
func (s *Syncer) provedOwn(id session.ID, f *session.SyncFault) bool {
	if f.Class != session.FaultServer || !aboutRows(f.SQLState) {
		return false
	}
	r := s.lane(id)
	if r.failed && s.acks > r.failedAt {
		return true
	}
	r.failed, r.failedAt = true, s.acks
	return false
}

// shrink sends less after a time-out or a connection that broke under a batch: the link
// may not let more through at a time. This lane sends less until the batch is through.
// Every lane sends less if the batch had at least half the current size.
func (s *Syncer) shrink(res result) {
	n := len(res.d.Events)
	if 2*n >= s.size.events {
		s.size.halve()
	}
	if n > 1 {
		s.lane(res.lane.Session).cut(res.d)
	}
}

// cut makes the next deliveries of a lane half of d until d is through.
func (r *lane) cut(d session.Delivery) {
	n := len(d.Events)
	r.limit, r.suspect = n/2, max(r.suspect, d.Events[n-1].Seq)
}

// later makes a lane wait for trouble of its own that counts no attempt.
func (s *Syncer) later(ctx context.Context, l session.Lane, trouble error) (session.Lane, error) {
	if ctx.Err() != nil {
		return l, ctx.Err()
	}
	now := l
	now.NextUS = s.wallUS() + s.hold(s.lane(l.Session), trouble).Microseconds()
	if l.Parked == 0 && !over(l) {
		now.State = session.SyncRetrying
		_, _, now.Reason = stateOf(trouble)
	}
	return now, s.save(ctx, l, now)
}

// refused halves a batch that the server refused; a single row counts an attempt (O2),
// and its lane alone waits (O3).
func (s *Syncer) refused(ctx context.Context, res result, f *session.SyncFault) (session.Lane, error) {
	s.opts.Metrics.erred(f.Class)
	r := s.lane(res.lane.Session)
	if n := len(res.d.Events); n > 1 {
		r.cut(res.d)
		s.opts.Metrics.retried(retryHalved)
		return res.lane, nil
	}
	now, row := res.lane, res.d.Events[0]
	now.Attempts++
	if now.Attempts < maxAttempts {
		now.NextUS = s.wallUS() + s.laneDelay(r).Microseconds()
		now.State, now.Reason = session.SyncRetrying, fmt.Sprintf("the server refused event %d: %v", row.Seq, f.Reason())
		return now, s.save(ctx, res.lane, now)
	}
	r.hopeless = now.Parked == row.Seq
	now.Parked, now.NextUS, now.State = row.Seq, 0, session.SyncParked
	if s.passable(now) {
		// the stand-in has its own attempts
		now.Attempts = 0
	}
	now.Reason = fmt.Sprintf("the server refused event %d (%s) %d times: %v", row.Seq, row.Type, maxAttempts, f.Reason())
	s.tell(now)
	return now, s.save(ctx, res.lane, now)
}
