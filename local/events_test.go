package local_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/session"
)

// A range of events is that of the single events, over several reads. An error ends it.
func TestEventsOfARange(t *testing.T) {
	w := talked(t, open(t, options(t)))
	for w.Session().LastSeq < 600 {
		var ds []session.Draft
		for range 50 {
			ds = append(ds, session.Draft{Type: session.CheckpointCreated, Data: session.CheckpointCreatedData{}})
		}
		appendAll(t, w, ds...)
	}
	var got []session.Event
	must(t, w.Events(t.Context(), 2, 590, func(e session.Event) error {
		got = append(got, e)
		return nil
	}))
	var want []session.Event
	for seq := uint64(3); seq <= 590; seq++ {
		e, err := w.Event(t.Context(), seq)
		must(t, err)
		want = append(want, e)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
	seen := 0
	err := w.Events(t.Context(), 0, 590, func(session.Event) error {
		seen++
		return session.ErrConflict
	})
	if err != error(session.ErrConflict) || seen != 1 {
		t.Errorf("Events with an error: got %v after %d events", err, seen)
	}
}
