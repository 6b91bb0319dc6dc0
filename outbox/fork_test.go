package outbox_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/session"
)

// twins makes two stores that share events of session 0. The first store has delivered
// theirs more events, and the twin has ours.
func twins(t *testing.T, shared, theirs, ours int) (twin *store, sv *server) {
	t.Helper()
	f, sv := drained(t, 1, shared)
	twin = f.clone()
	twin.now = func() time.Time { return time.Now().Add(time.Hour) }
	f.commit(name(0), theirs)
	if err := syncer(f, sv).Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	twin.commit(name(0), ours)
	return twin, sv
}

// unfiled counts the events of a session above seq that the server has in no fork.
func unfiled(f *store, sv *server, id session.ID, seq int) (missing int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sv.mu.Lock()
	defer sv.mu.Unlock()
	for _, e := range f.events[id][seq:] {
		if sv.filed[id][e.Seq].Hash != e.Hash {
			missing++
		}
	}
	return missing
}

// No event of a divergent suffix is dropped. All of it is filed, even if it is longer
// than the server's own history, while other sessions are delivered. Then the lane sends
// no more.
func TestWholeForkIsFiled(t *testing.T) {
	for what, c := range map[string]struct {
		theirs, ours int
	}{
		"short":                 {3, 4},
		"below_the_server":      {12000, 9000},
		"above_the_server":      {3, 9000},
		"far_above_the_server":  {3, 60000},
		"the_older_copy_itself": {3000, 0},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, sv := twins(t, 5, c.theirs, c.ours)
				f.commit(name(1), 300)
				var told []session.Lane
				s := syncer(f, sv, func(o *outbox.Options) { o.OnLane = func(l session.Lane) { told = append(told, l) } })
				if err := s.Drain(t.Context()); !errors.Is(err, session.ErrForked) {
					t.Errorf("Drain: got %v, want ErrForked", err)
				}
				if got := unfiled(f, sv, name(0), 5); got != 0 || len(sv.filed[name(0)]) != c.ours {
					t.Errorf("not filed: got %d of %d, and %d filed", got, c.ours, len(sv.filed[name(0)]))
				}
				l := f.lane(name(0))
				if l.State != session.SyncForked || l.Acked != 5 || l.Pending() != uint64(c.ours) || len(told) != 1 {
					t.Errorf("lane: got %+v, told %d times, want forked with its suffix pending, once", l, len(told))
				}
				if l := f.lane(name(1)); l.Acked != 300 {
					t.Errorf("other lane: got %+v, want it delivered", l)
				}
				stop := running(t, s)
				time.Sleep(time.Hour)
				synctest.Wait()
				calls := sv.count("deliver")
				time.Sleep(time.Hour)
				synctest.Wait()
				if got := sv.count("deliver") - calls; got != 0 {
					t.Errorf("deliveries of a fork that is filed: got %d, want it to rest", got)
				}
				if c.ours > 0 {
					f.commit(name(0), 7)
					time.Sleep(10 * time.Second)
					synctest.Wait()
					if got := unfiled(f, sv, name(0), 5); got != 0 {
						t.Errorf("later events that are not filed: got %d", got)
					}
				}
				stop()
			})
		})
	}
}

// A fork may begin below the acknowledged mark: a server was restored from a backup, and
// then took events of another copy. The syncer finds the place and files the fork from
// there.
func TestForkBelowTheMark(t *testing.T) {
	for what, pending := range map[string]int{"nothing_pending": 0, "news": 40} {
		for _, theirs := range []int{1, 300, 5000} {
			t.Run(what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, sv := drained(t, 1, 100)
					restore := sv.backup()
					twin := f.clone()
					twin.now = func() time.Time { return time.Now().Add(time.Hour) }
					f.commit(name(0), 2900)
					if err := syncer(f, sv).Drain(t.Context()); err != nil {
						t.Fatal(err)
					}
					restore()
					twin.commit(name(0), theirs)
					if err := syncer(twin, sv).Drain(t.Context()); err != nil {
						t.Fatal(err)
					}
					f.commit(name(0), pending)
					if err := syncer(f, sv).Drain(t.Context()); !errors.Is(err, session.ErrForked) {
						t.Errorf("Drain: got %v, want ErrForked", err)
					}
					if got := unfiled(f, sv, name(0), 100); got != 0 {
						t.Errorf("not filed: got %d", got)
					}
					if l := f.lane(name(0)); l.Acked != 100 || l.State != session.SyncForked {
						t.Errorf("lane: got %+v, want it forked at 100", l)
					}
					fail(t, judge(twin, sv, true))
				})
			})
		}
	}
}

