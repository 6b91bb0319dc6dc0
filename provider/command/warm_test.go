//go:build linux

package command_test

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/acode-dev/acode/provider/command"
)

// warmed returns a runner whose supervisor begins to start, and a counter of the
// supervisors that it starts.
func (s *stage) warmed() (*command.Runner, *atomic.Int32) {
	spawned := &atomic.Int32{}
	cfg := config(s.dir, 1)
	cfg.SetHook(func(point string) {
		if point == "spawned" {
			spawned.Add(1)
		}
	})
	r := command.NewRunner(cfg)
	s.t.Cleanup(func() { _ = r.Close() })
	r.Warm()
	return r, spawned
}

// A supervisor that Warm started runs the command.
func TestWarmSupervisorServes(t *testing.T) {
	s := newStage(t)
	r, spawned := s.warmed()
	// a second call changes nothing
	r.Warm()
	if rec, err := r.Run(s.ctx(), s.sh(s.key, "echo once >> ledger")); err != nil || rec.Exit != 0 {
		t.Fatalf("Run: got %+v, %v", rec, err)
	}
	if s.ledger() != "once\n" || spawned.Load() != 1 {
		t.Errorf("ledger %q, %d supervisors; want once and 1", s.ledger(), spawned.Load())
	}
	// a supervisor lives
	other, more := s.warmed()
	if rec, err := other.Run(s.ctx(), s.sh(s.key+"-l", "echo twice >> ledger")); err != nil || rec.Exit != 0 || more.Load() != 0 {
		t.Errorf("Run beside a supervisor: got %+v, %v, %d supervisors more", rec, err, more.Load())
	}
}

// A warm supervisor without a request claims nothing, announces no epoch and ends.
func TestWarmSupervisorEndsUnused(t *testing.T) {
	s := newStage(t)
	r, spawned := s.warmed()
	eventually(t, "the supervisor to serve", func() bool { return spawned.Load() == 1 && s.serves() })
	pid := s.supervisorPID()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	s.supervisorGone()
	eventually(t, "the supervisor's process to end", func() bool { return !running(pid) })
	if recs, unread := command.Records(s.dir); len(unread) > 0 || len(recs) != 0 {
		t.Errorf("Records: got %v, %v", recs, unread)
	}
	// 0 is the lowest epoch
	if err := s.runner(0).Announce(s.ctx()); err != nil {
		t.Errorf("Announce: got %v; an epoch was made known before anything ran", err)
	}
}

// A warm supervisor that was killed before its first request is replaced, and the command
// runs once.
func TestWarmSupervisorKilled(t *testing.T) {
	s := newStage(t)
	r, spawned := s.warmed()
	eventually(t, "the supervisor to serve", s.serves)
	if err := syscall.Kill(s.supervisorPID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if rec, err := r.Run(s.ctx(), s.sh(s.key, "echo once >> ledger")); err != nil || rec.Exit != 0 {
		t.Fatalf("Run: got %+v, %v", rec, err)
	}
	if s.ledger() != "once\n" || spawned.Load() != 2 {
		t.Errorf("ledger %q, %d supervisors; want once and 2", s.ledger(), spawned.Load())
	}
}

// serves reports whether a supervisor listens.
func (s *stage) serves() bool {
	_, err := os.Lstat(filepath.Join(s.dir, "s"))
	return err == nil
}
