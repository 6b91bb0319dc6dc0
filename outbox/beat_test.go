package outbox_test

import (
	stdcmp "cmp"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/session"
)

// states records the states that OnState is called with.
type states struct {
	mu   sync.Mutex
	told []string
}

func (s *states) note(h session.Heartbeat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, string(h.State))
}

// FR-047: an outage is reported once, then the first delivery after it, and then that
// everything is delivered.
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

// A server that greets and refuses every delivery is one lasting trouble, not many short
// ones.
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

// The heartbeat of the earlier drainer is kept through an outage.
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

// A syncer that ends before its first look does not replace a heartbeat that another
// process wrote since.
func TestHeartbeatOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		s := syncer(f, sv, func(o *outbox.Options) { o.Heartbeat = session.Heartbeat{State: session.SyncSynced} })
		f.beat = session.Heartbeat{State: session.SyncOtherDatabase}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Run: got %v", err)
		}
		if f.beat.State != session.SyncOtherDatabase || s.Snapshot().Leader {
			t.Errorf("heartbeat: got %+v, want the earlier one, and no leader", f.beat)
		}
	})
}

// The first state that a syncer finds is reported even if the earlier syncer found the
// same. No other field of the earlier syncer is kept.
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

// The last heartbeat of a drain is written at its end and says how it ended.
func TestHeartbeatAtTheEnd(t *testing.T) {
	refused := func(string, session.Delivery) *session.SyncFault {
		return &session.SyncFault{Class: session.FaultAuth, SQLState: "28P01", Cause: errors.New("no")}
	}
	for way, c := range map[string]struct {
		spoil func(f *store, sv *server, s *outbox.Syncer)
		// want is the state after Drain.
		want session.SyncState
		// run is the state after Run; empty means the same.
		run session.SyncState
	}{
		"delivered":  {func(*store, *server, *outbox.Syncer) {}, session.SyncSynced, ""},
		"offline":    {func(_ *store, sv *server, _ *outbox.Syncer) { down(sv) }, session.SyncOffline, ""},
		"refused":    {func(_ *store, sv *server, _ *outbox.Syncer) { sv.fault = refused }, session.SyncAuthFailed, ""},
		"paused":     {func(f *store, _ *server, _ *outbox.Syncer) { f.held.Store(true) }, session.SyncPaused, ""},
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
					// no heartbeat is due yet
					time.Sleep(3 * time.Second)
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

// Pending events are counted before the first attempt is over: if the server is silent, a
// new syncer must not report that no event is pending.
func TestBacklogBeforeTheFirstAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(1), 3)
		sv.delay = time.Hour
		s := syncer(f, sv)
		stop := running(t, s)
		synctest.Wait()
		if n := s.Snapshot(); n.Backlog.Events != 3 || n.Backlog.OldestUS == 0 {
			t.Errorf("backlog before the first answer: got %+v, want 3 events", n.Backlog)
		}
		stop()
	})
}
