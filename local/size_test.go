package local_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
)

// padded returns drafts of one step. The intent has about 300 bytes, the receipt 1,000.
func padded(w *local.Writer, i int) (intent, receipt session.Draft) {
	digest := make([]byte, 64)
	for j := range digest {
		digest[j] = "0123456789abcdef"[rand.IntN(16)]
	}
	text := make([]byte, 1000)
	for j := range text {
		text[j] = byte('a' + rand.IntN(26))
	}
	return session.Draft{Type: session.StepStarted, Data: session.StepStartedData{StepID: stepID(i), Kind: session.KindRun, Key: key(w, i, 1), Attempt: 1, Digest: string(digest)}},
		session.Draft{Type: session.StepCompleted, Data: session.StepCompletedData{StepID: stepID(i), Key: key(w, i, 1), Attempt: 1, Matches: &session.Output{Text: string(text), Bytes: 1000}}}
}

// A step with a result of 1,000 bytes takes at most 1,800 bytes of the database, for any
// number of steps.
func TestBytesPerStepStayFlat(t *testing.T) {
	const most = 1800
	o := options(t)
	s := open(t, o)
	w := create(t, s, 1)
	size := func() int64 {
		t.Helper()
		if err := s.Checkpoint(t.Context()); err != nil {
			t.Fatalf("Checkpoint: %v", err)
		}
		info, err := os.Stat(filepath.Join(o.Home, "acode.db"))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	base := size()
	intent, receipt := padded(w, 0)
	es := appendAll(t, w, intent, receipt)
	t.Logf("payloads: %d and %d bytes", len(es[0].Payload), len(es[1].Payload))
	done := 1
	last, lastDone := base, 0
	for _, n := range []int{100, 1000, 3000} {
		for done < n { // a batch takes as many bytes as its events one by one
			var ds []session.Draft
			for ; len(ds) < 40 && done < n; done++ {
				intent, receipt := padded(w, done)
				ds = append(ds, intent, receipt)
			}
			appendAll(t, w, ds...)
		}
		now := size()
		per := (now - last) / int64(n-lastDone)
		t.Logf("steps %5d to %5d: %d bytes each", lastDone, n, per)
		// The first pages of each table are still filling before step 100.
		if n > 100 && per > most {
			t.Errorf("steps to %d: %d bytes each, want at most %d", n, per, most)
		}
		last, lastDone = now, n
	}
}

func BenchmarkAppend(b *testing.B) {
	s := open(b, options(b))
	w := create(b, s, 1)
	i := 0
	intent, receipt := padded(w, i)
	appendAll(b, w, intent)
	for b.Loop() {
		i++
		start, next := padded(w, i)
		appendAll(b, w, receipt, start)
		receipt = next
	}
}
