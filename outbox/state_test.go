package outbox_test

import (
	stdcmp "cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/session"
)

// states notes what OnState is told.
type states struct {
	mu   sync.Mutex
	told []string
}

func (s *states) note(h session.Heartbeat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, string(h.State))
}

// FR-047: an outage is told once, its end when something is delivered, and then that all is.
func TestOnStateTellsEachTurnOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(1), 1)
		var got states
		s := syncer(f, sv, func(o *outbox.Options) { o.OnState = got.note })
		stop := running(t, s)
		time.Sleep(5 * time.Second)
		down(sv)
		f.commit(name(1), 2000)
		time.Sleep(time.Hour)
		sv.set(func() { sv.fate, sv.delay = nil, time.Second })
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		stop()
		want := []string{"synced", "offline", "pending", "synced"}
		if diff := cmp.Diff(want, got.told); diff != "" {
			t.Errorf("states told (-want +got):\n%s", diff)
		}
		if f.beat.State != session.SyncSynced || f.beat.PID != 4711 || f.beat.Command != "test" || f.beat.Remote != "7/acode/acode" {
			t.Errorf("heartbeat in the store: got %+v", f.beat)
		}
	})
}

// A server that greets and refuses every delivery is one lasting trouble, not many short ones.
func TestTroubleLastsWhileNothingIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(1), 1)
		sv.fault = func(op string, _ session.Delivery) *session.SyncFault {
			if op == "deliver" {
				return &session.SyncFault{Class: session.FaultDiskFull, SQLState: "53100", Cause: errors.New("no space")}
			}
			return nil
		}
		var got states
		s := syncer(f, sv, func(o *outbox.Options) { o.OnState = got.note })
		stop := running(t, s)
		time.Sleep(time.Hour)
		synctest.Wait()
		if h := s.Snapshot().Heartbeat; h.SinceUS > h.StartedUS+time.Now().UnixMicro()-time.Hour.Microseconds() || len(got.told) != 1 {
			t.Errorf("states told: got %v since %d, want disk_full once, since the start", got.told, h.SinceUS)
		}
		if n := sv.count("deliver"); n > 200 {
			t.Errorf("deliveries in an hour: got %d, want about two a minute: a greeting must not reset the backoff", n)
		}
		stop()
	})
}

// What the drainer before knew is kept through an outage.
func TestHeartbeatIsCarriedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		down(sv)
		before := session.Heartbeat{State: session.SyncOffline, SinceUS: 7, LastUS: 5}
		s := syncer(f, sv, func(o *outbox.Options) { o.Heartbeat = before })
		_ = s.Drain(t.Context())
		if h := s.Snapshot().Heartbeat; h.SinceUS != 7 || h.LastUS != 5 || h.NextUS != 0 {
			t.Errorf("heartbeat: got %+v, want since 7, last success 5, and no next attempt of a drain that ended", h)
		}
	})
}

// The first state that a syncer finds is told also where the one before it found the same, and
// nothing else of the one before is taken for its own.
func TestCarriedStateIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		down(sv)
		var got states
		before := session.Heartbeat{State: session.SyncOffline, Reason: "away", SinceUS: 7, LastUS: 5, BeatUS: 9, AttemptUS: 9, NextUS: 11}
		s := syncer(f, sv, func(o *outbox.Options) { o.Heartbeat, o.OnState = before, got.note })
		want := session.Heartbeat{State: session.SyncOffline, Reason: "away", SinceUS: 7, LastUS: 5}
		if h := s.Snapshot().Heartbeat; h != want {
			t.Errorf("heartbeat before anything: got %+v, want %+v", h, want)
		}
		_, _ = s.Drain(t.Context()), s.Drain(t.Context())
		up(sv)
		_ = s.Drain(t.Context())
		if diff := cmp.Diff([]string{"offline", "synced"}, got.told); diff != "" {
			t.Errorf("states told (-want +got):\n%s", diff)
		}
		if h := s.Snapshot().Heartbeat; h.SinceUS <= 7 {
			t.Errorf("heartbeat: got %+v, want a new state since now", h)
		}
	})
}

// However a drain ends, the heartbeat that it leaves is of that moment and says how it ended.
func TestHeartbeatAtTheEnd(t *testing.T) {
	refused := func(string, session.Delivery) *session.SyncFault {
		return &session.SyncFault{Class: session.FaultAuth, SQLState: "28P01", Cause: errors.New("no")}
	}
	for way, c := range map[string]struct {
		spoil func(f *store, sv *server, s *outbox.Syncer)
		want  session.SyncState // of Drain
		run   session.SyncState // of Run; empty: the same
	}{
		"delivered":  {func(*store, *server, *outbox.Syncer) {}, session.SyncSynced, ""},
		"offline":    {func(_ *store, sv *server, _ *outbox.Syncer) { down(sv) }, session.SyncOffline, ""},
		"refused":    {func(_ *store, sv *server, _ *outbox.Syncer) { sv.fault = refused }, session.SyncAuthFailed, ""},
		"paused":     {func(_ *store, _ *server, s *outbox.Syncer) { s.Pause() }, session.SyncPaused, ""},
		"parked":     {func(_ *store, sv *server, _ *outbox.Syncer) { poisoned(sv, name(1), 12) }, session.SyncPending, ""},
		"its_time":   {func(_ *store, sv *server, _ *outbox.Syncer) { sv.delay = time.Minute }, session.SyncSynced, session.SyncPending},
		"the_store":  {func(f *store, _ *server, _ *outbox.Syncer) { f.broken["SaveLane"] = errors.New("full") }, session.SyncRetrying, ""},
		"other_base": {func(_ *store, sv *server, _ *outbox.Syncer) { sv.id.Database = "other" }, session.SyncOtherDatabase, ""},
	} {
		for _, end := range []string{"Drain", "Run"} {
			t.Run(way+"_"+end, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, sv := drained(t, 3, 10)
					s := syncer(f, sv, func(o *outbox.Options) { o.Rand = func() float64 { return 0 } })
					if err := s.Drain(t.Context()); err != nil {
						t.Fatal(err)
					}
					f.commit(name(1), 10)
					time.Sleep(3 * time.Second) // a heartbeat is not due again
					c.spoil(f, sv, s)
					s.Kick()
					ctx, cancel := context.WithTimeout(t.Context(), 1700*time.Millisecond)
					defer cancel()
					want := c.want
					if end == "Drain" {
						_ = s.Drain(ctx)
					} else {
						_ = s.Run(ctx)
						want = stdcmp.Or(c.run, want)
					}
					if h := f.beat; h.BeatUS != time.Now().UnixMicro() || h.State != want || h.NextUS != 0 || s.Snapshot().Leader {
						t.Errorf("heartbeat left in the store: got %+v, want one of now, %s", h, want)
					}
				})
			})
		}
	}
}

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
		if got := s.Snapshot(); got.State() != session.SyncPending || got.Backlog.Events == 0 || got.InFlight != 1 {
			t.Errorf("Snapshot: got %+v in state %s, want pending with one in flight", got, got.State())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		fail(t, judge(f, sv, true))
		stop()
	})
}

