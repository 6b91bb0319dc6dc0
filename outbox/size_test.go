package outbox_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acode-dev/acode/session"
)

// sizes gives the events of each delivery by one of the ways.
func sizes(sv *server, way string) (out []int) {
	for _, w := range sv.ways {
		var n int
		if _, err := fmt.Sscanf(w, way+" %d", &n); err == nil && n > 0 {
			out = append(out, n)
		}
	}
	return out
}

// Batches grow while they are quick, up to what memory allows, and the backlog takes few of
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
		copies := sizes(sv, "copy")
		if len(copies) == 0 || copies[len(copies)/2] < 5000 || copies[len(copies)/2] > 10000 {
			t.Errorf("batches: got %v, want most of 5,000 to 10,000 by COPY", sv.ways)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("40,000 events at 50 ms: took %s, want at most 2s", took)
		}
	})
}

// Batches that are slow stop growing, and ones that are too slow shrink.
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
		for _, n := range append(sizes(sv, "ingest"), sizes(sv, "copy")...) {
			if n > 2000 {
				t.Errorf("batch: got %d at a millisecond an event, want at most 2,000", n)
			}
		}
	})
}

// A link on which a batch never ends in time is left with smaller ones until one does.
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

// A short round trip makes COPY worth it for few events, a long one for many only.
func TestCopyIsChosenByTheRoundTrip(t *testing.T) {
	for _, c := range []struct {
		delay  time.Duration
		copies bool
	}{{time.Millisecond, true}, {400 * time.Millisecond, false}} {
		synctest.Test(t, func(t *testing.T) {
			f, sv := newStore(), newServer()
			f.commit(name(1), 1200)
			sv.delay = c.delay
			if err := syncer(f, sv).Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(strings.Join(sv.ways, " "), "copy"); got != c.copies {
				t.Errorf("at %s: got %v, want COPY %v", c.delay, sv.ways, c.copies)
			}
		})
	}
}
