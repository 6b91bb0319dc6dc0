package outbox

import (
	"context"
	"errors"
	"time"

	"github.com/acode-dev/acode/session"
)

// connection is the syncer's knowledge of the server since the last Hello.
type connection struct {
	up    bool
	hello session.Hello
	// id is the identity of the server.
	id string
	// at is the time of the last Hello.
	at time.Time
	// acked is the number of events that this server has acknowledged.
	acked uint64
	// surplus is the number of events that the server has beyond acked. The last
	// comparison accepted them.
	surplus int64

	// older are lanes without pending events of which the server has more or another
	// history, according to the last comparison.
	older []session.Lane
}

// connect sends Hello if there is no connection or the last Hello is old. It refuses a
// server of another identity than the one that acknowledged events. It compares every
// mark with a server that reports an unexpected number of events.
func (s *Syncer) connect(ctx context.Context) error {
	if s.conn.up && !s.hurry && !s.old(s.conn.at, probeEvery) {
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
	if s.conn.up {
		// the call is a round trip without work
		s.size.round(s.since(start), 0)
	} else {
		s.reconnected()
	}
	if hello.ReadOnly {
		return &session.SyncFault{Class: session.FaultReadOnly, Safe: true, Cause: errors.New("the server is read-only")}
	}
	if err := s.recognize(ctx, hello.Remote.String()); err != nil {
		return err
	}
	s.conn.hello, s.conn.id, s.conn.at = hello, hello.Remote.String(), s.opts.Now()
	if int64(hello.Events)-int64(s.conn.acked) != s.conn.surplus {
		if err := s.compare(ctx); err != nil {
			return err
		}
	}
	s.greeted(hello)
	return s.recall(ctx)
}

// reconnected resets the state that belongs to one connection.
func (s *Syncer) reconnected() {
	for _, r := range s.lanes {
		r.rewinds = 0
	}
}

// recognize adds up the acknowledgements of the server with identity id, and refuses
// another server than before. An open connection needs no sum: the sum is up to date.
func (s *Syncer) recognize(ctx context.Context, id string) error {
	if s.conn.up && id == s.conn.id {
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
	s.conn.acked = acked[id]
	return nil
}
