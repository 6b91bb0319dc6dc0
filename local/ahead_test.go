package local_test

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/session"
)

// What Load reads ahead is what a reader of the store finds: the plan, the intent of the step in
// progress, and the manifest as often as it is asked for.
func TestReadAheadIsWhatTheStoreHolds(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := create(t, s, 3)
	const manifest = "files as they were left"
	ref, err := w.Stage(t.Context(), strings.NewReader(manifest), int64(len(manifest)))
	must(t, err)
	events, err := w.Append(t.Context(),
		started(w, 0, 1),
		session.Draft{Type: session.StateChanged, Data: session.StateChangedData{From: session.Executing, To: session.Paused, Reason: session.ReasonSignal, Manifest: ref.Hash}})
	must(t, err)
	id := w.Session().ID
	must(t, w.Close())

	w = load(t, s, id)
	got, err := w.Plan(t.Context())
	must(t, err)
	want, err := s.Plan(t.Context(), w.Session())
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Plan (-want +got):\n%s", diff)
	}
	intent, err := w.Event(t.Context(), events[0].Seq)
	must(t, err)
	if intent.Hash != events[0].Hash {
		t.Errorf("Event: got %+v, want %+v", intent, events[0])
	}
	for range 2 {
		r, err := w.Open(t.Context(), ref.Hash)
		must(t, err)
		if b, err := io.ReadAll(r); err != nil || string(b) != manifest {
			t.Errorf("Open: got %q, %v", b, err)
		}
		must(t, r.Close())
	}
}
