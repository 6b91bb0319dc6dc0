package local_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/session"
)

// What Load reads ahead is what a reader of the store finds: the plan, the intent of the step in
// progress, and the manifest as often as it is asked for and in the place of nothing else.
func TestReadAheadIsWhatTheStoreHolds(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := create(t, s, 3)
	const manifest = "files as they were left"
	ref, err := w.Stage(t.Context(), strings.NewReader(manifest), int64(len(manifest)))
	must(t, err)
	const kept = "what a file held before"
	other, err := w.Stage(t.Context(), strings.NewReader(kept), int64(len(kept)))
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
	for _, c := range []struct{ hash, want string }{{other.Hash, kept}, {ref.Hash, manifest}, {ref.Hash, manifest}, {other.Hash, kept}} {
		if b, err := content(t, w, c.hash); err != nil || string(b) != c.want {
			t.Errorf("Open: got %q, %v, want %q", b, err, c.want)
		}
	}
}
