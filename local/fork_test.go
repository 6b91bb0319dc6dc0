package local_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
	"github.com/google/go-cmp/cmp"
)

// forkOff forks the session of w.
func forkOff(t testing.TB, s *local.Store, w *local.Writer, shared uint64, unknown map[session.StepID]string) *session.Session {
	t.Helper()
	id, err := s.NewID()
	must(t, err)
	made, err := s.ForkOff(t.Context(), local.Fork{From: w.Session().ID, ID: id, Shared: shared, Unknown: unknown})
	must(t, err)
	return made
}

// Completed steps count as completed under the new id, with keys of the new session.
// Steps in progress stay so or become unknown. The old session ends.
func TestForkOffKeepsWhatWasDone(t *testing.T) {
	s := open(t, options(t))
	create(t, s, 1) // another session, so that numbers differ
	w := create(t, s, 5)
	big := strings.Repeat("x", 2*session.MaxPayloadBytes)
	appendAll(t, w, started(w, 0, 1), completed(w, 0, 1, session.FileState{Path: "a", Hash: "1", Wrote: true}))
	appendAll(t, w, started(w, 1, 1), session.Draft{Type: session.StepFailedEvent, Data: session.StepFailedData{
		StepID: stepID(1), Key: key(w, 1, 1), Attempt: 1, Code: session.ErrCommand, Message: big}})
	appendAll(t, w, started(w, 1, 2), completed(w, 1, 2))
	appendAll(t, w, started(w, 2, 1), started(w, 3, 1), tick())
	old := w.Session().ID
	made := forkOff(t, s, w, 4, map[session.StepID]string{stepID(2): "no one can know", stepID(0): "done"})

	loaded, err := s.Load(t.Context(), made.ID)
	must(t, err)
	defer loaded.Close()
	got := loaded.Session()
	before, err := s.View(t.Context(), old)
	must(t, err)
	if got.Short == before.Short || got.Done != 2 || got.Epoch != 1 || got.State != session.Executing || got.Plan != before.Plan || got.Workspace != "/ws" {
		t.Errorf("new session: got %+v", got)
	}
	for i, want := range map[int]session.Status{0: session.StepDone, 1: session.StepDone, 2: session.StepUncertain, 3: session.InProgress, 4: session.Pending} {
		if status := got.Status(stepID(i)); status != want {
			t.Errorf("step %d: got %s, want %s", i, status, want)
		}
		if st := got.Steps[stepID(i)]; st != nil && st.Key != (session.Key{Session: made.ID, Step: stepID(i), Operation: session.OpMain, Attempt: st.Attempt}).String() {
			t.Errorf("step %d: got the key %s", i, st.Key)
		}
	}
	if diff := cmp.Diff(before.Files, got.Files); diff != "" {
		t.Errorf("files (-old +new):\n%s", diff)
	}
	if before.State != session.Cancelled || !strings.Contains(before.Detail, got.Short) {
		t.Errorf("old session: got %s, %q", before.State, before.Detail)
	}
	events, err := s.Events(t.Context(), made.ID, 0, 1)
	must(t, err)
	var created session.SessionCreatedData
	must(t, events[0].Decode(&created))
	at, err := openOutbox(t, s).HashAt(t.Context(), old, 4)
	must(t, err)
	if diff := cmp.Diff(&session.ForkPoint{Session: old, Seq: 4, Hash: at.String()}, created.ForkedFrom); diff != "" {
		t.Errorf("forked_from (-want +got):\n%s", diff)
	}
	verified, err := s.Verify(t.Context(), "")
	must(t, err)
	if len(verified.Problems) > 0 {
		t.Errorf("Verify: got %v", verified.Problems)
	}
	appendAll(t, loaded, completed(loaded, 3, 1)) // the new session continues
	found, ok, err := s.ForkOf(t.Context(), old)
	must(t, err)
	if !ok || found.ID != made.ID || found.Short != made.Short {
		t.Errorf("ForkOf: got %+v, %v", found, ok)
	}
	if _, ok, err = s.ForkOf(t.Context(), made.ID); ok || err != nil {
		t.Errorf("ForkOf of the new one: got %v, %v", ok, err)
	}
}

