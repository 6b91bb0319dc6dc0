package session_test

import (
	"bytes"
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/acode-dev/acode/internal/history"
	"github.com/acode-dev/acode/session"
)

// FR-036: replay of any legal history returns the state in the generator's model, and
// returns the same state again.
func TestReplayIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events, model := history.DrawModel(t)
		first, order, err := session.Replay(slices.Clone(events))
		if err != nil {
			t.Fatalf("Replay of %d legal events: %v", len(events), err)
		}
		again, order2, err := session.Replay(slices.Clone(events))
		if d := cmp.Diff(first, again); d != "" || err != nil || order != order2 {
			t.Errorf("Replay twice: %v, orders %v and %v, states (-first +second):\n%s", err, order, order2, d)
		}
		if d := cmp.Diff(model, modelOf(first)); d != "" {
			t.Errorf("Replay (-books +replayed):\n%s", d)
		}
		if order.Count != len(events) || order.First != events[0].ID || order.Last != events[len(events)-1].ID {
			t.Errorf("order: got %+v, want the first, the last and the number of %d events", order, len(events))
		}
		if first.LastSeq != uint64(len(events)) || first.Head != events[len(events)-1].Hash {
			t.Errorf("end: got seq %d, head %s, want those of the last event", first.LastSeq, first.Head)
		}
	})
}

// modelOf converts a replayed session to the generator's model.
func modelOf(s *session.Session) history.Model {
	m := history.Model{
		Session: s.ID, Short: s.Short, State: s.State, Left: s.Left, Reason: s.Reason, Epoch: s.Epoch, Inputs: s.Inputs, Done: s.Done,
		Steps: map[session.StepID]session.Status{}, Attempt: map[session.StepID]int{}, Calls: s.Calls, Ops: map[session.StepID]session.Status{}, Talks: map[session.StepID]*history.Talk{}, Held: map[uint64]session.StepID{},
		Files: map[string]string{}, Wrote: map[string]bool{},
	}
	for id, st := range s.Steps {
		m.Steps[id] = st.Status
		for _, seq := range st.Held {
			m.Held[seq] = id
		}
		if t := st.Talk; t != nil {
			m.Talks[id] = &history.Talk{Turn: t.Turn, Attempt: t.Attempt, Calls: t.Calls, Begun: t.First > 0, Asked: t.Asked > 0, Failed: t.Failed, Digest: t.Digest}
		}
		if st.Attempt > 0 {
			m.Attempt[id] = st.Attempt
		}
	}
	for id, op := range s.Ops {
		m.Ops[id], m.Attempt[id] = op.Status, op.Attempt
	}
	for path, f := range s.Files {
		m.Files[path], m.Wrote[path] = f.Hash, f.Wrote
	}
	return m
}

// FR-034, FR-035, I5: events replay to one state in any order of arrival.
func TestReplayOfAnyPermutation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := history.Draw(t)
		want, order, err := session.Replay(slices.Clone(events))
		if err != nil {
			t.Fatal(err)
		}
		shuffled := rapid.Permutation(events).Draw(t, "shuffled")
		got, order2, err := session.Replay(shuffled)
		if d := cmp.Diff(want, got); d != "" || err != nil || order != order2 {
			t.Errorf("Replay of a permutation: %v, orders %v and %v, states (-in order +shuffled):\n%s", err, order, order2, d)
		}
	})
}

// I1: a state depends only on the state before it and one event.
func TestReplayOfAPrefixGoesOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := history.Draw(t)
		cut := rapid.IntRange(1, len(events)).Draw(t, "cut")
		s, _, err := session.Replay(slices.Clone(events[:cut]))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events[cut:] {
			if _, err := s.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		want, _, err := session.Replay(slices.Clone(events))
		if d := cmp.Diff(want, s); d != "" || err != nil {
			t.Errorf("Apply after a prefix: %v (-whole +continued):\n%s", err, d)
		}
	})
}

