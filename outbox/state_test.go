package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/session"
)

// A long delivery is pending while it lasts.
func TestPendingWhileABacklogIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		s := syncer(f, sv)
		stop := running(t, s)
		time.Sleep(time.Second)
		sv.set(func() { sv.delay = 3 * time.Second })
		f.commit(name(1), 3000)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if got := s.Snapshot(); got.State() != session.SyncPending || got.Backlog.Events == 0 {
			t.Errorf("Snapshot: got %+v in state %s, want pending", got, got.State())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		fail(t, judge(f, sv, true))
		stop()
	})
}

// The syncer asks whether another process paused delivery. If that cannot be read,
// delivery continues.
func TestPausedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(1), 1)
		var mu sync.Mutex
		held, err := true, error(nil)
		s := syncer(f, sv, func(o *outbox.Options) {
			o.Paused = func(context.Context) (bool, error) {
				mu.Lock()
				defer mu.Unlock()
				return held, err
			}
		})
		stop := running(t, s)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := s.Snapshot().State(); got != session.SyncPaused || sv.count("hello") != 0 {
			t.Errorf("state: got %s, want paused", got)
		}
		mu.Lock()
		err = errors.New("unreadable")
		mu.Unlock()
		time.Sleep(time.Second)
		synctest.Wait()
		fail(t, judge(f, sv, true))
		stop()
	})
}

// A drain ends with its context, in a call and in a wait.
func TestDrainEndsWithItsContext(t *testing.T) {
	for _, way := range []string{"call", "lane"} {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, sv := newStore(), newServer()
				f.commit(name(1), 2000)
				switch way {
				case "call":
					sv.fate = func(string) fate { return blackHole }
				case "lane":
					sv.fault = func(op string, _ session.Delivery) *session.SyncFault {
						if op == "deliver" {
							return &session.SyncFault{Class: session.FaultServer, SQLState: "55P03", Cause: errNet}
						}
						return nil
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				s := syncer(f, sv, func(o *outbox.Options) { o.Rand = func() float64 { return 0.999 } })
				start := time.Now()
				if err := s.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 300*time.Millisecond {
					t.Errorf("Drain: got %v after %s, want the end of its context", err, time.Since(start))
				}
				sv.set(func() { sv.fate, sv.fault, sv.answer = nil, nil, nil })
				if err := s.Drain(t.Context()); err != nil {
					t.Error(err)
				}
				fail(t, judge(f, sv, true))
			})
		})
	}
}

// A drain delivers the events from before its start: it ends although commits never do.
func TestDrainIsABarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(1), 5000)
		sv.delay = 20 * time.Millisecond
		ctx, cancel := context.WithCancel(t.Context())
		var writer sync.WaitGroup
		writer.Go(func() {
			for ctx.Err() == nil {
				f.commit(name(1), 10)
				f.commit(name(2), 10)
				time.Sleep(time.Millisecond)
			}
		})
		begin := time.Now()
		err := syncer(f, sv).Drain(t.Context())
		cancel()
		writer.Wait()
		if l := f.lane(name(1)); err != nil || l.Acked < 5000 || time.Since(begin) > 10*time.Second {
			t.Errorf("Drain: got %v, acknowledged %d after %s", err, l.Acked, time.Since(begin))
		}
		fail(t, judge(f, sv, false))
	})
}

// loose is a server whose errors break the contract of Remote.
type loose struct {
	*server
	err error
}

func (l loose) Hello(context.Context, string) (session.Hello, error) { return session.Hello{}, l.err }

// An error that is no fault parks no row and is treated as its most likely cause.
func TestErrorsThatAreNoFault(t *testing.T) {
	for err, want := range map[error]session.SyncState{
		errors.New("strange"):                            session.SyncRetrying,
		fmt.Errorf("read: %w", context.DeadlineExceeded): session.SyncOffline,
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newStore()
			f.commit(name(1), 1)
			s := syncer(f, loose{newServer(), err})
			if got := s.Drain(t.Context()); !errors.Is(got, session.ErrOffline) || s.Snapshot().State() != want {
				t.Errorf("Drain: got %v in state %s, want ErrOffline, %s", got, s.Snapshot().State(), want)
			}
		})
	}
}

