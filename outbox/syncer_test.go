package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/session"
)

func syncer(f outbox.Source, sv outbox.Remote, change ...func(*outbox.Options)) *outbox.Syncer {
	o := outbox.Options{Source: f, Remote: sv, Now: time.Now, Heartbeat: session.Heartbeat{PID: 4711, Command: "test"}}
	if st, ok := f.(*store); ok {
		o.Paused = st.paused
	}
	for _, c := range change {
		c(&o)
	}
	return outbox.New(o)
}

// fail reports findings.
func fail(t *testing.T, findings []string) {
	t.Helper()
	for _, f := range findings {
		t.Error(f)
	}
}

// FR-053: every pending event reaches the server, in order, once.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		for n := range 7 {
			f.commit(name(n), 300*n+1)
		}
		sv.delay = 10 * time.Millisecond
		s := syncer(f, sv)
		if err := s.Drain(t.Context()); err != nil {
			t.Fatalf("Drain: got %v", err)
		}
		fail(t, judge(f, sv, true))
		if sv.maxOpen < 2 || sv.maxOpen > 4 {
			t.Errorf("calls in flight: got at most %d, want 2 to 4", sv.maxOpen)
		}
		if got := s.Snapshot(); got.State() != session.SyncSynced || got.Backlog.Events != 0 || got.Heartbeat.LastUS == 0 {
			t.Errorf("Snapshot: got %+v", got)
		}
		hellos := sv.count("hello")
		if err := s.Drain(t.Context()); err != nil || sv.count("hello") != hellos+1 {
			t.Errorf("Drain again: got %v and %d hellos, want another", err, sv.count("hello")-hellos)
		}
	})
}

// FR-051: each class of fault has its state and its code and stops every lane. It changes
// no lane, and the syncer catches up when it is over.
func TestFaultsOfTheServer(t *testing.T) {
	for _, c := range []struct {
		class session.SyncFaultClass
		state session.SyncState
		code  session.Code
	}{
		{session.FaultOffline, session.SyncOffline, session.ErrOffline},
		{session.FaultServer, session.SyncRetrying, session.ErrOffline},
		{session.FaultReadOnly, session.SyncServerReadonly, session.ErrOffline},
		{session.FaultDiskFull, session.SyncDiskFull, session.ErrOffline},
		{session.FaultAuth, session.SyncAuthFailed, session.ErrRemoteAuth},
		{session.FaultUnmigrated, session.SyncServerUnmigrated, session.ErrRemoteOld},
		{session.FaultTooNew, session.SyncClientTooNew, session.ErrRemoteOld},
	} {
		for _, op := range []string{"hello", "deliver"} {
			t.Run(fmt.Sprintf("%s_%s", c.class, op), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, sv := newStore(), newServer()
					f.commit(name(1), 3)
					sv.fault = func(o string, _ session.Delivery) *session.SyncFault {
						if o == op {
							return &session.SyncFault{Class: c.class, Cause: errNet}
						}
						return nil
					}
					s := syncer(f, sv)
					err := s.Drain(t.Context())
					if !errors.Is(err, c.code) || err.Error() == "" {
						t.Errorf("Drain: got %v, want %s", err, c.code)
					}
					got := s.Snapshot()
					if got.State() != c.state || got.Heartbeat.Reason == "" || got.Heartbeat.LastUS != 0 || got.Heartbeat.AttemptUS == 0 {
						t.Errorf("Snapshot: got %+v, want %s with reason and no success", got.Heartbeat, c.state)
					}
					if len(f.saves) != 0 {
						t.Errorf("lanes written: got %+v, want none", f.saves)
					}
					sv.set(func() { sv.fault = nil })
					if err := s.Drain(t.Context()); err != nil {
						t.Errorf("Drain after: got %v", err)
					}
					fail(t, judge(f, sv, true))
				})
			})
		}
	}
}

// running starts Run and returns a stop that waits for its end.
func running(t *testing.T, s *outbox.Syncer) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: got %v, want context.Canceled", err)
		}
	}
}

// FR-050: a commit of this process is delivered at once, one of another process within a
// poll.
func TestRunFollowsCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(1), 1)
		s := syncer(f, sv)
		stop := running(t, s)
		time.Sleep(3300 * time.Millisecond)
		synctest.Wait()
		f.commit(name(1), 1)
		s.Wake()
		synctest.Wait()
		fail(t, judge(f, sv, true))
		f.commit(name(1), 1)
		time.Sleep(time.Second)
		synctest.Wait()
		fail(t, judge(f, sv, true))
		stop()
	})
}

// O3: waiting lanes keep their turn when they are read again: a lane with a long backlog
// never goes twice before another lane that is ready.
func TestLanesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		for n := range 4 {
			f.commit(name(n), 20_000)
		}
		var order []session.ID
		sv.delay = 100 * time.Millisecond
		sv.fault = func(op string, d session.Delivery) *session.SyncFault {
			if op == "deliver" {
				order = append(order, d.Session)
			}
			return nil
		}
		s := syncer(f, sv, func(o *outbox.Options) { o.Parallel = 1 })
		stop := running(t, s)
		for range 40 {
			time.Sleep(30 * time.Millisecond)
			s.Wake()
		}
		stop()
		if len(order) < 9 {
			t.Fatalf("deliveries: got %d, want 9 or more", len(order))
		}
		for i := 4; i < len(order); i++ {
			if order[i] != order[i-4] {
				t.Errorf("delivery %d is of %s, want %s: %q", i, order[i], order[i-4], order)
				break
			}
		}
	})
}
