package local_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
	"github.com/google/go-cmp/cmp"
)

// syncOf reads the state of delivery through a store that is open for reading only.
func syncOf(t *testing.T, s *local.Store) (session.Heartbeat, []session.Lane, session.Backlog) {
	t.Helper()
	h, lanes, b, err := s.Sync(t.Context())
	if err != nil {
		t.Fatalf("Sync: %v", err)
	}
	return h, lanes, b
}

// FR-046, FR-047: a store open for reading returns which process delivers, which events
// are pending and which lanes need a person.
func TestSyncSaysHowDeliveryStands(t *testing.T) {
	opts := options(t)
	s := open(t, opts)
	rd := openRead(t, opts)
	if h, lanes, b := syncOf(t, rd); h != (session.Heartbeat{}) || lanes != nil || b != (session.Backlog{}) {
		t.Errorf("Sync of an empty store: got %+v, %+v, %+v", h, lanes, b)
	}
	pending, settled, forked := create(t, s, 1).Session().ID, create(t, s, 1).Session().ID, create(t, s, 1).Session().ID
	o := openOutbox(t, s)
	acknowledge(t, o, settled, 4)
	ahead := session.Lane{Session: forked, LastSeq: 4, Acked: 9, Epoch: 3, State: session.SyncForked, Reason: "our store is the older copy", Remote: serverA}
	saveLane(t, o, ahead)
	_, enlisted, _ := syncOf(t, rd)
	must(t, o.RemoveDelivered(t.Context(), []int64{1, 2, 3}))
	h := session.Heartbeat{
		PID: 42, StartedUS: 1, BeatUS: 2, Command: "syncer", State: session.SyncOffline, Reason: "no route", SinceUS: 3, LastUS: 4, AttemptUS: 5, NextUS: 6,
		Remote: serverA, Address: "db.example:5432/acode",
	}
	must(t, o.Beat(t.Context(), session.Heartbeat{PID: 41, Paused: true}))
	must(t, o.Beat(t.Context(), h))
	got, lanes, b := syncOf(t, rd)
	if diff := cmp.Diff(enlisted, lanes); diff != "" {
		t.Errorf("lanes before and after the delivered sessions left the outbox: (-before +after)\n%s", diff)
	}
	if diff := cmp.Diff(h, got); diff != "" {
		t.Errorf("heartbeat: (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]session.Lane{{Session: pending, LastSeq: 4}, ahead}, lanes); diff != "" {
		t.Errorf("lanes: (-want +got)\n%s", diff)
	}
	if b.Sessions != 1 || b.Events != 4 || b.OldestUS == 0 {
		t.Errorf("backlog: got %+v", b)
	}
	if l, err := rd.Lane(t.Context(), settled); err != nil || l.Verified != 4 || l.LastSeq != 4 {
		t.Errorf("Lane: got %+v, %v", l, err)
	}
	if _, err := rd.Lane(t.Context(), "nobody"); !errors.Is(err, session.ErrUnknownID) {
		t.Errorf("Lane of an unknown session: got %v", err)
	}
	if r := verify(t, rd); len(r.Problems) != 0 {
		t.Errorf("Verify: %v", r.Problems)
	}
}

// A pause holds in every process, and a heartbeat does not change it.
func TestPauseIsForEveryProcess(t *testing.T) {
	opts := options(t)
	s, other := open(t, opts), open(t, opts)
	o := openOutbox(t, other)
	for _, want := range []bool{true, false} {
		must(t, s.PauseSync(t.Context(), want))
		must(t, o.Beat(t.Context(), session.Heartbeat{PID: 1, Paused: !want}))
		if got, err := o.Paused(t.Context()); err != nil || got != want {
			t.Errorf("Paused: got %v, %v, want %v", got, err, want)
		}
		if h, _, _ := syncOf(t, s); h.Paused != want || h.PID != 1 {
			t.Errorf("Sync: got %+v, want paused %v", h, want)
		}
	}
	if err := openRead(t, opts).PauseSync(t.Context(), true); !errors.Is(err, session.ErrReadOnly) {
		t.Errorf("PauseSync of a store for reading: got %v", err)
	}
}

// Events that one database acknowledged are pending again for another.
func TestOtherRemoteBeginsAnew(t *testing.T) {
	s := open(t, options(t))
	a, b := create(t, s, 1).Session().ID, create(t, s, 1).Session().ID
	o := openOutbox(t, s)
	first := session.RemoteIdentity{System: "7001", Database: "acode", Schema: "acode"}
	saveLane(t, o, session.Lane{Session: b, State: session.SyncRetrying, Reason: "not yet"})
	must(t, s.BindRemote(t.Context(), first))
	acknowledge(t, o, a, 4)
	must(t, o.RemoveDelivered(t.Context(), []int64{1, 2}))
	must(t, s.BindRemote(t.Context(), first)) // another address of the same database
	if got := changed(t, o); !slices.Equal(ids(got), []session.ID{b}) || got[0].Reason != "not yet" {
		t.Errorf("Changed with the same database: got %+v", got)
	}
	second := session.RemoteIdentity{System: "7002", Database: "acode", Schema: "acode"}
	must(t, s.BindRemote(t.Context(), second))
	got := changed(t, o)
	if diff := cmp.Diff([]session.Lane{{Session: a, LastSeq: 4}, {Session: b, LastSeq: 4, State: session.SyncRetrying, Reason: "not yet"}}, got); diff != "" {
		t.Errorf("Changed with another database: (-want +got)\n%s", diff)
	}
	if _, acked, err := o.Totals(t.Context()); err != nil || len(acked) != 0 {
		t.Errorf("Totals: got %v, %v", acked, err)
	}
}

// Lanes describe a server and are not part of a session's signed state.
func TestLanesAreNotSigned(t *testing.T) {
	opts := options(t)
	s := open(t, opts)
	w := create(t, s, 1)
	o := openOutbox(t, s)
	acknowledge(t, o, w.Session().ID, 2)
	must(t, o.Close())
	must(t, s.Close())
	tamper(t, opts, `UPDATE lanes SET acked = 99, epoch = 7, reason = 'x'; DELETE FROM sync`)
	s = open(t, opts)
	if got := load(t, s, w.Session().ID).Session(); got.LastSeq != 4 {
		t.Errorf("Load: got seq %d", got.LastSeq)
	}
	if r := verify(t, s); len(r.Problems) != 0 {
		t.Errorf("Verify: %v", r.Problems)
	}
	must(t, s.PauseSync(t.Context(), true))
	if h, _, _ := syncOf(t, s); !h.Paused {
		t.Error("PauseSync of a store that lost its row: not paused")
	}
}

// A row that cannot be read leaves no cursor open. An open cursor would prevent the
// restart of the log.
func TestUnreadableLanesHoldNobodyUp(t *testing.T) {
	opts := options(t)
	s := open(t, opts)
	for range 2 { // a cursor ends by itself with the last row
		acknowledge(t, openOutbox(t, s), create(t, s, 1).Session().ID, 3)
	}
	must(t, s.Close())
	loosely(t, opts, `UPDATE lanes SET acked = 'three'`)
	s = open(t, opts)
	o := openOutbox(t, s)
	must(t, s.Exec(t.Context(), `PRAGMA busy_timeout = 0`))
	for name, read := range map[string]func() error{
		"Changed": func() error { _, err := o.Changed(t.Context()); return err },
		"Lanes":   func() error { _, err := o.Lanes(t.Context()); return err },
		"Totals":  func() error { _, _, err := o.Totals(t.Context()); return err },
	} {
		if err := read(); !errors.Is(err, session.ErrCorrupt) {
			t.Errorf("%s: got %v, want %v", name, err, session.ErrCorrupt)
		}
		must(t, s.Exec(t.Context(), `UPDATE sync SET turn = turn + 1`)) // something to copy back
		if busy, err := s.Truncate(t.Context()); err != nil || busy {
			t.Errorf("a checkpoint after %s: got busy %v, %v; want no cursor in its way", name, busy, err)
		}
	}
}

// Lanes finds a session that is missing in the outbox for any reason.
func TestLanesMendTheOutbox(t *testing.T) {
	s := open(t, options(t))
	a, b := create(t, s, 1).Session().ID, create(t, s, 1).Session().ID
	o := openOutbox(t, s)
	acknowledge(t, o, b, 4)
	must(t, s.Exec(t.Context(), `DELETE FROM outbox`))
	if got := changed(t, o); len(got) != 0 {
		t.Fatalf("Changed of an outbox that lacks everything: got %+v", got)
	}
	if lanes, err := o.Lanes(t.Context()); err != nil || len(lanes) != 2 {
		t.Errorf("Lanes: got %+v, %v", lanes, err)
	}
	if nos, err := o.Enlisted(t.Context()); err != nil || !slices.Equal(nos, []int64{1}) {
		t.Errorf("the outbox has sessions %v, %v", nos, err)
	}
	if got := changed(t, o); !slices.Equal(ids(got), []session.ID{a}) {
		t.Errorf("Changed: got %+v", got)
	}
}