// Events of every type are copied to the new history, also one whose payload is a blob.
func TestForkOffKeepsEveryType(t *testing.T) {
	opts := options(t)
	s := open(t, opts)
	id, err := s.NewID()
	must(t, err)
	w, err := s.Create(t.Context(), local.NewSession{ID: id, Task: "test", Workspace: "/ws", Plan: plan(3), Config: strings.Repeat("c", 2*session.MaxPayloadBytes)})
	must(t, err)
	defer w.Close()
	appendAll(t, w, acquire(s), session.Draft{Type: session.StateChanged, Data: session.StateChangedData{From: session.Planning, To: session.Executing}},
		session.Draft{Type: session.ChangesAccepted, Actor: "user", Data: session.ChangesAcceptedData{By: "person", Files: []session.FileState{{Path: "a", Hash: "1"}}}},
		session.Draft{Type: session.ApprovalRequested, Data: session.ApprovalRequestedData{StepID: stepID(0), Question: "?", Digest: "d"}},
		session.Draft{Type: session.ApprovalGranted, Data: session.ApprovalGrantedData{StepID: stepID(0), Digest: "d", By: "me", For: 2}},
		session.Draft{Type: session.ApprovalRequested, Data: session.ApprovalRequestedData{StepID: stepID(1), Question: "?", Digest: "e"}},
		session.Draft{Type: session.ApprovalDenied, Data: session.ApprovalDeniedData{StepID: stepID(1), Digest: "e", By: "me"}},
		started(w, 2, 1), session.Draft{Type: session.StepUnknown, Data: session.StepUnknownData{StepID: stepID(2), Key: key(w, 2, 1), Attempt: 1, Why: "?"}}, tick())
	before, err := s.Events(t.Context(), id, 0, 100)
	must(t, err)
	made := forkOff(t, s, w, 0, nil)
	after, err := s.Events(t.Context(), made.ID, 0, 100)
	must(t, err)
	types := func(events []session.Event) (out []string) {
		for _, e := range events {
			out = append(out, e.Actor+" "+string(e.Type))
		}
		return out
	}
	if diff := cmp.Diff(types(before), types(after)); diff != "" {
		t.Errorf("events (-old +new):\n%s", diff)
	}
	if a := made.Steps[stepID(0)].Approval; a == nil || a.For != 2 || made.Status(stepID(2)) != session.StepUncertain {
		t.Errorf("new session: got %+v, %s", a, made.Status(stepID(2)))
	}
	if found, ok, err := s.ForkOf(t.Context(), id); err != nil || !ok || found.ID != made.ID {
		t.Errorf("ForkOf: got %+v, %v, %v", found, ok, err)
	}
	read := openRead(t, opts)
	if _, err := read.ForkOff(t.Context(), local.Fork{From: made.ID, ID: id}); !errors.Is(err, session.ErrReadOnly) {
		t.Errorf("ForkOff of a store opened for reading: got %v", err)
	}
}

// The fork of a session that has ended has ended too, and the old session stays as it is.
func TestForkOffOfACompletedSession(t *testing.T) {
	s := open(t, options(t))
	w := create(t, s, 1)
	appendAll(t, w, session.Draft{Type: session.StateChanged, Data: session.StateChangedData{From: session.Executing, To: session.Completed}})
	last := w.Session().LastSeq
	made := forkOff(t, s, w, 1, nil)
	old, err := s.View(t.Context(), w.Session().ID)
	must(t, err)
	if made.State != session.Completed || old.State != session.Completed || old.LastSeq != last {
		t.Errorf("ForkOff: got %s, old %s with %d events, want %d", made.State, old.State, old.LastSeq, last)
	}
}

// A fork is one commit: a failure leaves neither a new session nor an end of the old one.
func TestForkOffIsAtomic(t *testing.T) {
	s := open(t, options(t))
	w := create(t, s, 2)
	appendAll(t, w, started(w, 0, 1), completed(w, 0, 1))
	must(t, s.Exec(t.Context(), `CREATE TRIGGER no_end BEFORE UPDATE ON sessions WHEN NEW.state = 'cancelled' BEGIN SELECT raise(ABORT, 'no'); END`))
	id, err := s.NewID()
	must(t, err)
	if _, err := s.ForkOff(t.Context(), local.Fork{From: w.Session().ID, ID: id}); err == nil {
		t.Fatalf("ForkOff: got nil, want the refusal of the store")
	}
	if _, err := s.View(t.Context(), id); !errors.Is(err, session.ErrUnknownID) {
		t.Errorf("new session: got %v, want none", err)
	}
	must(t, s.Exec(t.Context(), `DROP TRIGGER no_end`))
	forkOff(t, s, w, 0, nil)
	if _, err := w.Append(t.Context(), started(w, 1, 1)); !errors.Is(err, session.ErrFenced) {
		t.Errorf("Append by who executed it: got %v, want %s", err, session.ErrFenced)
	}
}

// A closed lane is neither pending nor in trouble in any query.
func TestClosedLaneIsNotPending(t *testing.T) {
	s := open(t, options(t))
	w := create(t, s, 2)
	o := openOutbox(t, s)
	acknowledge(t, o, w.Session().ID, 2)
	saveLane(t, o, session.Lane{Session: w.Session().ID, Acked: 2, State: session.SyncForked, Reason: "other", Remote: serverA})
	made := forkOff(t, s, w, 2, nil)
	lane, err := s.Lane(t.Context(), w.Session().ID)
	must(t, err)
	must(t, s.CloseLane(t.Context(), lane, made.Short))
	lane.Reason = "a drainer that was late"
	saveLane(t, o, lane)
	all, err := o.Lanes(t.Context()) // this adds missing sessions
	must(t, err)
	if len(all) != 2 || !all[0].WentOn() || all[1].WentOn() || all[0].State != session.SyncForked {
		t.Errorf("Lanes: got %+v", all)
	}
	if diff := cmp.Diff([]session.ID{made.ID}, ids(changed(t, o))); diff != "" {
		t.Errorf("Changed (-want +got):\n%s", diff)
	}
	b, err := o.Backlog(t.Context())
	must(t, err)
	_, lanes, seen, err := s.Sync(t.Context())
	must(t, err)
	if b.Events != made.LastSeq || b != seen || len(lanes) != 1 {
		t.Errorf("pending: got %+v, %+v, %+v, want the new session's %d events", b, seen, lanes, made.LastSeq)
	}
	went, err := s.WentOnLanes(t.Context())
	must(t, err)
	if len(went) != 1 || went[0].Session != w.Session().ID || !strings.Contains(went[0].Reason, made.Short) {
		t.Errorf("WentOnLanes: got %+v", went)
	}
}