// A fork is filed in the end even if calls are lost. A new syncer files it again, which
// changes nothing.
func TestForkOverALossyLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := twins(t, 5, 3000, 3000)
		random := rand.New(rand.NewPCG(1, 1))
		sv.fate = func(string) fate { return fate(random.IntN(4)) }
		stop := running(t, syncer(f, sv))
		time.Sleep(time.Hour)
		synctest.Wait()
		stop()
		if got := unfiled(f, sv, name(0), 5); got != 0 {
			t.Errorf("not filed: got %d", got)
		}
		up(sv)
		if err := syncer(f, sv).Drain(t.Context()); !errors.Is(err, session.ErrForked) || len(sv.filed[name(0)]) != 3000 {
			t.Errorf("Drain: got %v with %d events filed, want ErrForked, 3000", err, len(sv.filed[name(0)]))
		}
	})
}

// A server that was restored to a state before its other history takes the session again.
func TestForkThatIsNoneAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := drained(t, 1, 5)
		restore := sv.backup()
		twin := f.clone()
		twin.now = func() time.Time { return time.Now().Add(time.Hour) }
		f.commit(name(0), 3)
		if err := syncer(f, sv).Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		twin.commit(name(0), 9)
		if err := syncer(twin, sv).Drain(t.Context()); !errors.Is(err, session.ErrForked) {
			t.Errorf("Drain: got %v, want ErrForked", err)
		}
		restore()
		if err := syncer(twin, sv).Drain(t.Context()); err != nil {
			t.Errorf("Drain: got %v", err)
		}
		fail(t, judge(twin, sv, true))
	})
}

// A row that is refused in a fork too, or trouble of the fork alone, stops no other
// session and does not change the lane's state.
func TestForkThatIsRefused(t *testing.T) {
	for class, state := range map[session.SyncFaultClass]string{session.FaultRefused: "22021", session.FaultServer: "55P03"} {
		synctest.Test(t, func(t *testing.T) {
			f, sv := twins(t, 5, 3000, 400)
			f.commit(name(1), 30)
			sv.fault = func(_ string, d session.Delivery) *session.SyncFault {
				for _, e := range d.Events {
					if e.Session == name(0) && e.Seq == 77 {
						return &session.SyncFault{Class: class, SQLState: state, Safe: true, Cause: errNet}
					}
				}
				return nil
			}
			if err := syncer(f, sv).Drain(t.Context()); !errors.Is(err, session.ErrForked) {
				t.Errorf("Drain: got %v, want ErrForked", err)
			}
			l := f.lane(name(0))
			if l.State != session.SyncForked || l.Parked != 0 || l.Attempts != 0 || l.Reason == "" {
				t.Errorf("lane: got %+v, want forked and nothing parked", l)
			}
			if class == session.FaultRefused && (!strings.Contains(l.Reason, "event 77") || unfiled(f, sv, name(0), 5) != 400-71) {
				t.Errorf("lane: got %+v with %d not filed, want those from 77 on", l, unfiled(f, sv, name(0), 5))
			}
			if l := f.lane(name(1)); l.Acked != 30 {
				t.Errorf("other lane: got %+v, want it delivered", l)
			}
		})
	}
}

// A lane whose session continues as another session is settled: the syncer sends none of
// it, and no drain fails because of it.
func TestLaneThatWentOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := twins(t, 5, 30, 4)
		l := f.lane(name(0))
		l.State, l.NextUS = session.SyncForked, math.MaxInt64
		_ = f.SaveLane(t.Context(), l)
		if err := syncer(f, sv).Drain(t.Context()); err != nil || len(sv.filed) != 0 {
			t.Errorf("Drain: got %v with %d sessions filed, want neither", err, len(sv.filed))
		}

		// while a syncer runs that knows the fork
		f, sv = twins(t, 5, 30, 0)
		s := syncer(f, sv)
		if err := s.Drain(t.Context()); !errors.Is(err, session.ErrForked) || s.Snapshot().State() != session.SyncForked {
			t.Errorf("Drain of an older copy: got %v in state %s, want forked", err, s.Snapshot().State())
		}
		l = f.lane(name(0))
		l.NextUS = math.MaxInt64
		_ = f.SaveLane(t.Context(), l)
		if err := s.Drain(t.Context()); err != nil || s.Snapshot().State() != session.SyncSynced {
			t.Errorf("Drain: got %v in state %s, want synced", err, s.Snapshot().State())
		}
	})
}