// The clock of a generated history does step back. Otherwise the properties would prove
// nothing about such clocks.
func TestHistoriesCoverEveryType(t *testing.T) {
	seen := map[session.EventType]int{}
	ticks, ends := 0, 0
	look := func(t *rapid.T) {
		events := history.Draw(t)
		for i, e := range events {
			seen[e.Type]++
			if i > 0 && e.TimeUS == events[i-1].TimeUS+1 {
				ticks++
			}
		}
		s, _, err := session.Replay(events)
		if err == nil && s.State.Terminal() {
			ends++
		}
	}
	// operations are rare
	for range 40 {
		rapid.Check(t, look)
	}
	for _, kind := range session.EventTypes {
		if seen[kind] == 0 {
			t.Errorf("no history has a %s", kind)
		}
	}
	if ticks == 0 || ends == 0 {
		t.Errorf("histories: %d events after a step back of the clock, %d ended sessions, want some of both", ticks, ends)
	}
}

// FR-038: Order reports, with the place, an order by time that differs from the order by
// seq.
func TestOrderFlagsTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := history.Draw(t)
		if len(events) < 2 {
			return // Two events are needed.
		}
		i := rapid.IntRange(1, len(events)-1).Draw(t, "late")
		j := rapid.IntRange(0, i-1).Draw(t, "before")
		events[i].TimeUS = events[j].TimeUS - 1
		_, err := session.Order(slices.Clone(events))
		var e *session.Error
		if !errors.Is(err, session.ErrOrder) || !errors.As(err, &e) || e.Place == "" {
			t.Errorf("Order with event %d before event %d: got %v, want %s with a place", i+1, j+1, err, session.ErrOrder)
		}
		if _, _, err := session.Replay(events); !errors.Is(err, session.ErrOrder) {
			t.Errorf("Replay: got %v, want %s", err, session.ErrOrder)
		}
	})
}

// FR-038: Order also reports a missing seq and a seq that occurs twice.
func TestOrderFlagsSeq(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := history.Draw(t)
		if len(events) < 3 {
			return // Three events are needed.
		}
		i := rapid.IntRange(1, len(events)-2).Draw(t, "at")
		hole := slices.Delete(slices.Clone(events), i, i+1)
		if _, err := session.Order(hole); !errors.Is(err, session.ErrOrder) {
			t.Errorf("Order without event %d: got %v, want %s", i+1, err, session.ErrOrder)
		}
		twice := slices.Insert(slices.Clone(events), i, events[i])
		if _, err := session.Order(twice); !errors.Is(err, session.ErrOrder) {
			t.Errorf("Order with event %d twice: got %v, want %s", i+1, err, session.ErrOrder)
		}
	})
}

// FR-035: events with the same time are ordered by id.
func TestOrderByID(t *testing.T) {
	events := []session.Event{{ID: [16]byte{2}, Seq: 2, TimeUS: 5}, {ID: [16]byte{3}, Seq: 3, TimeUS: 5}, {ID: [16]byte{1}, Seq: 1, TimeUS: 5}}
	o, err := session.Order(events)
	if err != nil || o.First != [16]byte{1} || o.Last != [16]byte{3} {
		t.Errorf("Order of one time: got %v, %v, want ids 1 to 3", o, err)
	}
	events[0].Seq, events[1].Seq = 2, 1
	if _, err := session.Order(events); !errors.Is(err, session.ErrOrder) {
		t.Errorf("Order of ids against seqs: got %v, want %s", err, session.ErrOrder)
	}
	empty, err := session.Order(nil)
	if err != nil || empty.Count != 0 || empty.Digest == "" || empty.Digest == o.Digest {
		t.Errorf("Order of nothing: got %+v, %v, want a count of 0 and a digest of its own", empty, err)
	}
}

