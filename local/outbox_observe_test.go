package local_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
)

// An Observer receives each commit and each copy of the log into the database.
func TestObserver(t *testing.T) {
	opts := options(t)
	s := open(t, opts)
	o := openOutbox(t, s)
	var commits, checkpoints int
	o.Observe(local.Observer{
		Commit: func(took time.Duration, busy int, err error) {
			commits++
			if took < 0 || busy != 0 || err != nil {
				t.Fatalf("Commit: got %s, %d, %v", took, busy, err)
			}
		},
		Checkpoint: func(took time.Duration, err error) {
			checkpoints++
			if took < 0 || err != nil {
				t.Fatalf("Checkpoint: got %s, %v", took, err)
			}
		},
	})
	const beats = 2 * local.OutboxFrames
	for i := range beats {
		must(t, o.Beat(t.Context(), session.Heartbeat{BeatUS: int64(i)}))
	}
	if commits != beats || checkpoints == 0 || checkpoints > 4 {
		t.Errorf("observer: got %d commits and %d checkpoints, want %d and a few", commits, checkpoints, beats)
	}
	database, log, err := s.Sizes()
	must(t, err)
	for name, got := range map[string]int64{"acode.db": database, "acode.db-wal": log} {
		info, err := os.Stat(filepath.Join(opts.Home, name))
		must(t, err)
		if got != info.Size() || got == 0 {
			t.Errorf("Sizes: got %d of %s, want %d", got, name, info.Size())
		}
	}
}

// A refused commit is reported with its error. A commit that waited is reported with the
// number of its waits.
func TestObserverOfRefusedCommits(t *testing.T) {
	s := open(t, options(t))
	w := create(t, s, 1)
	o := openOutbox(t, s)
	var failed, waited int
	o.Observe(local.Observer{Commit: func(_ time.Duration, busy int, err error) {
		if waited += busy; err != nil {
			failed++
		}
	}})
	if err := o.SaveLane(t.Context(), session.Lane{Session: "nobody"}); err == nil || failed != 1 {
		t.Errorf("SaveLane: got %v and %d failures, want 1", err, failed)
	}
	must(t, s.Exec(t.Context(), `BEGIN IMMEDIATE`))
	done := make(chan error)
	go func() { done <- o.SaveLane(t.Context(), session.Lane{Session: w.Session().ID}) }()
	timer := time.NewTimer(400 * time.Millisecond)
	<-timer.C
	must(t, s.Exec(t.Context(), `COMMIT`))
	must(t, <-done)
	if waited == 0 {
		t.Errorf("busy: got 0, want the waits for the other writer")
	}
}