// A mark that is too high, or of another chain, forks the lane.
func TestMarksOfAnotherHistory(t *testing.T) {
	for what, answer := range map[string]func(m *session.Mark){
		"older copy":      func(m *session.Mark) { m.Seq = 99 },
		"event 4":         func(m *session.Mark) { m.Head = session.Hash{1} },
		"another history": func(m *session.Mark) { m.Verdict = session.DeliveryForked },
		"event 2":         func(m *session.Mark) { m.Seq, m.Head = 2, session.Hash{1} },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, sv := drained(t, 1, 3)
				f.commit(name(0), 1)
				sv.answer = answer
				m := outbox.NewMetrics("v", "go")
				s := syncer(f, sv, func(o *outbox.Options) { o.Metrics = m })
				if err := s.Drain(t.Context()); !errors.Is(err, session.ErrForked) || !strings.Contains(err.Error(), what) {
					t.Errorf("Drain: got %v, want ErrForked naming %q", err, what)
				}
				acked := uint64(3)
				switch what {
				case "event 2": // the server claims to have it in another form
					acked = 1
				case "older copy": // the server has all of it
					acked = 4
				}
				if l := f.lane(name(0)); l.Acked != acked || l.State != session.SyncForked {
					t.Errorf("lane: got %+v, want forked, %d acknowledged", l, acked)
				}
				if got := value(gather(t, m), "acode_sync_forked_lanes"); got != 1 {
					t.Errorf("forked lanes: got %v, want 1", got)
				}
			})
		})
	}
}

// If the store cannot be read to compare, no lane is forked.
func TestHashThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := drained(t, 1, 3)
		restore := sv.backup()
		f.commit(name(0), 3)
		if err := syncer(f, sv).Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		restore()
		f.broken["HashAt"] = &session.Error{Code: session.ErrStoreIO, Message: "unreadable"}
		if err := syncer(f, sv).Drain(t.Context()); !errors.Is(err, session.ErrStoreIO) {
			t.Errorf("Drain: got %v, want ErrStoreIO", err)
		}
		delete(f.broken, "HashAt")
		if err := syncer(f, sv).Drain(t.Context()); err != nil {
			t.Error(err)
		}
		fail(t, judge(f, sv, true))
	})
}

// Two servers answer behind one address, and one is older: the lane is not sent to and
// fro without end.
func TestMarksThatGoUpAndDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(1), 10)
		n := 0
		sv.answer = func(m *session.Mark) {
			if n++; n%2 == 1 {
				m.Seq, m.Head = 4, sv.chains[name(1)][3].Hash
			} else {
				m.Seq, m.Head = 2, sv.chains[name(1)][1].Hash
			}
		}
		s := syncer(f, sv)
		stop := running(t, s)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := sv.count("deliver"); got > 300 {
			t.Errorf("deliveries in ten minutes: got %d, want them spread", got)
		}
		sv.set(func() { sv.answer = nil })
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		fail(t, judge(f, sv, true))
		stop()
	})
}

// A person gives a parked row up: a stand-in takes its place, and no row is parked after
// it.
func TestDroppedRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(1), 9)
		poisoned(sv, name(1), 4)
		if err := syncer(f, sv).Drain(t.Context()); !errors.Is(err, session.ErrParked) {
			t.Fatalf("Drain: got %v, want ErrParked", err)
		}
		other := map[session.ID]uint64{name(1): 5}
		if err := syncer(f, sv, func(o *outbox.Options) { o.Dropped = other }).Drain(t.Context()); !errors.Is(err, session.ErrParked) {
			t.Errorf("Drain with another row dropped: got %v, want ErrParked", err)
		}
		dropped := map[session.ID]uint64{name(1): 4}
		if err := syncer(f, sv, func(o *outbox.Options) { o.Dropped = dropped }).Drain(t.Context()); err != nil {
			t.Errorf("Drain with the row dropped: got %v", err)
		}
		if l := f.lane(name(1)); l.Acked != 9 || l.Parked != 0 || l.State != session.SyncSynced || l.Reason != "" {
			t.Errorf("lane: got %+v, want all acknowledged and nothing parked", l)
		}
		f.commit(name(1), 1)
		if err := syncer(f, sv).Drain(t.Context()); err != nil || len(sv.chains[name(1)]) != 10 {
			t.Errorf("Drain of the next events: got %v", err)
		}
	})
}