// An event applies only once. The second time its seq is wrong; with a forged seq the
// rules refuse it.
func TestApplyTwiceIsRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := history.Draw(t)
		s, _, err := session.Replay(slices.Clone(events))
		if err != nil {
			t.Fatal(err)
		}
		before, _, _ := session.Replay(slices.Clone(events))
		e := rapid.SampledFrom(events).Draw(t, "again")
		if _, err := s.Apply(e); !errors.Is(err, session.ErrOrder) {
			t.Errorf("Apply of event %d again: got %v, want %s", e.Seq, err, session.ErrOrder)
		}
		if d := cmp.Diff(before, s); d != "" {
			t.Errorf("the refused event changed the state:\n%s", d)
		}
		forged := relink(s, e)
		_, err = s.Apply(forged)
		once := slices.Contains([]session.EventType{session.StepStarted, session.StepCompleted, session.SessionCreated, session.ExecutionAcquired}, e.Type)
		if once && err == nil {
			t.Errorf("Apply of a %s again under a new seq: got nil, want an error", e.Type)
		}
	})
}

// relink makes e the next event after s, with a correct hash.
func relink(s *session.Session, e session.Event) session.Event {
	e.Seq, e.TimeUS = s.LastSeq+1, s.LastUS+1
	e.Hash = e.ChainHash(s.Head)
	return e
}

// I3, NFR-008: no event changes a completed step. Only its held changes leave it, when a
// person decides about them.
func TestCompletedNeverChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &session.Session{}
		done := map[session.StepID]session.StepState{}
		for _, e := range history.Draw(t) {
			if _, err := s.Apply(e); err != nil {
				t.Fatal(err)
			}
			for id, want := range done {
				got := *s.Steps[id]
				if e.Type == session.HeldDecided {
					want.Held = got.Held
				}
				if !cmp.Equal(got, want) {
					t.Fatalf("%s after %s: got %+v, want %+v", id, e.Type, got, want)
				}
			}
			for id, st := range s.Steps {
				if st.Status == session.StepDone {
					done[id] = *st
				}
			}
		}
		if len(done) != s.Done {
			t.Errorf("Done: got %d, want %d", s.Done, len(done))
		}
	})
}

// I3: Apply refuses to start, end or lose a completed step.
func TestCompletedRefusesEveryReceipt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := history.Draw(t)
		s, _, err := session.Replay(slices.Clone(events))
		if err != nil {
			t.Fatal(err)
		}
		for id, st := range s.Steps {
			if st.Status != session.StepDone {
				continue
			}
			for kind, data := range map[session.EventType]any{
				session.StepStarted:     session.StepStartedData{StepID: id, Attempt: st.Attempt + 1, Key: "other"},
				session.StepCompleted:   session.StepCompletedData{StepID: id, Key: st.Key, Attempt: st.Attempt},
				session.StepFailedEvent: session.StepFailedData{StepID: id, Key: st.Key, Attempt: st.Attempt},
				session.StepUnknown:     session.StepUnknownData{StepID: id, Key: st.Key, Attempt: st.Attempt},
				session.ApprovalGranted: session.ApprovalGrantedData{StepID: id, Digest: "any"},
				session.ApprovalDenied:  session.ApprovalDeniedData{StepID: id, Digest: "any"},
			} {
				if _, err := s.Apply(event(s, kind, data)); !errors.Is(err, session.ErrConflict) {
					t.Errorf("%s on completed %s: got %v, want %s", kind, id, err, session.ErrConflict)
				}
			}
			if got := s.Steps[id].Status; got != session.StepDone {
				t.Errorf("%s: got %s, want completed", id, got)
			}
		}
	})
}

