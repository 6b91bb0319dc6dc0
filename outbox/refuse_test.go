package outbox_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/session"
)

// poisoned makes sv refuse some events of session id.
func poisoned(sv *server, id session.ID, seqs ...uint64) {
	sv.poison = func(e session.Event) bool {
		for _, seq := range seqs {
			if e.Session == id && e.Seq == seq && !strings.HasPrefix(string(e.Payload), `{"withheld":`) {
				return true
			}
		}
		return false
	}
}

// A row that the server refuses is found by halving and parked with its reason after its
// attempts. Everything before it and every other session is delivered.
func TestPoisonRowIsBisectedAndParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(1), 3000)
		f.commit(name(2), 3000)
		poisoned(sv, name(1), 1717)
		var told []session.Lane
		s := syncer(f, sv, func(o *outbox.Options) { o.OnLane = func(l session.Lane) { told = append(told, l) } })
		err := s.Drain(t.Context())
		if !errors.Is(err, session.ErrParked) || !strings.Contains(err.Error(), "22021") {
			t.Errorf("Drain: got %v, want ErrParked with the reason", err)
		}
		fail(t, judge(f, sv, false))
		l := f.lane(name(1))
		if l.Acked != 1716 || l.Parked != 1717 || l.State != session.SyncParked || l.Attempts != 3 {
			t.Errorf("lane: got %+v, want everything before 1717, which is parked after 3 attempts", l)
		}
		if other := f.lane(name(2)); other.Acked != 3000 || other.State != session.SyncSynced {
			t.Errorf("other lane: got %+v, want all of it", other)
		}
		if len(told) != 1 || told[0].Parked != 1717 {
			t.Errorf("OnLane: got %+v, want the parked lane once", told)
		}
		if got := sv.count("deliver"); got > 40 {
			t.Errorf("deliveries: got %d, want about two for each halving", got)
		}
		if got := s.Snapshot(); got.State() != session.SyncParked || got.Lanes[session.SyncParked] != 1 {
			t.Errorf("Snapshot: got %+v", got)
		}

		// A person retries after the server was fixed.
		sv.set(func() { sv.poison = nil })
		f.saves = nil
		l.Parked, l.Attempts, l.State = 0, 0, session.SyncPending
		_ = f.SaveLane(t.Context(), l)
		if err := s.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		fail(t, judge(f, sv, true))
	})
}

// O3: the other sessions never wait for one with poison: they are delivered before its
// first wait ends.
func TestOthersNeverWaitForPoison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		for n := range 6 {
			f.commit(name(n), 1)
			poisoned(sv, name(0), 1)
		}
		s := syncer(f, sv, func(o *outbox.Options) { o.Parallel = 1; o.Rand = func() float64 { return 0.9 } })
		stop := running(t, s)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		for n := 1; n < 6; n++ {
			if l := f.lane(name(n)); l.Acked != 1 {
				t.Errorf("lane %d: got %+v, want it delivered", n, l)
			}
		}
		if l := f.lane(name(0)); l.Attempts != 1 || l.State != session.SyncRetrying {
			t.Errorf("lane with poison: got %+v, want one attempt", l)
		}
		if got := s.Snapshot(); got.State() != session.SyncRetrying || got.Backlog.Events != 1 {
			t.Errorf("Snapshot: got %+v, want retrying, 1 pending", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if l := f.lane(name(0)); l.Parked != 1 {
			t.Errorf("lane with poison: got %+v, want it parked", l)
		}
		stop()
	})
}

// A parked lane stays parked when its verified mark is read for earlier deliveries.
func TestParkedLaneIsVerified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(1), 3)
		poisoned(sv, name(1), 3)
		var told []session.Lane
		s := syncer(f, sv, func(o *outbox.Options) { o.OnLane = func(l session.Lane) { told = append(told, l) } })
		stop := running(t, s)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if l := f.lane(name(1)); l.Acked != 2 || l.Verified != 2 || l.Parked != 3 || l.State != session.SyncParked || l.Attempts != 3 {
			t.Errorf("lane: got %+v, want 2 events verified and the third parked", l)
		}
		if len(told) != 1 {
			t.Errorf("OnLane: got %+v, want the parked lane once", told)
		}
		stop()
	})
}

