package outbox

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/acode-dev/acode/session"
)

// recall looks whether a person settled what the last comparison found.
func (s *Syncer) recall(ctx context.Context) error {
	if len(s.link.older) == 0 {
		return nil
	}
	all, err := s.opts.Source.Lanes(ctx)
	if err != nil {
		return &storeTrouble{err}
	}
	s.link.older = slices.DeleteFunc(all, func(l session.Lane) bool { return !older(l) })
	return nil
}

// compare settles every lane by the server's mark: a server restored from a backup has
// smaller ones, a store restored from an older copy finds greater ones.
func (s *Syncer) compare(ctx context.Context) error {
	all, err := s.opts.Source.Lanes(ctx)
	if err != nil {
		return &storeTrouble{err}
	}
	slices.SortFunc(all, func(a, b session.Lane) int { return cmp.Compare(a.Session, b.Session) })
	s.link.older = nil
	p := pager{marks: s.opts.Remote, device: s.opts.Source.Device(), timeout: s.opts.Timeout}
	var acked uint64
	for _, l := range all {
		m, err := p.seek(ctx, l.Session)
		if err != nil {
			return err
		}
		now, err := s.correct(ctx, l, m)
		if err != nil {
			return err
		}
		acked += now.Acked
		if older(now) {
			s.link.older = append(s.link.older, now)
		}
	}
	s.link.acked, s.link.surplus = acked, int64(s.link.hello.Events)-int64(acked)
	return nil
}

// older reports whether a lane needs a person although it has nothing to deliver: the server has
// more of it than the store, or had.
func older(l session.Lane) bool { return over(l) && !l.WentOn() && l.Pending() == 0 }

// correct settles one lane outside a delivery. A lane that is fenced or forked stays so.
func (s *Syncer) correct(ctx context.Context, l session.Lane, m session.Mark) (session.Lane, error) {
	if over(l) || m.Seq == 0 && l.Acked == 0 {
		return l, nil
	}
	m.Verdict = session.DeliveryTaken
	now, err := s.settle(ctx, l, session.Delivery{Session: l.Session}, m)
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

// pager walks the server's marks in the order of ids.
type pager struct {
	marks   Marker
	device  string
	timeout time.Duration
	page    []session.Mark
	last    session.ID
	end     bool
}

// seek gives the mark of id, which is greater than in the call before; one without events
// where the server has none.
func (p *pager) seek(ctx context.Context, id session.ID) (session.Mark, error) {
	for {
		for len(p.page) > 0 && p.page[0].Session < id {
			p.page = p.page[1:]
		}
		if len(p.page) > 0 && p.page[0].Session == id {
			return p.page[0], nil
		}
		if len(p.page) > 0 || p.end {
			return session.Mark{Session: id}, nil
		}
		if err := p.turn(ctx); err != nil {
			return session.Mark{}, err
		}
	}
}

func (p *pager) turn(ctx context.Context) error {
	page, err := call(ctx, p.timeout, func(ctx context.Context) ([]session.Mark, error) {
		return p.marks.Marks(ctx, p.device, p.last, marksPage)
	})
	if err != nil {
		return err
	}
	p.page, p.end = page, len(page) < marksPage
	if len(page) > 0 {
		end := page[len(page)-1].Session
		p.last, p.end = end, p.end || end <= p.last // a server that repeats itself ends the walk
	}
	return nil
}
