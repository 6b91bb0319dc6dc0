package outbox_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/session"
)

// down makes every call of sv fail as an unreachable server does.
func down(sv *server) { sv.set(func() { sv.fate = func(string) fate { return requestLost } }) }

func up(sv *server) { sv.set(func() { sv.fate = nil }) }

// wallClock is a clock that follows the timers, plus the time that the test adds.
type wallClock struct{ ahead atomic.Int64 }

func (c *wallClock) now() time.Time {
	return time.Now().Round(0).Add(time.Duration(c.ahead.Load()))
}

func (c *wallClock) jump(d time.Duration) { c.ahead.Add(int64(d)) }

// O2, O5, FR-051: in an outage of a day and of a month, tries are bounded, no attempt is
// counted, and the age of pending events rises. The syncer notices the end of the outage
// within one backoff.
func TestOutage(t *testing.T) {
	for name0, length := range map[string]time.Duration{"day": 24 * time.Hour, "month": outageDays * 24 * time.Hour} {
		t.Run(name0, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, sv := newStore(), newServer()
				f.commit(name(1), 5)
				down(sv)
				s := syncer(f, sv)
				stop := running(t, s)
				time.Sleep(time.Minute)
				first := s.Snapshot()
				time.Sleep(length - time.Minute)
				f.commit(name(2), 5)
				s.Wake()
				synctest.Wait()
				tries := sv.count("hello")
				// Full jitter over a minute waits half a minute on average.
				if mean := int(length / (30 * time.Second)); tries < mean*9/10 || tries > mean*12/10 {
					t.Errorf("tries in %s: got %d, want about %d", length, tries, mean)
				}
				time.Sleep(5 * time.Second)
				synctest.Wait()
				got := s.Snapshot()
				if got.State() != session.SyncOffline || got.Backlog.Events != 10 || got.Backlog.OldestUS != first.Backlog.OldestUS || got.Backlog.OldestUS == 0 {
					t.Errorf("Snapshot: got %+v, want offline, 10 pending, the oldest as before", got)
				}
				up(sv)
				time.Sleep(time.Minute)
				synctest.Wait()
				fail(t, judge(f, sv, true))
				if got := s.Snapshot(); got.State() != session.SyncSynced || got.Up != true {
					t.Errorf("Snapshot after: got %+v", got)
				}
				stop()
			})
		})
	}
}

// A commit wakes an idle lane and never shortens a backoff; a kick does.
func TestWakeAndKick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(1), 1)
		down(sv)
		s := syncer(f, sv, func(o *outbox.Options) { o.Rand = func() float64 { return 0.999 } })
		stop := running(t, s)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		before := sv.count("hello")
		for range 100 {
			f.commit(name(1), 1)
			s.Wake()
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if got := sv.count("hello") - before; got > 1 {
			t.Errorf("tries while events come: got %d, want at most the one that was due", got)
		}
		before = sv.count("hello")
		s.Kick()
		synctest.Wait()
		if got := sv.count("hello") - before; got != 1 {
			t.Errorf("tries after a kick: got %d, want 1", got)
		}
		up(sv)
		s.Kick()
		synctest.Wait()
		fail(t, judge(f, sv, true))
		stop()
	})
}

// Clients that lose a connection come back spread over five seconds.
func TestFirstDelayAfterAConnectionIsSpread(t *testing.T) {
	var delays []time.Duration
	for i := range 40 {
		synctest.Test(t, func(t *testing.T) {
			f, sv := newStore(), newServer()
			f.commit(name(1), 1)
			s := syncer(f, sv, func(o *outbox.Options) { o.Rand = func() float64 { return float64(i) / 40 } })
			stop := running(t, s)
			synctest.Wait()
			down(sv)
			f.commit(name(1), 1)
			s.Wake()
			synctest.Wait()
			delays = append(delays, s.Snapshot().Backoff)
			stop()
		})
	}
	if delays[0] > time.Second || delays[39] < 4*time.Second || delays[39] > 5*time.Second || delays[20] < 2*time.Second {
		t.Errorf("first delays: got %v, want them spread over 0 to 5s", delays)
	}
}