// With the policy Continue a stand-in keeps the row's place, and the lane continues, also
// past a second row, which is the last. A stand-in that is refused too waits for a
// person.
func TestParkedLaneContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(1), 50)
		poisoned(sv, name(1), 20, 50)
		var told []session.Lane
		s := syncer(f, sv, func(o *outbox.Options) {
			o.OnParked, o.OnLane = outbox.Continue, func(l session.Lane) { told = append(told, l) }
		})
		if err := s.Drain(t.Context()); err != nil {
			t.Errorf("Drain: got %v", err)
		}
		if l := f.lane(name(1)); l.Acked != 50 || l.Parked != 0 || l.State != session.SyncSynced || l.Reason != "" {
			t.Errorf("lane: got %+v, want all 50 and nothing parked any more", l)
		}
		if len(told) != 2 || told[0].Parked != 20 || told[1].Parked != 50 || !strings.Contains(told[1].Reason, "event 50") {
			t.Errorf("OnLane: got %+v, want both rows with their reasons", told)
		}
		if got := s.Snapshot().State(); got != session.SyncSynced {
			t.Errorf("state: got %s, want synced", got)
		}
		chain := sv.chains[name(1)]
		if got := string(chain[19].Payload); !strings.HasPrefix(got, `{"withheld":`) || strings.Contains(string(chain[20].Payload), "withheld") {
			t.Errorf("event 20 on the server: got %s, want a stand-in, and for that one only", got)
		}

		f.commit(name(2), 3)
		sv.set(func() { sv.poison = func(e session.Event) bool { return e.Session == name(2) && e.Seq == 2 } })
		if err := s.Drain(t.Context()); !errors.Is(err, session.ErrParked) {
			t.Errorf("Drain: got %v, want ErrParked", err)
		}
		if l := f.lane(name(2)); l.Acked != 1 || l.Parked != 2 {
			t.Errorf("lane: got %+v, want it to wait at 2", l)
		}
	})
}

// Rows that another session of the server holds make only their lane wait, and count no
// attempt.
func TestLockWaitIsTheLanesOwn(t *testing.T) {
	for _, state := range []string{"55P03", "40P01", "40001", "57014"} {
		synctest.Test(t, func(t *testing.T) {
			f, sv := newStore(), newServer()
			f.commit(name(1), 10)
			f.commit(name(2), 10)
			sv.fault = func(op string, d session.Delivery) *session.SyncFault {
				if op == "deliver" && d.Session == name(1) {
					return &session.SyncFault{Class: session.FaultServer, SQLState: state, Cause: errors.New("busy")}
				}
				return nil
			}
			s := syncer(f, sv)
			if err := s.Drain(t.Context()); !errors.Is(err, session.ErrOffline) || !strings.Contains(err.Error(), state) {
				t.Errorf("Drain: got %v, want ErrOffline with %s", err, state)
			}
			if l := f.lane(name(2)); l.Acked != 10 {
				t.Errorf("other lane: got %+v, want it delivered", l)
			}
			if l := f.lane(name(1)); l.Attempts != 0 || l.State != session.SyncRetrying {
				t.Errorf("lane: got %+v, want retrying without an attempt", l)
			}
			sv.set(func() { sv.fault = nil })
			if err := s.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			fail(t, judge(f, sv, true))
		})
	}
}

// While one session's trouble lasts, the heartbeat has its reason and its begin; an
// attempt that hangs does not end it.
func TestLockWaitIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(1), 10)
		f.commit(name(2), 10)
		sv.fault = func(op string, d session.Delivery) *session.SyncFault {
			if op == "deliver" && d.Session == name(1) && len(d.Events) > 0 {
				return &session.SyncFault{Class: session.FaultServer, SQLState: "57014", Cause: errors.New("busy")}
			}
			return nil
		}
		s := syncer(f, sv)
		stop := running(t, s)
		time.Sleep(30 * time.Second)
		sv.set(func() { sv.delay = 5 * time.Second })
		for range 300 {
			time.Sleep(time.Second)
			synctest.Wait()
			h := s.Snapshot().Heartbeat
			if since := time.Since(time.UnixMicro(h.SinceUS)); h.State != session.SyncRetrying || !strings.HasSuffix(h.Reason, ": busy (SQLSTATE 57014)") || since < 25*time.Second {
				t.Fatalf("heartbeat: got %s for %s, %q; want retrying all the time, and why", h.State, since, h.Reason)
			}
		}
		sv.set(func() { sv.fault, sv.delay = nil, 0 })
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if h := s.Snapshot().Heartbeat; h.State != session.SyncSynced || h.Reason != "" {
			t.Errorf("heartbeat: got %s, %q; want synced", h.State, h.Reason)
		}
		stop()
	})
}

