//go:build linux

package command_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acode-dev/acode/session"
)

// filler writes to a file on a small file system until nothing more fits, and removes it.
type filler struct{ path string }

func (f filler) fill(t *testing.T) {
	t.Helper()
	w, err := os.OpenFile(f.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for err == nil {
		_, err = w.Write(bytes.Repeat([]byte{1}, 512))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("fill the disk: %v", err)
	}
}

// small mounts a file system of 256 KiB on dir. It returns false without the right to
// mount.
func small(t *testing.T, dir string) bool {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k,mode=700"); err != nil {
		return false
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return true
}

// A full disk cannot make an outcome unknown. No command starts whose end could not be
// recorded. If the test may not mount, a limit on file sizes replaces the full disk: at
// the claim's size its exit record must fit, and below it nothing may be claimed.
func TestExitRecordFitsOnFullDisk(t *testing.T) {
	for _, name := range []string{"detached", "inside"} {
		t.Run(name, func(t *testing.T) {
			tmp := t.TempDir()
			if !small(t, filepath.Join(tmp, "commands")) {
				limitedSize(t)
				return
			}
			s := newStageIn(t, tmp)
			if name == "inside" {
				s.inside()
			}
			exitRecordFits(t, s, tmp)
		})
	}
}

func exitRecordFits(t *testing.T, s *stage, tmp string) {
	req := s.sh(s.key, "touch up; until test -e go; do sleep 0.01; done; setsid sleep 303 & exit 5")
	done := s.begin(s.Runner, req, "up")
	f := filler{filepath.Join(tmp, "commands", "fill")}
	f.fill(t)
	s.touch("go")
	if r := <-done; r.err != nil || r.rec.State != session.CommandFinished || r.rec.Exit != 5 {
		t.Errorf("got %+v", r)
	}
	killLeft(t, s)
	if rec, err := s.Run(s.ctx(), s.sh(s.key+"-next", "echo ran >> ledger")); !errors.Is(err, session.ErrDiskFull) {
		t.Errorf("claim on a full disk: got %+v, %v, want ErrDiskFull", rec, err)
	}
	if err := os.Remove(f.path); err != nil {
		t.Fatal(err)
	}
	s.run(s.sh(s.key+"-next", "echo ran >> ledger"))
	if s.ledger() != wrote {
		t.Errorf("ledger %q", s.ledger())
	}
}

func TestExitRecordFitsUnderSizeLimit(t *testing.T) { limitedSize(t) }

func limitedSize(t *testing.T) {
	s := newStage(t, "CMDTEST_FSIZE=4096")
	if rec := s.run(s.sh(s.key, "exit 5")); rec.State != session.CommandFinished || rec.Exit != 5 {
		t.Errorf("got %+v", rec)
	}
	s = newStage(t, "CMDTEST_FSIZE=2048")
	if rec, err := s.Run(s.ctx(), s.sh(s.key, "echo ran >> ledger")); !errors.Is(err, session.ErrDiskFull) {
		t.Errorf("got %+v, %v, want ErrDiskFull", rec, err)
	}
	if s.ledger() != "" {
		t.Errorf("ledger %q", s.ledger())
	}
}

// A supervisor that cannot serve reports why, so that its client does not start one after
// the other.
func TestSupervisorThatCannotServe(t *testing.T) {
	s := newStage(t)
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(s.dir, "supervisor.lock")
	if err := os.WriteFile(lock, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := s.Run(s.ctx(), s.sh(s.key, "echo k >> ledger"))
	if !errors.Is(err, session.ErrLockMode) || !strings.Contains(err.Error(), lock) {
		t.Errorf("Run: got %v, want ErrLockMode of %s", err, lock)
	}
	if err := os.Chmod(lock, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(s.dir, "s"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "s", "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = s.Run(s.ctx(), s.sh(s.key, "echo k >> ledger"))
	if !errors.Is(err, session.ErrStoreIO) || !strings.Contains(err.Error(), "could not open the supervisor's socket") {
		t.Errorf("Run: got %v, want ErrStoreIO of the socket", err)
	}
	if err := os.RemoveAll(filepath.Join(s.dir, "s")); err != nil {
		t.Fatal(err)
	}
	s.run(s.sh(s.key, "echo k >> ledger"))
	if s.ledger() != "k\n" {
		t.Errorf("ledger %q", s.ledger())
	}
}
