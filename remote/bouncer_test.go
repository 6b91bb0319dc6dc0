package remote_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/acode-dev/acode/internal/pgtest"
	"github.com/acode-dev/acode/remote"
	"github.com/acode-dev/acode/session"
)

// S2: through a pooler in transaction mode every call works, and no setting stays on a
// connection that other clients get.
func TestThroughBouncer(t *testing.T) {
	address := pgtest.Bouncer(t, pgtest.Database(t))
	if _, err := remote.Migrate(t.Context(), options(address), nil); err != nil {
		t.Fatalf("Migrate: %v", err)
	}
	s := &site{t: t, url: address}
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		r := s.open(address)
		wg.Go(func() { errs[i] = deliverMixed(t, r) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	r := s.open(address)
	hash, content := blob(1_500_000)
	if err := r.PutBlob(t.Context(), hash, int64(len(content)), bytes.NewReader(content)); err != nil {
		t.Errorf("PutBlob: %v", err)
	}
	if h, err := r.Hello(t.Context(), device); err != nil || h.Events != 4*2500 {
		t.Errorf("Hello: got %+v, %v, want 10,000 events", h, err)
	}
	verifyAll(t, r, 5000)
	projectAll(t, r, 5000)
	for range 8 {
		if got := s.value(`SELECT current_setting('statement_timeout') || ' ' || (SELECT count(*) FROM pg_prepared_statements) || ' '
			|| (SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database WHERE locktype = 'advisory' AND datname = current_database())`); got != "0 0 0" {
			t.Errorf("left on a connection: %q (statement_timeout, prepared statements, advisory locks)", got)
		}
	}
	c, err := remote.VerifyAll(t.Context(), options(address))
	if err != nil || c.Events != 10_000 || len(c.Differences) != 0 {
		t.Errorf("VerifyAll: got %+v, %v", c, err)
	}
}

// deliverMixed delivers 2,500 events in 25 batches, each third one twice.
func deliverMixed(t *testing.T, r *remote.Server) error {
	c := newChain(2500)
	for i := range 25 {
		d := c.from(i*100+1, i*100+100)
		m, err := r.Deliver(t.Context(), d)
		if err == nil && i%3 == 0 {
			m, err = r.Deliver(t.Context(), d)
		}
		if err != nil || m.Seq != uint64(i*100+100) || m.Verdict != session.DeliveryTaken {
			return fmt.Errorf("batch %d: %+v, %w", i, m, err)
		}
	}
	return nil
}

// S1: with concurrent and repeated deliveries of one session, each event is there once.
func TestAtOnce(t *testing.T) {
	s := commonSite(t)
	mine := s.role("acode_writer")
	c := newChain(120).acquire().grow(80)
	var wg sync.WaitGroup
	for i := range 4 {
		r := s.open(mine)
		wg.Go(func() {
			for at := uint64(0); at < 201; {
				last := min(int(at)+7+i, 201)
				d := c.from(int(at)+1, last)
				m, err := r.Deliver(t.Context(), d)
				var f *session.SyncFault
				if errors.As(err, &f) && f.Class != session.FaultOffline {
					m, err = r.Deliver(t.Context(), c.from(0, 0))
				}
				if err != nil || m.Verdict != session.DeliveryTaken {
					t.Errorf("deliver %d to %d: %+v, %v", at+1, last, m, err)
					return
				}
				at = m.Seq
			}
		})
	}
	wg.Wait()
	(&lane{site: s}).holds(t, c)
	if got := s.value(fmt.Sprintf(`SELECT count(*) FROM acode.forks WHERE session_id = '%s'`, c.id)); got != "0" {
		t.Errorf("%s forks of one chain", got)
	}
}
