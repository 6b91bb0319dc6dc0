package outbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/session"
)

// drained makes a store and a server with the same content.
func drained(t *testing.T, sessions, events int) (*store, *server) {
	t.Helper()
	f, sv := newStore(), newServer()
	for n := range sessions {
		f.commit(name(n), events)
	}
	if err := syncer(f, sv).Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f, sv
}

// O1: a server restored from a backup gets the missing events again, even if no new event
// is pending.
func TestServerRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := drained(t, 3, 10)
		restore := sv.backup()
		f.commit(name(0), 10)
		// the restored server does not have this session at all
		f.commit(name(7), 4)
		if err := syncer(f, sv).Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		restore()
		if err := syncer(f, sv).Drain(t.Context()); err != nil {
			t.Errorf("Drain after the restore: got %v", err)
		}
		fail(t, judge(f, sv, true))
	})
}

// The syncer notices a restore while it runs and its connection does not break, also if
// the mark of a delivery shows it first.
func TestServerRestoredUnderARunningSyncer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		s := syncer(f, sv)
		stop := running(t, s)
		f.commit(name(1), 10)
		time.Sleep(2 * time.Second)
		restore := sv.backup()
		f.commit(name(1), 10)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		sv.set(func() {})
		restore()
		f.commit(name(1), 5)
		s.Wake()
		synctest.Wait()
		fail(t, judge(f, sv, true))

		restore = sv.backup()
		f.commit(name(2), 5)
		time.Sleep(2 * time.Second)
		restore()
		time.Sleep(time.Minute)
		synctest.Wait()
		fail(t, judge(f, sv, true))
		stop()
	})
}

// A restored server has lost the content that events name too. The syncer sends it again,
// whether a greeting or a delivery shows the restore.
func TestServerRestoredWithoutItsBlobs(t *testing.T) {
	for _, way := range []string{"greeting", "delivery"} {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, sv := newStore(), newServer()
				f.commit(name(1), 10)
				s := syncer(f, sv)
				stop := running(t, s)
				synctest.Wait()
				restore := sv.backup()
				f.blobs["big"] = []byte("big")
				made := f.commit(name(1), 10)
				f.mu.Lock()
				f.names[made[3].Hash] = []session.BlobRef{{Hash: "big", Bytes: 3}}
				f.mu.Unlock()
				time.Sleep(2 * time.Second)
				synctest.Wait()
				fail(t, judge(f, sv, true))
				restore()
				if way == "delivery" {
					f.commit(name(1), 1)
					s.Wake()
				} else {
					s.Kick()
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				fail(t, judge(f, sv, true))
				stop()
			})
		})
	}
}

// With many sessions the comparison walks pages of marks.
func TestCompareByPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := drained(t, 1203, 1)
		sv.set(func() {
			for n := range 1203 {
				if n%7 == 0 {
					delete(sv.chains, name(n))
					delete(sv.seen, name(n))
				}
			}
		})
		if err := syncer(f, sv).Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		fail(t, judge(f, sv, true))
		if got := sv.count("marks"); got != 3 {
			t.Errorf("pages: got %d, want 3", got)
		}
	})
}

// repeating is a server that always returns its first page of marks.
type repeating struct{ *server }

func (r repeating) Marks(ctx context.Context, device string, _ session.ID, limit int) ([]session.Mark, error) {
	return r.server.Marks(ctx, device, "", limit)
}

// A server that repeats a page is not asked without end. Sessions without a mark are sent
// again, which changes nothing.
func TestServerThatRepeatsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := drained(t, 1203, 1)
		sv.set(func() {
			delete(sv.chains, name(7))
			delete(sv.seen, name(7))
		})
		if err := syncer(f, repeating{sv}).Drain(t.Context()); err != nil {
			t.Errorf("Drain: got %v", err)
		}
		fail(t, judge(f, sv, true))
		if got := sv.count("marks"); got > 5 {
			t.Errorf("pages: got %d, want an end after the first that comes again", got)
		}
	})
}

// Unchanged lanes cost nothing once there is a connection, and a pass after a comparison
// needs no other comparison.
func TestCostFollowsWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := drained(t, 500, 2)
		s := syncer(f, sv)
		stop := running(t, s)
		synctest.Wait()
		f.reads = 0
		for range 20 {
			f.commit(name(3), 1)
			time.Sleep(10 * time.Second)
		}
		synctest.Wait()
		fail(t, judge(f, sv, true))
		if f.reads > 100 {
			t.Errorf("lanes read for 20 commits: got %d of 500, want a few each", f.reads)
		}
		if got := sv.count("marks"); got != 0 {
			t.Errorf("comparisons: got %d, want none", got)
		}
		stop()
	})
}