// After a sleep of the machine the wait ends at once, although its timers stood still.
func TestSleepOfTheMachineEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &wallClock{}
		f, sv := newStore(), newServer()
		f.commit(name(1), 1)
		down(sv)
		s := syncer(f, sv, func(o *outbox.Options) {
			o.Now, o.Rand = clock.now, func() float64 { return 0.999 }
		})
		stop := running(t, s)
		time.Sleep(10*time.Minute + 5*time.Second)
		synctest.Wait()
		for s.Snapshot().Backoff < 50*time.Second || sv.at[len(sv.at)-1].Before(time.Now().Add(-10*time.Second)) {
			time.Sleep(time.Second)
			synctest.Wait()
		}
		up(sv)
		clock.jump(8 * time.Hour)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		fail(t, judge(f, sv, true))
		stop()
	})
}

// A wall clock that is set back or forward lengthens no wait of the syncer or of a lane.
func TestClockSteps(t *testing.T) {
	for name0, step := range map[string]time.Duration{"back_a_year": -365 * 24 * time.Hour, "forth_a_year": 365 * 24 * time.Hour, "back_a_minute": -time.Minute} {
		t.Run(name0, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock := &wallClock{}
				f, sv := newStore(), newServer()
				f.now = clock.now
				f.commit(name(1), 2)
				busy := true
				sv.fault = func(op string, _ session.Delivery) *session.SyncFault {
					if op == "deliver" && busy {
						return &session.SyncFault{Class: session.FaultServer, SQLState: "55P03", Cause: errors.New("lock")}
					}
					return nil
				}
				s := syncer(f, sv, func(o *outbox.Options) { o.Now = clock.now })
				stop := running(t, s)
				time.Sleep(5 * time.Minute)
				clock.jump(step)
				sv.set(func() { busy = false })
				time.Sleep(2*time.Minute + time.Second)
				synctest.Wait()
				fail(t, judge(f, sv, true))
				if got := s.Snapshot(); got.State() != session.SyncSynced {
					t.Errorf("Snapshot: got %+v", got)
				}
				stop()
			})
		})
	}
}

// O4: in a partition that swallows every packet, a call ends at its deadline. The syncer
// notices the end of the partition within one backoff.
func TestBlackHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(1), 400)
		s := syncer(f, sv, func(o *outbox.Options) { o.Timeout = 3 * time.Second })
		sv.fate = func(op string) fate {
			if op == "deliver" {
				return blackHole
			}
			return arrives
		}
		start := time.Now()
		if err := s.Drain(t.Context()); !errors.Is(err, session.ErrOffline) {
			t.Errorf("Drain: got %v, want ErrOffline", err)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("Drain in a partition: took %s, want the deadline of 3s", took)
		}
		up(sv)
		if err := s.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		fail(t, judge(f, sv, true))
		if sv.sizes[0] != 200 {
			t.Errorf("first batch after a time-out: got %d, want half of the one before", sv.sizes[0])
		}
	})
}

// A link that breaks under every batch but a small one still lets a backlog through, and
// long batches come back when the link is fixed.
func TestConnectionsThatBreakUnderBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(1), 5500)
		f.commit(name(2), 500)
		brittle := func(_ string, d session.Delivery) *session.SyncFault {
			if len(d.Events) > 10 {
				return &session.SyncFault{Class: session.FaultOffline, SQLState: "57P01", Cause: errNet}
			}
			return nil
		}
		sv.fault = brittle
		stop := running(t, syncer(f, sv))
		time.Sleep(time.Hour)
		synctest.Wait()
		fail(t, judge(f, sv, true))
		f.commit(name(1), 20000)
		sv.set(func() { sv.fault, sv.sizes = nil, nil })
		time.Sleep(time.Minute)
		synctest.Wait()
		fail(t, judge(f, sv, true))
		if got := len(sv.sizes); got > 40 {
			t.Errorf("batches of 20000 events over a fixed link: got %d, want them to grow", got)
		}
		stop()
	})
}

// A person's pause stops delivery, is shown, and ends within a second.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(1), 1)
		s := syncer(f, sv)
		f.held.Store(true)
		if err := s.Drain(t.Context()); !errors.Is(err, session.ErrSyncOff) {
			t.Errorf("Drain while paused: got %v, want ErrSyncOff", err)
		}
		stop := running(t, s)
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := s.Snapshot(); sv.count("hello") != 0 || got.State() != session.SyncPaused || !got.Heartbeat.Paused || got.Backlog.Events != 1 {
			t.Errorf("Snapshot: got %+v with %d hellos, want paused, 1 pending, none", got, sv.count("hello"))
		}
		f.held.Store(false)
		time.Sleep(time.Second)
		synctest.Wait()
		fail(t, judge(f, sv, true))
		stop()
	})
}
