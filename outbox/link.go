package outbox

import (
	"context"
	"errors"
	"time"

	"github.com/acode-dev/acode/session"
)

// link is what is known of the server since the last Hello.
type link struct {
	up    bool
	hello session.Hello
	// identity of the server
	id string
	// of the last Hello
	at time.Time
	// events that this server is known to have
	acked uint64
	// events that the server has beyond what is known acknowledged, found good by the
	// last comparison
	surplus int64

	// older are lanes without anything pending of which the server has more or another
	// history, as the last comparison found.
	older []session.Lane
}

// connect says hello where there is no connection or the last hello is old. A server of
// another identity than the store was delivered to is sent nothing; one that has other
// numbers than we know is asked for every mark.
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

// reconnected forgets what only held for the connection before.
func (s *Syncer) reconnected() {
	for _, r := range s.lanes {
		r.rewinds = 0
	}
}

// recognize adds up what the server of identity id has acknowledged, and refuses a server
// that is another than before. A connection that stands needs no sum: it was kept up to
// date.
func (s *Syncer) recognize(ctx context.Context, id string) error {
	if s.link.up && id == s.link.id {
		return nil
	}
	_, acked, err := s.opts.Source.Totals(ctx)
	if err != nil {
		return &storeTrouble{err}
	}
	for remote := range acked {
		if remote != id && remote != "" {
			return &otherDatabase{have: id, want: remote}
		}
	}
	s.link.acked = acked[id]
	return nil
}