// Another database gets no event and is named in the error; the earlier one continues.
func TestOtherDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := drained(t, 2, 3)
		f.commit(name(1), 1)
		other := newServer()
		other.id.System = "8"
		s := syncer(f, other)
		err := s.Drain(t.Context())
		if !errors.Is(err, session.ErrOtherRemote) || !strings.Contains(err.Error(), "8/acode/acode") || !strings.Contains(err.Error(), "7/acode/acode") {
			t.Errorf("Drain: got %v, want ErrOtherRemote with both identities", err)
		}
		if got := s.Snapshot().State(); got != session.SyncOtherDatabase {
			t.Errorf("state: got %s, want other_database", got)
		}
		if other.count("deliver")+other.count("marks")+other.count("missing") != 0 {
			t.Errorf("calls to the other database: got %v, want hello alone", other.calls)
		}
		if err := syncer(f, sv).Drain(t.Context()); err != nil {
			t.Errorf("Drain to the earlier database: got %v", err)
		}
		fail(t, judge(f, sv, true))
	})
}

// A person corrects a name that led to another database while the wrong one is connected:
// the next attempt makes a new connection.
func TestCorrectedAddress(t *testing.T) {
	for name, spoil := range map[string]func(sv *server){
		"other_database":  func(sv *server) { sv.id.Database = "other" },
		"server_readonly": func(sv *server) { sv.ro = true },
	} {
		synctest.Test(t, func(t *testing.T) {
			f, sv := drained(t, 2, 3)
			right, before := sv.id, sv.count("hello")
			spoil(sv)
			s := syncer(f, sv)
			stop := running(t, s)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if got := s.Snapshot().State(); string(got) != name || sv.count("reset") == 0 || sv.count("reset") != sv.count("hello")-before {
				t.Errorf("%s: got state %s, %d attempts and %d resets, want one after each", name, got, sv.count("hello")-before, sv.count("reset"))
			}
			sv.set(func() { sv.id, sv.ro = right, false })
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			if got := s.Snapshot().State(); got != session.SyncSynced {
				t.Errorf("%s: got state %s after it was corrected, want synced", name, got)
			}
			stop()
		})
	}
}

// The address leads to another database while the syncer runs.
func TestOtherDatabaseUnderARunningSyncer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(1), 3)
		s := syncer(f, sv)
		stop := running(t, s)
		synctest.Wait()
		sv.set(func() { sv.id.Database = "other" })
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := s.Snapshot().State(); got != session.SyncOtherDatabase {
			t.Errorf("state: got %s, want other_database", got)
		}
		before := sv.count("deliver")
		f.commit(name(1), 3)
		time.Sleep(5 * time.Minute)
		if got := sv.count("deliver") - before; got != 0 {
			t.Errorf("deliveries to the other database: got %d, want none", got)
		}
		sv.set(func() { sv.id.Database = "acode" })
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		fail(t, judge(f, sv, true))
		stop()
	})
}

// The syncer notices a store restored from an older copy, even if it has no pending
// events.
func TestStoreRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := drained(t, 2, 5)
		old := f.clone()
		f.commit(name(1), 5)
		// unknown to the older copy
		f.commit(name(9), 5)
		if err := syncer(f, sv).Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		var told []session.Lane
		s := syncer(old, sv, func(o *outbox.Options) { o.OnLane = func(l session.Lane) { told = append(told, l) } })
		if err := s.Drain(t.Context()); !errors.Is(err, session.ErrForked) {
			t.Errorf("Drain of the older copy: got %v, want ErrForked", err)
		}
		if l := old.lane(name(1)); l.State != session.SyncForked || !strings.Contains(l.Reason, "older copy") || l.Acked != 5 {
			t.Errorf("lane: got %+v, want forked: the store is the older copy", l)
		}
		if l := old.lane(name(0)); l.State == session.SyncForked {
			t.Errorf("lane that is the same: got %+v", l)
		}
		if got := s.Snapshot(); got.Unknown != 10 || len(told) != 1 {
			t.Errorf("Snapshot: got %d unknown events and %d lanes told, want 10 and 1", got.Unknown, len(told))
		}
		marks := sv.count("marks")
		if err := s.Drain(t.Context()); !errors.Is(err, session.ErrForked) {
			t.Errorf("Drain again: got %v, want ErrForked", err)
		}
		if got := sv.count("marks"); got != marks {
			t.Errorf("comparisons for the same difference: got %d more, want none", got-marks)
		}
		old.commit(name(1), 1)
		if err := s.Drain(t.Context()); !errors.Is(err, session.ErrForked) || len(sv.chains[name(1)]) != 10 {
			t.Errorf("Drain: got %v, want ErrForked and nothing sent", err)
		}
	})
}

