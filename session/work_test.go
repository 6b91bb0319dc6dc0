package session_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/session"
)

// A duration belongs to the bucket of the first bound that it does not exceed.
func TestPhaseBuckets(t *testing.T) {
	last := session.PhaseBounds[len(session.PhaseBounds)-1]
	for d, want := range map[time.Duration]int{0: 0, time.Millisecond: 0, time.Millisecond + 1: 1, last: len(session.PhaseBounds) - 1, last + 1: len(session.PhaseBounds)} {
		if got := session.BucketOf(d); got != want {
			t.Errorf("BucketOf(%s): got %d, want %d", d, got, want)
		}
	}
	var w session.Work
	w.Observe(session.PhasePlan, time.Hour)
	w.Observe(session.PhasePlan, time.Millisecond)
	want := map[session.ResumePhase]map[int]session.PhaseBucket{session.PhasePlan: {0: {Count: 1, Sum: time.Millisecond}, len(session.PhaseBounds): {Count: 1, Sum: time.Hour}}}
	if diff := cmp.Diff(want, w.Phases); diff != "" {
		t.Errorf("Observe (-want +got):\n%s", diff)
	}
}