// Another process pauses: it is asked for, and where that cannot be read delivery goes on.
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
	for _, way := range []string{"call", "lane", "silence"} {
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
				case "silence":
					sv.answer = func(m *session.Mark) { m.RetryAfter = time.Minute }
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

// A drain waits for what a server asked for and goes on.
func TestDrainHonoursRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(1), 300)
		sv.answer = func(m *session.Mark) { m.RetryAfter = 10 * time.Second }
		start := time.Now()
		if err := syncer(f, sv).Drain(t.Context()); err != nil || time.Since(start) != 10*time.Second {
			t.Errorf("Drain: got %v after %s, want 10s", err, time.Since(start))
		}
		fail(t, judge(f, sv, true))
	})
}

// A drain is a barrier: it ends although commits never do.
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

// loose is a server whose errors break the promise of Remote.
type loose struct {
	*server
	err error
}

func (l loose) Hello(context.Context, string) (session.Hello, error) { return session.Hello{}, l.err }

// An error that is no fault parks nothing and is taken for what it most likely is.
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

// A mark that cannot be ours: too high, or of another chain.
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
				case "event 2": // which the server says to have in another form
					acked = 1
				case "older copy": // of which the server has all
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

// The store cannot be read to compare: nothing is forked for that.
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

// Two servers behind one address, of which one is older: the lane is not sent to and fro
// without end.
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

// A person gives a parked row up: a stand-in takes its place, and nothing is parked after it.
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
			t.Errorf("Drain of what follows: got %v", err)
		}
	})
}

// summed is a store that adds up by itself.
type summed struct{ *store }

func (s summed) Lanes(context.Context) ([]session.Lane, error) {
	return nil, errors.New("every lane was listed")
}

func (s summed) Totals(ctx context.Context) (outbox.Totals, error) {
	all, err := s.store.Lanes(ctx)
	t := outbox.Totals{Lanes: len(all), Acked: map[string]uint64{}}
	for _, l := range all {
		t.Acked[l.Remote] += l.Acked
	}
	return t, err
}

func (s summed) PendingBytes(context.Context) (int64, error) { return 4711, s.broken["PendingBytes"] }

// A store that can add up is not listed for it.
func TestStoreThatAddsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := summed{newStore()}, newServer()
		f.commit(name(1), 3)
		down(sv)
		s := syncer(f, sv)
		_ = s.Drain(t.Context())
		if got := s.Snapshot().Bytes; got != 4711 {
			t.Errorf("Bytes: got %d, want 4711", got)
		}
		up(sv)
		if err := s.Drain(t.Context()); err != nil {
			t.Errorf("Drain: got %v", err)
		}
		fail(t, judge(f.store, sv, true))
	})
}

// Paused in the middle of a backlog: what is in flight ends, and nothing else begins.
func TestPauseInABacklog(t *testing.T) {
	for _, way := range []string{"here", "elsewhere"} {
		synctest.Test(t, func(t *testing.T) {
			f, sv := newStore(), newServer()
			f.commit(name(1), 20000)
			sv.delay = 700 * time.Millisecond
			var mu sync.Mutex
			elsewhere := false
			s := syncer(f, sv, func(o *outbox.Options) {
				o.Paused = func(context.Context) (bool, error) {
					mu.Lock()
					defer mu.Unlock()
					return elsewhere, nil
				}
			})
			stop := running(t, s)
			time.Sleep(time.Second)
			if way == "here" {
				s.Pause()
			} else {
				mu.Lock()
				elsewhere = true
				mu.Unlock()
			}
			time.Sleep(3 * time.Second)
			synctest.Wait()
			calls := sv.count("deliver") + sv.count("copy")
			time.Sleep(time.Hour)
			synctest.Wait()
			if got := sv.count("deliver") + sv.count("copy"); got != calls || s.Snapshot().State() != session.SyncPaused {
				t.Errorf("paused %s: got %d deliveries more in state %s, want none, paused", way, got-calls, s.Snapshot().State())
			}
			mu.Lock()
			elsewhere = false
			mu.Unlock()
			s.Unpause()
			time.Sleep(time.Minute)
			synctest.Wait()
			fail(t, judge(f, sv, true))
			stop()
		})
	}
}

// The count of what was committed does not jump when a server appears for the first time.
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
