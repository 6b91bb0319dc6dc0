//go:build linux

package command_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/session"
)

// Any outcome fits in the space that the claim reserved.
func TestExitRecordAlwaysFits(t *testing.T) {
	s := newStage(t)
	s.run(s.sh(s.key, "exit 4"))
	if err := command.WriteFullExit(command.ClaimPath(s.dir, s.key), s.key, 10_000); err != nil {
		t.Fatal(err)
	}
	rec, err := s.Look(s.ctx(), s.key)
	if err != nil || rec.Exit != 6 || len(rec.Left) < 20 || !strings.HasSuffix(rec.StartError, "é…") {
		t.Fatalf("got %+v, %v", rec, err)
	}
	named := len(rec.Left) - 1
	if got, want := rec.Left[named], fmt.Sprintf("and %d more", 10_000-named); got != want {
		t.Errorf("last of those left: got %q, want %q", got, want)
	}
}

func TestUnknownHasItsReason(t *testing.T) {
	s := newStage(t)
	s.run(s.sh(s.key, "exit 4"))
	if err := command.WriteUnknownExit(command.ClaimPath(s.dir, s.key), s.key, "the workspace could not be synced"); err != nil {
		t.Fatal(err)
	}
	if rec, err := s.Look(s.ctx(), s.key); err != nil || rec.State != session.CommandUnknown || rec.Why != "the workspace could not be synced" {
		t.Errorf("got %+v, %v", rec, err)
	}
	if err := command.WriteOldBoot(s.dir, s.key+"-old", 1); err != nil {
		t.Fatal(err)
	}
	if rec := s.run(session.CommandRequest{Key: "v", Argv: []string{"true"}, Workspace: s.ws, Epoch: 1, Env: []string{"PATH=" + os.Getenv("PATH")}}); rec.Exit != 0 {
		t.Errorf("true: got %+v", rec)
	}
	rec, err := s.Wait(s.ctx(), s.key+"-old")
	if err != nil || rec.State != session.CommandUnknown || !strings.Contains(rec.Why, "machine restarted") {
		t.Errorf("after a restart: got %+v, %v", rec, err)
	}
	// A power cut may tear blocks on their way to the disk, and leave an output file
	// without its content.
	tear(t, command.ClaimPath(s.dir, s.key+"-old"), 1024, 1536)
	if err := os.WriteFile(strings.TrimSuffix(command.ClaimPath(s.dir, s.key+"-old"), ".claim")+".out", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if rec, err := s.Look(s.ctx(), s.key+"-old"); err != nil || rec.State != session.CommandUnknown {
		t.Errorf("blocks torn by a restart: got %+v, %v, want unknown", rec, err)
	}
	if _, _, err := s.Output(s.key + "-old"); !errors.Is(err, session.ErrCorrupt) || !strings.Contains(err.Error(), "machine restarted") {
		t.Errorf("Output after a restart: got %v, want refused as torn", err)
	}
	if err := command.WriteOldBoot(s.dir, "newer", 2); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Look(s.ctx(), "newer"); !errors.Is(err, session.ErrNewer) {
		t.Errorf("a newer format: got %v, want ErrNewer", err)
	}
}

// tear overwrites the beginning of blocks with bytes that are no valid block.
func tear(t *testing.T, path string, offsets ...int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, at := range offsets {
		if _, err := f.WriteAt([]byte("torn"), at); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStoreErrors(t *testing.T) {
	for errno, code := range map[syscall.Errno]session.Code{
		syscall.ENOSPC: session.ErrDiskFull, syscall.EDQUOT: session.ErrDiskFull, syscall.EROFS: session.ErrReadOnly, syscall.EIO: session.ErrStoreIO,
	} {
		if err := command.StoreError(fmt.Errorf("write: %w", errno)); !errors.Is(err, code) {
			t.Errorf("%v: got %v, want %s", errno, err, code)
		}
	}
}

// A second supervisor sends its client to the first. An unknown operation gets an error.
func TestSecondSupervisorDeclines(t *testing.T) {
	each(t, func(t *testing.T, s *stage) {
		s.run(s.sh(s.key, "echo ran >> ledger"))
		pid := s.supervisorPID()
		if err := s.Spawned(s.ctx(), "hello"); !errors.Is(err, command.ErrLost) {
			t.Errorf("second supervisor: got %v, want the lost connection", err)
		}
		cfg := supervisorConfig(func(name string) string { return map[string]string{"CMDTEST_DIR": s.dir}[name] })
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		near := os.NewFile(uintptr(fds[0]), "near")
		defer near.Close()
		if _, err := near.WriteString(`{"op":"hello","id":3}` + "\n"); err != nil {
			t.Fatal(err)
		}
		cfg.Conn = os.NewFile(uintptr(fds[1]), "far")
		if err := command.Supervise(s.ctx(), cfg); err != nil {
			t.Errorf("Supervise: %v", err)
		}
		b := make([]byte, 100)
		n, _ := near.Read(b)
		if got := string(b[:n]); got != `{"op":"busy","id":3}`+"\n" {
			t.Errorf("declined with %q", got)
		}
		if err := command.Supervise(s.ctx(), supervisorConfig(func(string) string { return s.dir })); err != nil {
			t.Errorf("Supervise without a client: %v", err)
		}
		for _, op := range []string{"run", "nonsense", ""} {
			if err := command.Send(s.ctx(), s.dir, op); !errors.Is(err, session.ErrInternal) {
				t.Errorf("%q: got %v, want ErrInternal", op, err)
			}
		}
		if s.supervisorPID() != pid {
			t.Error("another supervisor took over")
		}
	})
}

// If the directory cannot be used, every call fails and starts nothing.
func TestDirectoryUnusable(t *testing.T) {
	tmp := t.TempDir()
	file := filepath.Join(tmp, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := newStage(t)
	r := command.NewRunner(command.Config{Dir: filepath.Join(file, "x"), Session: testSession})
	if _, err := r.Run(s.ctx(), s.sh(s.key, "echo ran >> ledger")); err == nil {
		t.Error("Run below a file: got no error")
	}
	if err := r.Announce(s.ctx()); !errors.Is(err, session.ErrStoreIO) {
		t.Errorf("Announce below a file: got %v, want ErrStoreIO", err)
	}
	if _, unread := command.Records(file); len(unread) == 0 {
		t.Error("Records of a file: got no error")
	}
	if recs, unread := command.Records(filepath.Join(tmp, "none")); len(unread) > 0 || len(recs) != 0 {
		t.Errorf("Records of no directory: got %v, %v", recs, unread)
	}
	if err := command.Supervise(s.ctx(), command.SupervisorConfig{Dir: filepath.Join(tmp, "none")}); !errors.Is(err, session.ErrStoreIO) {
		t.Errorf("Supervise without a directory: got %v, want ErrStoreIO", err)
	}
	if s.ledger() != "" {
		t.Errorf("ledger %q", s.ledger())
	}
}

func TestProgramIsFoundByTheCommandsPath(t *testing.T) {
	each(t, func(t *testing.T, s *stage) {
		bin := filepath.Join(s.ws, "bin")
		if err := os.MkdirAll(filepath.Join(bin, "adir"), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, mode := range map[string]os.FileMode{"tool": 0o700, "plain": 0o600} {
			if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\necho $0 $1 >> ledger\n"), mode); err != nil {
				t.Fatal(err)
			}
		}
		for i, c := range []struct {
			path, name, startError string
		}{
			{"bin:" + bin, "tool", ""},
			// a relative entry finds nothing
			{"bin", "tool", "not found"},
			{bin, "plain", "not executable"},
			{bin, "adir", "not found"},
			{"", "bin/tool", ""},
		} {
			req := s.sh(fmt.Sprint(s.key, i), "")
			req.Argv, req.Env = []string{c.name, "arg"}, []string{"PATH=" + c.path}
			rec := s.run(req)
			if !strings.Contains(rec.StartError, c.startError) || (rec.Exit == 0) != (c.startError == "") {
				t.Errorf("%s in %q: got %+v", c.name, c.path, rec)
			}
		}
		if want := bin + "/tool arg\nbin/tool arg\n"; s.ledger() != want {
			t.Errorf("ledger %q, want %q", s.ledger(), want)
		}
	})
}

// An exit record is not reported while its supervisor holds the claim: the record may not
// be durable yet.
func TestRecordedIsNotToldYet(t *testing.T) {
	s := newStage(t)
	seen := make(chan session.CommandRecord, 1)
	s.supervisorHook = func(point string) {
		if point == "recorded" {
			rec, err := s.Look(s.ctx(), s.key)
			if err != nil {
				t.Error(err)
			}
			seen <- rec
		}
	}
	s.inside()
	if rec := s.run(s.sh(s.key, "exit 3")); rec.State != session.CommandFinished || rec.Exit != 3 {
		t.Errorf("Run: got %+v", rec)
	}
	if rec := <-seen; rec.State != session.CommandRunning {
		t.Errorf("Look before the claim is given up: got %+v, want it to run", rec)
	}
}
