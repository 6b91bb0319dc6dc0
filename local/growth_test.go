package local_test

import (
	"testing"
	"time"

	"github.com/acode-dev/acode/session"
)

// NFR-001: the time to recover a session grows with its plan, not with its history. With
// forty times the events it must not take ten times as long. make bench measures it
// against the limit of 500 ms.
func TestRecoveryDoesNotGrowWithHistory(t *testing.T) {
	s := open(t, options(t))
	recovery := func(attempts int) time.Duration {
		w := create(t, s, 1)
		for at := 1; at <= attempts; at += 50 {
			var drafts []session.Draft
			for i := at; i < at+50; i++ {
				drafts = append(drafts, started(w, 0, i), failed(w, 0, i))
			}
			appendAll(t, w, drafts...)
		}
		id := w.Session().ID
		best := time.Hour
		for range 15 {
			start := time.Now()
			got := load(t, s, id)
			best = min(best, time.Since(start))
			if st := got.Session().Steps[stepID(0)]; st.Attempt != attempts || got.Report().Checkpoint == 0 {
				t.Fatalf("Load: got attempt %d from checkpoint %d, want %d", st.Attempt, got.Report().Checkpoint, attempts)
			}
		}
		return best
	}
	short, long := recovery(100), recovery(4000)
	t.Logf("200 events: %v, 8,000 events: %v, ratio %.2f", short, long, float64(long)/float64(short))
	if long > 10*short {
		t.Errorf("a session of 8,000 events loads in %v, one of 200 in %v", long, short)
	}
}