// File files a fork as a drain does, while another process may drain. Events that are
// there already change nothing, and later events are filed too.
func TestFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := twins(t, 5, 3000, 4000)
		if err := syncer(f, sv).Drain(t.Context()); !errors.Is(err, session.ErrForked) {
			t.Fatalf("Drain: got %v", err)
		}
		// a server that was restored from a backup
		sv.set(func() { sv.filed = map[session.ID]map[uint64]session.Event{} })
		s := syncer(f, sv)
		for _, more := range []int{0, 0, 700} {
			f.commit(name(0), more)
			got, err := s.File(t.Context(), f.lane(name(0)))
			if err != nil || got.Shared != 5 || got.Theirs != 3005 || got.Lane.State != session.SyncForked || got.Lane.Acked != 5 {
				t.Errorf("File: got %+v, %v", got, err)
			}
			if n := unfiled(f, sv, name(0), 5); n != 0 {
				t.Errorf("not filed: got %d", n)
			}
		}
	})
}

// File waits as long as the server requests, but not for one lane's trouble.
func TestFileAndItsTroubles(t *testing.T) {
	meets := func(seq uint64, fault session.SyncFault) func(*server) {
		return func(sv *server) {
			sv.fault = func(_ string, d session.Delivery) *session.SyncFault {
				if slices.ContainsFunc(d.Events, func(e session.Event) bool { return e.Seq == seq }) {
					return &fault
				}
				return nil
			}
		}
	}
	for what, c := range map[string]struct {
		spoil func(sv *server)
		want  error
		took  time.Duration
	}{
		"offline":  {down, session.ErrOffline, 0},
		"other":    {func(sv *server) { sv.id.Database = "other" }, session.ErrOtherRemote, 0},
		"locked":   {meets(77, session.SyncFault{Class: session.FaultServer, SQLState: "55P03", Safe: true, Cause: errNet}), session.ErrOffline, 0},
		"poisoned": {meets(77, session.SyncFault{Class: session.FaultRefused, SQLState: "22021", Safe: true, Cause: errNet}), session.ErrForked, 0},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, sv := twins(t, 5, 30, 100)
				l := f.lane(name(0))
				l.State = session.SyncForked
				_ = f.SaveLane(t.Context(), l)
				c.spoil(sv)
				begin := time.Now()
				if _, err := syncer(f, sv).File(t.Context(), f.lane(name(0))); !errors.Is(err, c.want) {
					t.Errorf("File: got %v, want %v", err, c.want)
				}
				if took := time.Since(begin); took < c.took || took > c.took+time.Second {
					t.Errorf("File: took %s, want %s", took, c.took)
				}
				if n := unfiled(f, sv, name(0), 5); c.want == nil && n != 0 {
					t.Errorf("not filed: got %d", n)
				}
			})
		})
	}
}

// A lane that the server takes again is not filed, and neither is one that was never
// forked.
func TestFileOfNoFork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := drained(t, 1, 5)
		got, err := syncer(f, sv).File(t.Context(), f.lane(name(0)))
		if err != nil || got.Lane != f.lane(name(0)) || len(sv.filed) != 0 {
			t.Errorf("File: got %+v, %v", got, err)
		}
		f.commit(name(0), 4)
		l := f.lane(name(0))
		l.State = session.SyncForked
		_ = f.SaveLane(t.Context(), l)
		if got, err = syncer(f, sv).File(t.Context(), l); err != nil || got.Lane.State != session.SyncSynced || got.Lane.Acked != 9 {
			t.Errorf("File of a lane that is no fork any more: got %+v, %v", got, err)
		}
		fail(t, judge(f, sv, true))
	})
}
