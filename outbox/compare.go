package outbox

import (
	"context"
	"slices"

	"github.com/acode-dev/acode/session"
)

// recall drops the lanes that the last comparison found if a person has settled them
// since.
func (s *Syncer) recall(ctx context.Context) error {
	if len(s.conn.older) == 0 {
		return nil
	}
	all, err := s.opts.Source.Lanes(ctx)
	if err != nil {
		return &storeTrouble{err}
	}
	s.conn.older = slices.DeleteFunc(all, func(l session.Lane) bool { return !older(l) })
	return nil
}

// compare applies the server's mark to every lane. A server restored from a backup has
// smaller marks; a store restored from an older copy finds greater ones.
func (s *Syncer) compare(ctx context.Context) error {
	all, err := s.opts.Source.Lanes(ctx)
	if err != nil {
		return &storeTrouble{err}
	}
	s.conn.older = nil
	marks, err := s.Marks(ctx)
	if err != nil {
		return err
	}
	var acked uint64
	for _, l := range all {
		now, err := s.correct(ctx, l, marks[l.Session])
		if err != nil {
			return err
		}
		acked += now.Acked
		if older(now) {
			s.conn.older = append(s.conn.older, now)
		}
	}
	s.conn.acked, s.conn.surplus = acked, int64(s.conn.hello.Events)-int64(acked)
	return nil
}

// older reports whether a lane needs a person although it has no pending events: the
// server has more of it than the store, or had.
func older(l session.Lane) bool { return over(l) && !l.WentOn() && l.Pending() == 0 }

// correct applies the mark to one lane outside a delivery. A lane that is fenced or
// forked stays so.
func (s *Syncer) correct(ctx context.Context, l session.Lane, m session.Mark) (session.Lane, error) {
	if over(l) || m.Seq == 0 && l.Acked == 0 {
		return l, nil
	}
	m.Verdict = session.DeliveryTaken
	now, err := s.applyMark(ctx, l, session.Delivery{Session: l.Session}, m)
	if err != nil || now == l {
		return l, err
	}
	switch {
	case now.State == session.SyncForked:
		s.tell(now)
	case now.Acked < l.Acked:
		s.refile()
		s.opts.Metrics.retried(retryRewound)
	}
	return now, s.save(ctx, l, now)
}

// Marks reads the server's marks of every session of the store, a page at a time.
func (s *Syncer) Marks(ctx context.Context) (map[session.ID]session.Mark, error) {
	all := map[session.ID]session.Mark{}
	for after := session.ID(""); ; {
		page, err := call(ctx, s.opts.Timeout, func(ctx context.Context) ([]session.Mark, error) {
			return s.opts.Remote.Marks(ctx, s.opts.Source.Device(), after, marksPage)
		})
		if err != nil {
			return nil, err
		}
		for _, m := range page {
			all[m.Session] = m
		}
		// a server that repeats itself ends the walk
		if len(page) < marksPage || page[len(page)-1].Session <= after {
			return all, nil
		}
		after = page[len(page)-1].Session
	}
}