// After a store was copied, one copy continues, the other is forked, and no event of
// either is lost.
func TestCopiedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := drained(t, 1, 5)
		twin := f.clone()
		twin.now = func() time.Time { return time.Now().Add(time.Hour) }
		f.commit(name(0), 3)
		twin.commit(name(0), 2)
		if err := syncer(f, sv).Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := syncer(twin, sv).Drain(t.Context()); !errors.Is(err, session.ErrForked) {
			t.Errorf("Drain of the twin: got %v, want ErrForked", err)
		}
		fail(t, judge(f, sv, true))
		if l := twin.lane(name(0)); l.State != session.SyncForked || l.Acked != 5 || l.Pending() != 2 {
			t.Errorf("lane of the twin: got %+v, want forked with 2 pending", l)
		}
	})
}

// A delivery of an earlier epoch is fenced, and the lane says which process must stop.
func TestFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := drained(t, 1, 5)
		f.commit(name(0), 1)
		sv.set(func() {
			e := sv.chains[name(0)][4]
			e.Seq, e.Epoch = 6, 2
			e.Hash = e.ChainHash(sv.chains[name(0)][4].Hash)
			sv.insert(e)
		})
		s := syncer(f, sv)
		if err := s.Drain(t.Context()); !errors.Is(err, session.ErrFenced) {
			t.Errorf("Drain: got %v, want ErrFenced: the marks are compared first, and do not say it", err)
		}
		if l := f.lane(name(0)); l.State != session.SyncFenced || l.Acked != 5 || unfiled(f, sv, name(0), 5) != 0 {
			t.Errorf("lane: got %+v, want fenced at 5, and filed", l)
		}
		f, sv = drained(t, 1, 5)
		f.commit(name(0), 1)
		sv.answer = func(m *session.Mark) { m.Verdict, m.Epoch = session.DeliveryFenced, 2 }
		if err := syncer(f, sv).Drain(t.Context()); !errors.Is(err, session.ErrFenced) {
			t.Errorf("Drain: got %v, want ErrFenced", err)
		}
		if l := f.lane(name(0)); l.State != session.SyncFenced || l.Acked != 5 {
			t.Errorf("lane: got %+v, want fenced at 5", l)
		}
	})
}

// A read-only server gets no event and has its own state, even if no event is pending.
func TestReadOnlyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := drained(t, 1, 5)
		sv.ro = true
		s := syncer(f, sv)
		if err := s.Drain(t.Context()); !errors.Is(err, session.ErrOffline) || s.Snapshot().State() != session.SyncServerReadonly {
			t.Errorf("Drain: got %v in state %s, want ErrOffline, server_readonly", err, s.Snapshot().State())
		}
	})
}

// An idle syncer has the server verify and project, and reads the verified mark. A fault
// of these chores stops no delivery.
func TestChores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(1), 5000)
		s := syncer(f, sv)
		stop := running(t, s)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if l := f.lane(name(1)); l.Verified != 5000 || sv.projected == 0 {
			t.Errorf("lane: got %+v with %d projections, want all verified and projected", l, sv.projected)
		}
		sv.set(func() {
			sv.fault = func(op string, _ session.Delivery) *session.SyncFault {
				if op == "verify" || op == "project" {
					return &session.SyncFault{Class: session.FaultUnmigrated, Cause: errNet}
				}
				return nil
			}
		})
		f.commit(name(1), 1)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		fail(t, judge(f, sv, true))
		if got := s.Snapshot().State(); got != session.SyncSynced {
			t.Errorf("state: got %s, want synced", got)
		}
		before := sv.count("verify")
		time.Sleep(9 * time.Minute)
		if got := sv.count("verify") - before; got != 0 {
			t.Errorf("chores while nothing happens: got %d, want none", got)
		}
		stop()
		sv.set(func() { sv.fault = nil })
		if err := s.Settle(t.Context()); err != nil || sv.verified != 5001 {
			t.Errorf("Settle: got %v, %d verified", err, sv.verified)
		}
		down(sv)
		s.Kick()
		if err := s.Settle(t.Context()); !errors.Is(err, session.ErrOffline) {
			t.Errorf("Settle without a server: got %v, want ErrOffline", err)
		}
	})
}

// A lane that began with another database is not sent to this one, even if none of its
// events is acknowledged now.
func TestLaneOfAnotherDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(1), 3)
		l := f.lane(name(1))
		l.Remote = "8/acode/acode"
		f.lanes[name(1)] = l
		if err := syncer(f, sv).Drain(t.Context()); !errors.Is(err, session.ErrOtherRemote) {
			t.Errorf("Drain: got %v, want ErrOtherRemote", err)
		}
		if n := sv.count("deliver") + sv.count("copy"); n != 0 {
			t.Errorf("deliveries: got %d, want none", n)
		}
	})
}