// A server that accepts and takes nothing is not asked without end.
func TestMarkThatDoesNotRise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(1), 10)
		sv.answer = func(m *session.Mark) { m.Seq, m.Head = 0, session.Hash{} }
		s := syncer(f, sv)
		stop := running(t, s)
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := sv.count("deliver"); got > 200 {
			t.Errorf("deliveries in an hour: got %d, want about two a minute", got)
		}
		sv.set(func() { sv.answer = nil })
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		fail(t, judge(f, sv, true))
		stop()
	})
}

// Trouble of the store neither ends the syncer nor parks any row; a drain names it.
func TestTroubleOfTheStore(t *testing.T) {
	full := &session.Error{Code: session.ErrDiskFull, Message: "no room left"}
	for _, method := range []string{"Changed", "Totals", "Delivery", "SaveLane", "Blob", "Read"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, sv := newStore(), newServer()
				e := f.commit(name(1), 3)
				f.blobs["b"] = []byte("content")
				f.names[e[1].Hash] = []session.BlobRef{{Hash: "b", Bytes: 7}}
				f.broken[method] = full
				s := syncer(f, sv)
				if err := s.Drain(t.Context()); !errors.Is(err, session.ErrDiskFull) {
					t.Errorf("Drain: got %v, want ErrDiskFull", err)
				}
				if got := s.Snapshot().State(); got != session.SyncRetrying {
					t.Errorf("state: got %s, want retrying", got)
				}
				stop := running(t, s)
				time.Sleep(time.Minute)
				f.mu.Lock()
				delete(f.broken, method)
				f.mu.Unlock()
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				fail(t, judge(f, sv, true))
				stop()
			})
		})
	}
}

// Large content is uploaded once, before the event that names it. Sealed content is not
// uploaded.
func TestBlobsTravelFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		made := f.commit(name(1), 6)
		f.blobs["big"], f.blobs["other"], f.blobs["secret"] = []byte("big"), []byte("other"), []byte("secret")
		f.names[made[1].Hash] = []session.BlobRef{{Hash: "big", Bytes: 3}, {Hash: "secret", Sealed: true}}
		f.names[made[4].Hash] = []session.BlobRef{{Hash: "big", Bytes: 3}, {Hash: "other", Bytes: 5}}
		sv.fault = func(op string, d session.Delivery) *session.SyncFault {
			if op == "deliver" && len(sv.blobs) != 2 {
				return &session.SyncFault{Class: session.FaultRefused, Cause: errors.New("content is missing")}
			}
			return nil
		}
		lost := 2
		sv.fate = func(op string) fate {
			if op == "put" && lost > 0 {
				lost--
				return replyLost
			}
			return arrives
		}
		s := syncer(f, sv)
		for range 2 {
			if err := s.Drain(t.Context()); !errors.Is(err, session.ErrOffline) {
				t.Errorf("Drain: got %v, want ErrOffline", err)
			}
		}
		if err := s.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		fail(t, judge(f, sv, true))
		if len(sv.blobs) != 2 || string(sv.blobs["big"]) != "big" || sv.count("put") != 2 {
			t.Errorf("blobs: got %v by %d uploads, want big and other by 2", sv.blobs, sv.count("put"))
		}
	})
}

// Whole outputs are delivered only with WholeOutputs.
func TestWholeOutputs(t *testing.T) {
	for full, want := range map[bool]int{false: 1, true: 2} {
		synctest.Test(t, func(t *testing.T) {
			f, sv := newStore(), newServer()
			f.names[f.commit(name(1), 2)[1].Hash] = []session.BlobRef{{Hash: "ends", Bytes: 4}}
			f.blobs["ends"], f.blobs["whole"] = []byte("ends"), []byte("the whole")
			f.wholes = []session.BlobRef{{Hash: "whole", Bytes: 9}}
			s := outbox.New(outbox.Options{Source: f, Remote: sv, Now: time.Now, WholeOutputs: full})
			if err := s.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			if _, there := sv.blobs["whole"]; len(sv.blobs) != want || there != full {
				t.Errorf("blobs with WholeOutputs %v: got %v", full, sv.blobs)
			}
		})
	}
}

