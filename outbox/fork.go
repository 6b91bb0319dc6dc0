package outbox

import (
	"context"
	"fmt"

	"github.com/acode-dev/acode/session"
)

// maxSeeks limits how often the filing of a fork starts again with the first event.
const maxSeeks = 3

// filing is how far the divergent suffix of a fenced or forked lane is filed on the
// server. The store does not keep it: a new syncer files the suffix again. That changes
// nothing on the server, and repairs a server that was restored from a backup.
//
// The first delivery begins with the last event that the server acknowledged, and the
// server says how much of the delivery both have. A restored server that took another
// history may share none of it. Then the filing starts again with the first event of all.
type filing struct {
	begun bool
	// after is the seq below the first event of the next delivery.
	after uint64
	seeks int
	// known is set if share is known.
	known bool
	// share is the last event that the server has too.
	share uint64
	// theirs is the last event of the server's own history.
	theirs uint64
	// rest is set if no more can be filed.
	rest bool
}

// files reports whether a fenced or forked lane has events to file.
func (s *Syncer) files(l session.Lane) bool {
	if !over(l) || l.WentOn() {
		return false
	}
	f := s.lane(l.Session).filing
	return !f.rest && (!f.begun || f.after < l.LastSeq)
}

// fork makes o the next delivery of a fork.
func (o *order) fork(r *lane) {
	f := &r.filing
	// begin with the last event that both should have, to check that they do
	if !f.begun {
		*f = filing{begun: true, after: max(o.lane.Acked, 1) - 1}
	}
	o.after, o.whole, o.ahead = f.after, false, nil
	if o.events = o.size.events; r.limit > 0 {
		o.events = min(o.events, r.limit)
	}
}

// file judges the answer to a delivery of a fenced or forked lane. The fork begins after
// the last event that the server has too; the events after it are filed piece by piece.
func (s *Syncer) file(ctx context.Context, res result) (session.Lane, error) {
	now, m := res.lane, res.mark
	r := s.lane(now.Session)
	f, n := &r.filing, len(res.d.Events)
	first, last := res.d.Events[0].Seq, res.d.Events[n-1].Seq
	f.begun, f.theirs, now.NextUS, r.backoff, r.troubles = true, m.Seq, 0, nil, 0
	switch m.Verdict {
	case session.DeliveryGap: // the server lost events that it had filed before
		f.restart()
	case session.DeliveryTaken:
		return s.shared(ctx, res, now)
	case session.DeliveryFenced, session.DeliveryForked:
		f.differs(first, last, uint64(min(max(m.Duplicate, 0), n-1)))
		if f.known {
			now.Acked, now.Remote = f.share, s.conn.id
		}
		// the epoch of the lane is judged by the end of the suffix
		if last >= now.LastSeq {
			now = s.ruled(now, m)
		}
	}
	if f.after >= r.suspect {
		r.limit, r.suspect = 0, 0
	}
	return f.bounded(now), nil
}

// ruled returns the lane with the server's ruling, and reports a ruling that changed.
func (s *Syncer) ruled(l session.Lane, m session.Mark) session.Lane {
	now := ruled(l, m)
	if now.State == l.State {
		return l
	}
	s.tell(now)
	return now
}

// shared judges a delivery of a fenced or forked lane of which the server has, or took,
// every event.
func (s *Syncer) shared(ctx context.Context, res result, now session.Lane) (session.Lane, error) {
	f := &s.lane(now.Session).filing
	// the server was restored to a state before its other history, and takes this one
	if res.mark.Inserted > 0 {
		*f = filing{}
		return s.applyMark(ctx, now, res.d, res.mark)
	}
	if res.mark.Seq <= now.LastSeq {
		if same, err := s.agrees(ctx, res.d, res.mark); err != nil || !same {
			// the answer contradicts itself
			f.rest = true
			return now, err
		}
	}
	f.same(res.d.Events[len(res.d.Events)-1].Seq)
	now.Acked, now.Remote = max(now.Acked, f.share), s.conn.id
	// the store is only an older copy
	if f.share >= now.LastSeq {
		s.conn.older = append(s.conn.older, now)
	}
	return f.bounded(now), nil
}

// differs records that a delivery was filed. same is the number of events at its
// beginning that the server has too. If same is 0, the fork may begin earlier.
func (f *filing) differs(first, last, same uint64) {
	if same > 0 || first == 1 {
		f.known, f.share = true, first-1+same
	}
	if !f.known {
		f.restart()
		return
	}
	f.after = last
}

// same records that the server has all events up to last.
func (f *filing) same(last uint64) {
	f.after, f.share, f.known = last, last, true
}

// restart begins again with the first event, which no server answers with a gap.
func (f *filing) restart() {
	f.after, f.known = 0, false
	f.seeks++
}

// bounded ends the filing of a lane that makes no progress, and says which events are not
// filed.
func (f *filing) bounded(l session.Lane) session.Lane {
	f.rest = f.rest || f.seeks > maxSeeks
	if f.rest && f.after < l.LastSeq {
		l.Reason = fmt.Sprintf("the server has another history of this session; it filed ours up to event %d, the rest is kept here for a session of its own", f.after)
	}
	return l
}

// unfiled judges a refused delivery of a fenced or forked lane. Halving finds the refused
// row, and the filing ends there.
func (s *Syncer) unfiled(ctx context.Context, res result, f *session.SyncFault) (session.Lane, error) {
	s.opts.Metrics.erred(f.Class)
	r := s.lane(res.lane.Session)
	if n := len(res.d.Events); n > 1 {
		r.cut(res.d)
		s.opts.Metrics.retried(retryHalved)
		return res.lane, nil
	}
	now := res.lane
	r.filing.rest = true
	now.Reason = fmt.Sprintf("the server has another history of this session; ours is kept here, and was refused as a fork from event %d on: %s", res.d.Events[0].Seq, f.Reason())
	return now, s.save(ctx, res.lane, now)
}

// refile has every fork filed again, after a server lost data.
func (s *Syncer) refile() {
	for _, r := range s.lanes {
		r.filing = filing{}
	}
}