// I6: a change of any field of an event changes its hash, and replay detects it.
func TestChainCoversEveryField(t *testing.T) {
	changes := map[string]func(*session.Event){
		"id": func(e *session.Event) { e.ID[15]++ }, "session": func(e *session.Event) { e.Session += "x" },
		"seq": func(e *session.Event) { e.Seq++ }, "time": func(e *session.Event) { e.TimeUS++ },
		"type": func(e *session.Event) { e.Type += "x" }, "actor": func(e *session.Event) { e.Actor += "x" },
		"epoch": func(e *session.Event) { e.Epoch++ }, "payload": func(e *session.Event) { e.Payload = append(bytes.Clone(e.Payload), ' ') },
		"shift_type_to_actor": func(e *session.Event) {
			n := len(e.Type) - 1
			e.Type, e.Actor = e.Type[:n], string(e.Type[n:])+e.Actor
		},
		"shift_actor_to_payload": func(e *session.Event) { e.Actor, e.Payload = "", append([]byte(e.Actor), e.Payload...) },
	}
	rapid.Check(t, func(t *rapid.T) {
		events := history.Draw(t)
		i := rapid.IntRange(0, len(events)-1).Draw(t, "at")
		var prev session.Hash
		if i > 0 {
			prev = events[i-1].Hash
		}
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(changes))).Draw(t, "field")
		e := events[i]
		if changes[name](&e); e.ChainHash(prev) == events[i].Hash {
			t.Errorf("hash of event %d with another %s: got the same one", i+1, name)
		}
		forged := slices.Clone(events)
		forged[i] = e
		if _, _, err := session.Replay(forged); err == nil {
			t.Errorf("Replay with another %s in event %d: got nil, want an error", name, i+1)
		}
		bit := rapid.IntRange(0, 255).Draw(t, "bit")
		prev[bit/8] ^= 1 << (bit % 8)
		if events[i].ChainHash(prev) == events[i].Hash {
			t.Errorf("hash of event %d after another event: got the same one", i+1)
		}
	})
}

// The layout of the chain is fixed: this value changes only together with the version of
// the format.
func TestChainLayout(t *testing.T) {
	e := session.Event{ID: [16]byte{1}, Session: "s", Seq: 1, TimeUS: 2, Type: session.SessionCreated, Actor: "user", Epoch: 3, Payload: []byte("{}")}
	const want = "316e8ef5d384e0aba293ab38a7d3f9f40df2567b666665f2f9c4da525a759774"
	if got := e.ChainHash(session.Hash{31: 1}).String(); got != want {
		t.Errorf("ChainHash: got %s, want %s", got, want)
	}
}

// Replay takes linear time, so a few thousand events are cheap.
func TestReplayOfManyEvents(t *testing.T) {
	s := newSession(t)
	for i := range 20000 {
		e := event(s, session.CheckpointCreated, session.CheckpointCreatedData{Why: "n"})
		e.TimeUS = s.LastUS + int64(time.Second/time.Microsecond)
		e.Hash = e.ChainHash(s.Head)
		if _, err := s.Apply(e); err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
	}
	if s.LastSeq != 20001 {
		t.Errorf("LastSeq: got %d, want 20001", s.LastSeq)
	}
}

// payloadOf decodes a payload as a caller of ApplyData does.
func payloadOf(t *rapid.T, e session.Event) any {
	p := payloads()[e.Type]
	if err := e.Decode(p); err != nil {
		t.Fatalf("Decode: %v", err)
	}
	return reflect.ValueOf(p).Elem().Interface()
}

// I1: an event has the same effect with and without a decoded payload. ApplyData ignores
// data of another type.
func TestApplyDataEqualsApply(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var plain, decoded, other session.Session
		for _, e := range history.Draw(t) {
			want, err := plain.Apply(e)
			if err != nil {
				t.Fatalf("Apply: %v", err)
			}
			got, err := decoded.ApplyData(e, payloadOf(t, e))
			if d := cmp.Diff(want, got); err != nil || d != "" {
				t.Fatalf("ApplyData of %s: %v (-want +got)\n%s", e.Type, err, d)
			}
			if _, err := other.ApplyData(e, struct{}{}); err != nil {
				t.Fatalf("ApplyData with data of another type: %v", err)
			}
		}
		if d := cmp.Diff(plain, decoded) + cmp.Diff(plain, other); d != "" {
			t.Errorf("ApplyData: (-want +got)\n%s", d)
		}
	})
}
