package outbox

import (
	"context"
	"fmt"

	"github.com/acode-dev/acode/session"
)

// maxSeeks bounds how often the filing of a fork begins again, with the first event.
const maxSeeks = 3

// filing is how far the divergent suffix of a fenced or forked lane is filed on the
// server. It is not kept in the store: a syncer that starts files the suffix again, which
// changes nothing there, and repairs a server that was put back.
//
// The first delivery begins with the last event that the server acknowledged, and the
// server says how much of it both have. Where that is nothing, because the server was put
// back and then took another history, the filing begins again with the first event of
// all.
type filing struct {
	begun bool
	// the next delivery begins above this
	after uint64
	seeks int
	// share is known
	known bool
	// the last event that the server has too
	share uint64
	// the last event of the server's own history
	theirs uint64
	// nothing more can be filed
	rest bool
}

// files reports whether a lane that is over has something to file.
func (s *Syncer) files(l session.Lane) bool {
	if !over(l) || l.WentOn() {
		return false
	}
	f := s.lane(l.Session).filing
	return !f.rest && (!f.begun || f.after < l.LastSeq)
}

// fork makes o a delivery of what is to be filed.
func (o *order) fork(r *lane) {
	f := &r.filing
	if !f.begun { // with the last event that both should have, which shows whether they do
		*f = filing{begun: true, after: max(o.lane.Acked, 1) - 1}
	}
	o.after, o.whole, o.ahead = f.after, false, nil
	if o.events = o.size.events; r.limit > 0 {
		o.events = min(o.events, r.limit)
	}
}

// file judges the answer to a delivery of a lane that is over. The fork begins after the
// last event that the server has too; what follows that is filed piece by piece.
func (s *Syncer) file(ctx context.Context, res result) (session.Lane, error) {
	now, m := res.lane, res.mark
	r := s.lane(now.Session)
	f, n := &r.filing, len(res.d.Events)
	first, last := res.d.Events[0].Seq, res.d.Events[n-1].Seq
	f.begun, f.theirs, now.NextUS, r.backoff, r.troubles = true, m.Seq, 0, nil, 0
	switch m.Verdict {
	case session.DeliveryGap: // it lost what it had filed before
		f.again()
	case session.DeliveryTaken:
		return s.shared(ctx, res, now)
	case session.DeliveryFenced, session.DeliveryForked:
		f.differs(first, last, uint64(min(max(m.Duplicate, 0), n-1)))
		if f.known {
			now.Acked, now.Remote = f.share, s.link.id
		}
		if last >= now.LastSeq { // the end of the suffix is what its epoch is judged by
			now = s.ruled(now, m)
		}
	}
	if f.after >= r.suspect {
		r.limit, r.suspect = 0, 0
	}
	return f.bounded(now), nil
}

// ruled takes over a ruling that is another than before, and tells of it.
func (s *Syncer) ruled(l session.Lane, m session.Mark) session.Lane {
	now := ruled(l, m)
	if now.State == l.State {
		return l
	}
	s.tell(now)
	return now
}

// shared judges a delivery of a lane that is over and that the server has all of, or
// took.
func (s *Syncer) shared(ctx context.Context, res result, now session.Lane) (session.Lane, error) {
	f := &s.lane(now.Session).filing
	if res.mark.Inserted > 0 { // it was put back to before its other history, and takes this one
		*f = filing{}
		return s.settle(ctx, now, res.d, res.mark)
	}
	if res.mark.Seq <= now.LastSeq {
		if same, err := s.agrees(ctx, res.d, res.mark); err != nil || !same {
			f.rest = true // an answer that contradicts itself
			return now, err
		}
	}
	f.same(res.d.Events[len(res.d.Events)-1].Seq)
	now.Acked, now.Remote = max(now.Acked, f.share), s.link.id
	if f.share >= now.LastSeq { // the store is the older copy, and nothing else
		s.link.older = append(s.link.older, now)
	}
	return f.bounded(now), nil
}

// differs takes note of a delivery that was filed, but for so many events at its
// beginning that the server has too. Where there are none, the fork may begin earlier.
func (f *filing) differs(first, last, same uint64) {
	if same > 0 || first == 1 {
		f.known, f.share = true, first-1+same
	}
	if !f.known {
		f.again()
		return
	}
	f.after = last
}

// same takes note of a delivery that the server has all of.
func (f *filing) same(last uint64) {
	f.after, f.share, f.known = last, last, true
}

// again begins with the first event, which no server answers with a gap.
func (f *filing) again() {
	f.after, f.known = 0, false
	f.seeks++
}

// bounded ends the filing of a lane that gets nowhere, and says what is not filed.
func (f *filing) bounded(l session.Lane) session.Lane {
	f.rest = f.rest || f.seeks > maxSeeks
	if f.rest && f.after < l.LastSeq {
		l.Reason = fmt.Sprintf("the server has another history of this session; it filed ours up to event %d, the rest is kept here for a session of its own", f.after)
	}
	return l
}

// unfiled judges a delivery of a lane that is over and that the server refused: halves
// find the row, and there the filing ends.
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

// refile has every fork filed again, after a server lost some of what it had.
func (s *Syncer) refile() {
	for _, r := range s.lanes {
		r.filing = filing{}
	}
}
