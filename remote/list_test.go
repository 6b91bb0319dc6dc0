package remote_test

import (
	"cmp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/acode-dev/acode/session"
)

// List lists this role's sessions, of every device, in pages, the newest first. It
// includes sessions that are not in the typed tables yet.
func TestList(t *testing.T) {
	s := commonSite(t)
	r := s.open(s.role("acode_writer"))
	told := story()
	last := len(told.events)
	want := []session.RemoteSummary{{Summary: session.Summary{ID: told.id, Short: "abc123", State: session.Paused, Reason: session.ReasonUncertain, Task: "Größe 漢字",
		Workspace: "/moved", Tasks: 2, Steps: 4, Done: 1, Epoch: 1, LastSeq: uint64(last), CreatedUS: told.events[0].TimeUS, UpdatedUS: told.events[last-1].TimeUS},
		Device: device, Host: "laptop", Projected: uint64(last), Forked: true}}
	if _, err := r.Deliver(t.Context(), told.from(1, last)); err != nil {
		t.Fatal(err)
	}
	other := told.split(9).grow(2)
	if m, err := r.Deliver(t.Context(), other.from(10, 11)); err != nil || m.Verdict != session.DeliveryForked {
		t.Fatalf("Deliver of another history: got %+v, %v", m, err)
	}
	projectAll(t, r, 100)
	for i := range 6 {
		c := newChain(1 + i)
		d := c.from(1, 1+i)
		d.Device = "another device"
		if _, err := r.Deliver(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		want = append(want, session.RemoteSummary{Summary: session.Summary{ID: c.id, LastSeq: uint64(1 + i)}, Device: d.Device})
	}
	slices.SortFunc(want, func(a, b session.RemoteSummary) int { return cmp.Compare(b.ID, a.ID) })
	strange := newChain(1)
	foreign := s.open(s.role("acode_writer"))
	if _, err := foreign.Deliver(t.Context(), strange.from(1, 1)); err != nil {
		t.Fatal(err)
	}
	var got []session.RemoteSummary
	var before session.ID
	for {
		page, err := r.List(t.Context(), before, 3)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		got, before = append(got, page...), page[len(page)-1].ID
	}
	for i := range got {
		if got[i].ReceivedUS < 1_700_000_000_000_000 {
			t.Errorf("List: %s was received at %d", got[i].ID, got[i].ReceivedUS)
		}
	}
	if diff := gocmp.Diff(want, got, cmpopts.IgnoreFields(session.RemoteSummary{}, "ReceivedUS")); diff != "" {
		t.Errorf("List differs (-want +got):\n%s", diff)
	}
	if list, err := foreign.List(t.Context(), "", 10); err != nil || len(list) != 1 || list[0].ID != strange.id {
		t.Errorf("List as another role: got %+v, %v; want its own session alone", list, err)
	}
	_, err := r.List(t.Context(), "no id", 3)
	wantClass(t, "List below an invalid id", err, session.FaultRefused)
}

// S3, S5: no payload can stop a list.
func TestListPoison(t *testing.T) {
	s := commonSite(t)
	r := s.open(s.role("acode_writer"))
	c := newChain(1)
	for _, p := range poison() {
		for _, typ := range []session.EventType{session.SessionCreated, session.StateChanged} {
			c.add(typ, 0, p)
		}
	}
	c.add(session.SessionCreated, 0, []byte(`{"short_id":{"a":1},"task":"a\u0000b","tasks":-999999999999999999,"steps":"x","workspace":[1]}`))
	n := len(c.events)
	if _, err := r.Deliver(t.Context(), c.from(1, n)); err != nil {
		t.Fatal(err)
	}
	projectAll(t, r, 1000)
	list, err := r.List(t.Context(), "", 10)
	if err != nil || len(list) != 1 || list[0].Projected != uint64(n) || list[0].Task != "a\ufffdb" || list[0].Steps != 0 {
		t.Errorf("List: got %+v, %v", list, err)
	}
}