// A server that refuses content parks the event that names it.
func TestRefusedBlob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.names[f.commit(name(1), 6)[2].Hash] = []session.BlobRef{{Hash: "big", Bytes: 3}}
		poisoned(sv, name(1))
		sv.fault = func(op string, _ session.Delivery) *session.SyncFault {
			if op == "put" {
				return &session.SyncFault{Class: session.FaultRefused, SQLState: "54000", Cause: errors.New("too big")}
			}
			return nil
		}
		if err := syncer(f, sv).Drain(t.Context()); !errors.Is(err, session.ErrParked) {
			t.Errorf("Drain: got %v, want ErrParked", err)
		}
		if l := f.lane(name(1)); l.Acked != 2 || l.Parked != 3 {
			t.Errorf("lane: got %+v, want parked at 3", l)
		}
	})
}

// A passing fault of the server that meets every session concerns no single session: no
// lane waits for it. Earlier acknowledgements prove nothing; later ones do
// (TestServerFailsOverOneSession).
func TestServerFailsOverAllSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(0), 3)
		s := syncer(f, sv)
		stop := running(t, s)
		time.Sleep(time.Second)
		f.commit(name(1), 3)
		f.commit(name(2), 3)
		sv.set(func() {
			sv.fault = func(op string, d session.Delivery) *session.SyncFault {
				if op == "deliver" && len(d.Events) > 0 {
					return &session.SyncFault{Class: session.FaultServer, SQLState: "XX000", Cause: errors.New("internal error")}
				}
				return nil
			}
		})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		for n := range 3 {
			if l := f.lane(name(n)); l.State == session.SyncRetrying || l.NextUS != 0 || l.Attempts != 0 {
				t.Errorf("lane %d: got %+v, want it untouched", n, l)
			}
		}
		if h := s.Snapshot().Heartbeat; h.State != session.SyncRetrying {
			t.Errorf("heartbeat: got %s, want retrying", h.State)
		}
		sv.set(func() { sv.fault = nil })
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		fail(t, judge(f, sv, true))
		stop()
	})
}

// A row that makes the server fail, in a way that looks like passing trouble, holds only
// its own session, and is not parked.
func TestServerFailsOverOneSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		for n := range 30 {
			f.commit(name(n), 3)
		}
		sv.fault = func(_ string, d session.Delivery) *session.SyncFault {
			if d.Session == name(0) {
				return &session.SyncFault{Class: session.FaultServer, SQLState: "XX000", Cause: errors.New("internal error")}
			}
			return nil
		}
		s := syncer(f, sv)
		stop := running(t, s)
		time.Sleep(10 * time.Second)
		f.commit(name(31), 3)
		s.Wake()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		for n := 1; n < 32; n++ {
			if l := f.lane(name(n)); l.Pending() != 0 {
				t.Errorf("lane %d: got %+v, want it delivered", n, l)
			}
		}
		if l := f.lane(name(0)); l.Attempts != 0 || l.State != session.SyncRetrying || !strings.Contains(l.Reason, "internal error") {
			t.Errorf("lane: got %+v, want retrying without an attempt", l)
		}
		sv.set(func() { sv.fault = nil })
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		fail(t, judge(f, sv, true))
		stop()
	})
}

// Passing trouble of a lane that continues past its parked row does not hide that the row
// is parked.
func TestTroubleOfAParkedLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sv := newStore(), newServer()
		f.commit(name(1), 3)
		poisoned(sv, name(1), 2)
		parked := false
		sv.fault = func(op string, _ session.Delivery) *session.SyncFault {
			if op == "deliver" && parked {
				return &session.SyncFault{Class: session.FaultServer, SQLState: "55P03", Cause: errNet}
			}
			return nil
		}
		s := syncer(f, sv, func(o *outbox.Options) {
			o.OnParked, o.OnLane = outbox.Continue, func(session.Lane) { sv.set(func() { parked = true }) }
		})
		stop := running(t, s)
		time.Sleep(time.Minute)
		synctest.Wait()
		if l := f.lane(name(1)); l.State != session.SyncParked || l.Parked != 2 || !strings.Contains(l.Reason, "event 2") {
			t.Errorf("lane: got %+v, want it parked at 2 with its reason", l)
		}
		stop()
	})
}
