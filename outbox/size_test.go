package outbox_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acode-dev/acode/session"
)

// Batches grow while they are quick, up to the memory limit, and the backlog takes few of
// them.
func TestBatchesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(1), 40000)
		sv.delay = 50 * time.Millisecond
		start := time.Now()
		if err := syncer(f, sv).Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		fail(t, judge(f, sv, true))
		if mid := sv.sizes[len(sv.sizes)/2]; mid < 5000 || mid > 10000 {
			t.Errorf("batches: got %v, want most of 5,000 to 10,000", sv.sizes)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("40,000 events at 50 ms: took %s, want at most 2s", took)
		}
	})
}

// Slow batches stop growing, and very slow ones shrink.
func TestBatchesShrink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(1), 20000)
		slow := func(d session.Delivery) time.Duration { return time.Duration(len(d.Events)) * time.Millisecond }
		sv.fault = func(_ string, d session.Delivery) *session.SyncFault {
			sv.delay = slow(d)
			return nil
		}
		if err := syncer(f, sv).Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		fail(t, judge(f, sv, true))
		for _, n := range sv.sizes {
			if n > 2000 {
				t.Errorf("batch: got %d at a millisecond an event, want at most 2,000", n)
			}
		}
	})
}

// On a link on which batches time out, batches shrink until one passes.
func TestBatchesThatTimeOutShrinkUntilOnePasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(1), 300)
		sv.fault = func(op string, d session.Delivery) *session.SyncFault {
			if len(d.Events) > 20 {
				return &session.SyncFault{Class: session.FaultServer, SQLState: "57014", Cause: errors.New("statement timeout")}
			}
			return nil
		}
		s := syncer(f, sv)
		stop := running(t, s)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		fail(t, judge(f, sv, true))
		stop()
	})
}