// summed is a store whose lanes may not be listed.
type summed struct{ *store }

func (s summed) Lanes(context.Context) ([]session.Lane, error) {
	return nil, errors.New("every lane was listed")
}

// The syncer adds lanes up without listing them.
func TestStoreThatAddsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := summed{newStore()}, newServer()
		f.commit(name(1), 3)
		down(sv)
		s := syncer(f, sv)
		_ = s.Drain(t.Context())
		up(sv)
		if err := s.Drain(t.Context()); err != nil {
			t.Errorf("Drain: got %v", err)
		}
		fail(t, judge(f.store, sv, true))
	})
}

// After a pause in the middle of a backlog, deliveries in flight end and no other begins.
func TestPauseInABacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(1), 20000)
		sv.delay = 700 * time.Millisecond
		s := syncer(f, sv)
		stop := running(t, s)
		time.Sleep(time.Second)
		f.held.Store(true)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		calls := sv.count("deliver")
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := sv.count("deliver"); got != calls || s.Snapshot().State() != session.SyncPaused {
			t.Errorf("paused: got %d deliveries more in state %s, want none, paused", got-calls, s.Snapshot().State())
		}
		f.held.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		fail(t, judge(f, sv, true))
		stop()
	})
}

// Sessions that began since the server was connected count too.
func TestLanesAreCountedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		poisoned(sv, name(2), 4)
		s := syncer(f, sv)
		stop := running(t, s)
		time.Sleep(time.Minute)
		for n := range 3 {
			f.commit(name(n), 4)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		n := s.Snapshot()
		if n.Lanes[session.SyncSynced] != 2 || n.Lanes[session.SyncParked] != 1 || n.Enqueued != 12 {
			t.Errorf("Snapshot: got %+v, want 2 sessions synced, 1 parked and 12 events", n)
		}
		stop()
	})
}

// The count of committed events does not jump when a server appears for the first time.
func TestEnqueuedDoesNotJump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := drained(t, 3, 10)
		f.commit(name(1), 2)
		down(sv)
		s := syncer(f, sv)
		_ = s.Drain(t.Context())
		if got := s.Snapshot().Enqueued; got != 32 {
			t.Errorf("Enqueued in an outage: got %d, want 32", got)
		}
		up(sv)
		if err := s.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := s.Snapshot().Enqueued; got != 32 {
			t.Errorf("Enqueued after it: got %d, want 32", got)
		}
	})
}

// A person who pauses delivery need not wait for the end of a backlog.
func TestPausedInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		for n := range 6 {
			f.commit(name(n), 40_000)
		}
		sv.delay = 500 * time.Millisecond
		s := syncer(f, sv, func(o *outbox.Options) { o.Parallel = 1 })
		stop := running(t, s)
		time.Sleep(2 * time.Second)
		f.held.Store(true)
		time.Sleep(3 * time.Second)
		before := sv.count("deliver") + sv.count("copy")
		time.Sleep(5 * time.Second)
		if n := sv.count("deliver") + sv.count("copy"); n != before {
			t.Errorf("deliveries: got %d more, want none while a person paused delivery", n-before)
		}
		stop()
	})
}

// The end of the caller's context is no fault of the server.
func TestSettleEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		sv.fate = func(string) fate { return blackHole }
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if err := syncer(f, sv).Settle(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Settle: got %v, want the end of its context", err)
		}
	})
}

// If the server has even one event more than the store, the store is an older copy.
func TestStoreIsTheOlderCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := drained(t, 1, 3)
		f.commit(name(0), 1)
		sv.answer = func(m *session.Mark) { m.Seq, m.Head = 5, session.Hash{1} }
		if err := syncer(f, sv).Drain(t.Context()); !errors.Is(err, session.ErrForked) || !strings.Contains(err.Error(), "older copy") {
			t.Errorf("Drain: got %v, want ErrForked naming the older copy", err)
		}
	})
}
