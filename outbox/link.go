package outbox

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/acode-dev/acode/session"
)

// link is what is known of the server since the last Hello.
type link struct {
	up      bool
	hello   session.Hello
	id      string    // identity of the server
	at      time.Time // of the last Hello
	acked   uint64    // events that this server is known to have
	surplus int64     // events that the server has beyond what is known acknowledged, found good by the last comparison
	sent    *blobSet
	strikes int // refusals of COPY in a row

	// older are lanes without anything pending of which the server has more or another history,
	// as the last comparison found.
	older []session.Lane
}

// drop forgets what a restored or another server would not know.
func (l *link) drop() {
	l.up = false
	l.sent = &blobSet{}
	l.strikes = 0
}

// connect says hello where there is no connection or the last hello is old. A server of
// another identity than the store was delivered to is sent nothing; one that has other numbers
// than we know is asked for every mark.
func (s *Syncer) connect(ctx context.Context) error {
	if s.link.up && !s.hurry && !s.old(s.link.at, probeEvery) {
		return nil
	}
	s.attempted()
	start := s.opts.Now()
	hello, err := call(ctx, s.opts.Timeout, func(ctx context.Context) (session.Hello, error) {
		return s.opts.Remote.Hello(ctx, s.opts.Source.Device())
	})
	if err != nil {
		return err
	}
	if s.link.up {
		s.size.round(s.since(start), 0) // nothing but the round trip is in it
	} else {
		s.reconnected()
	}
	if hello.ReadOnly {
		return &session.SyncFault{Class: session.FaultReadOnly, Safe: true, Cause: errors.New("the server is read-only")}
	}
	if err := s.recognize(ctx, hello.Remote.String()); err != nil {
		return err
	}
	s.link.hello, s.link.id, s.link.at = hello, hello.Remote.String(), s.opts.Now()
	if int64(hello.Events)-int64(s.link.acked) != s.link.surplus {
		if err := s.compare(ctx); err != nil {
			return err
		}
	}
	s.greeted(hello)
	return s.recall(ctx)
}

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

// reconnected forgets what only held for the connection before.
func (s *Syncer) reconnected() {
	for _, r := range s.lanes {
		r.fresh, r.rewinds = false, 0
	}
}

// recognize adds up what the server of identity id has acknowledged, and refuses a server that
// is another than before. A connection that stands needs no sum: it was kept up to date.
func (s *Syncer) recognize(ctx context.Context, id string) error {
	if s.link.up && id == s.link.id {
		return nil
	}
	t, err := s.totals(ctx)
	if err != nil {
		return &storeTrouble{err}
	}
	for remote := range t.Acked {
		if remote != id && remote != "" {
			return &otherDatabase{have: id, want: remote}
		}
	}
	s.link.acked = t.Acked[id]
	s.counted(t)
	return nil
}

func (s *Syncer) totals(ctx context.Context) (Totals, error) {
	if t, ok := s.opts.Source.(Totaler); ok {
		return t.Totals(ctx)
	}
	all, err := s.opts.Source.Lanes(ctx)
	return total(all), err
}

func total(all []session.Lane) Totals {
	t := Totals{Lanes: len(all), Acked: map[string]uint64{}}
	for _, l := range all {
		t.Acked[l.Remote] += l.Acked
	}
	return t
}

// compare settles every lane by the server's mark: a server restored from a backup has
// smaller ones, a store restored from an older copy finds greater ones.
func (s *Syncer) compare(ctx context.Context) error {
	all, err := s.opts.Source.Lanes(ctx)
	if err != nil {
		return &storeTrouble{err}
	}
	slices.SortFunc(all, func(a, b session.Lane) int { return cmp.Compare(a.Session, b.Session) })
	s.link.older, s.link.sent = nil, &blobSet{} // a server that was put back lost content as well
	p := pager{s: s}
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
func older(l session.Lane) bool { return over(l) && !wentOn(l) && l.Pending() == 0 }

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
	s    *Syncer
	page []session.Mark
	last session.ID
	end  bool
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
	page, err := call(ctx, p.s.opts.Timeout, func(ctx context.Context) ([]session.Mark, error) {
		return p.s.opts.Remote.Marks(ctx, p.s.opts.Source.Device(), p.last, marksPage)
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
