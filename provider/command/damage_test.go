//go:build linux

package command_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/session"
)

// With any one byte of a claim flipped, the record is refused with the name of the file,
// or it is unchanged.
func TestEveryByteOfAClaimFlipped(t *testing.T) {
	s := newStage(t)
	s.run(s.sh(s.key+"-done", "exit 4"))
	want, err := s.Look(s.ctx(), s.key+"-done")
	if err != nil {
		t.Fatal(err)
	}
	path := command.ClaimPath(s.dir, s.key+"-done")
	whole, err := os.ReadFile(path)
	if err != nil || len(whole) != 4096 {
		t.Fatalf("claim of %d bytes, %v", len(whole), err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	refused := 0
	for i, b := range whole {
		if _, err := f.WriteAt([]byte{b ^ 1<<(i%8)}, int64(i)); err != nil {
			t.Fatal(err)
		}
		got, err := s.Look(s.ctx(), s.key+"-done")
		var e *session.Error
		switch {
		case errors.Is(err, session.ErrCorrupt) && errors.As(err, &e) && e.Place == path:
			refused++
		case err != nil || !cmp.Equal(got, want):
			t.Fatalf("byte %d: got %+v, %v", i, got, err)
		}
		if _, err := f.WriteAt([]byte{b}, int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	if refused < 200 {
		t.Errorf("only %d flips were seen", refused)
	}
}

func TestClaimReplaced(t *testing.T) {
	s := newStage(t)
	s.run(s.sh(s.key, "echo ran >> ledger"))
	s.run(s.sh(s.key+"-other", "true"))
	path := command.ClaimPath(s.dir, s.key)
	whole, err := os.ReadFile(command.ClaimPath(s.dir, s.key+"-other"))
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(s.ws, "own")
	if err := os.Link(path, own); err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func() error{
		"truncated": func() error { return os.WriteFile(path, whole[:4000], 0o600) },
		"empty":     func() error { return os.WriteFile(path, nil, 0o600) },
		"zeros":     func() error { return os.WriteFile(path, make([]byte, 4096), 0o600) },
		"of_other":  func() error { return os.WriteFile(path, whole, 0o600) },
		"directory": func() error { return os.Mkdir(path, 0o700) },
		"fifo":      func() error { return syscall.Mkfifo(path, 0o600) },
		"symlink":   func() error { return os.Symlink(command.ClaimPath(s.dir, s.key+"-other"), path) },
		"elsewhere": func() error { return os.Symlink(own, path) },
	} {
		if err := errors.Join(os.Remove(path), damage()); err != nil {
			t.Fatal(err)
		}
		if rec, err := s.Run(s.ctx(), s.sh(s.key, "echo ran >> ledger")); !errors.Is(err, session.ErrCorrupt) {
			t.Errorf("%s: got %+v, %v, want ErrCorrupt", name, rec, err)
		}
		if _, unread := command.Records(s.dir); !errors.Is(errors.Join(unread...), session.ErrCorrupt) {
			t.Errorf("%s: Records: got %v, want ErrCorrupt", name, unread)
		}
	}
	if s.ledger() != wrote {
		t.Errorf("ledger %q", s.ledger())
	}
	if err := os.WriteFile(filepath.Join(s.dir, "epoch"), []byte("7"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Announce(s.ctx()); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("damaged epoch: got %v, want ErrCorrupt", err)
	}
	if _, unread := command.Records(s.dir); !errors.Is(errors.Join(unread...), session.ErrCorrupt) {
		t.Errorf("damaged epoch: Records: got %v, want ErrCorrupt", unread)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "epoch"), make([]byte, 256), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Announce(s.ctx()); err != nil {
		t.Errorf("an epoch file that a power cut left as zeros: %v", err)
	}
}

// C1: if the claim may be gone after a power cut, its command is not started, now or
// later.
func TestClaimThatIsNotDurable(t *testing.T) {
	s := newStage(t)
	away := s.dir + "-away"
	// the next call would sync the directory of the claim
	s.supervisorHook = firstTime("claim-named", func() {
		if err := os.Rename(s.dir, away); err != nil {
			t.Error(err)
		}
	})
	s.inside()
	req := s.sh(s.key, "echo ran >> ledger")
	if rec, err := s.Run(s.ctx(), req); !errors.Is(err, session.ErrStoreIO) {
		t.Errorf("Run: got %+v, %v, want ErrStoreIO", rec, err)
	}
	if err := os.Rename(away, s.dir); err != nil {
		t.Fatal(err)
	}
	rec, err := s.Run(s.ctx(), req)
	if err != nil || rec.State != session.CommandVoid || !strings.Contains(rec.Why, "could not sync the claim's directory") || rec.PID != 0 {
		t.Errorf("Run again: got %+v, %v, want why it was not started", rec, err)
	}
	if s.run(s.sh(s.key+"-next", "echo next >> ledger")); s.ledger() != "next\n" {
		t.Errorf("ledger %q, want the next command alone", s.ledger())
	}
}

// C2: a supervisor that serves the session now says nothing of a command whose own
// supervisor ran in another PID namespace: the holder of that claim is the command.
func TestSupervisorOfAnotherNamespaceIsGone(t *testing.T) {
	s := newStage(t)
	s.run(s.sh(s.key, "true"))
	release, err := command.HoldElsewhere(s.dir, "far")
	if err != nil {
		t.Fatal(err)
	}
	if rec, err := s.Look(s.ctx(), "far"); err != nil || rec.State != session.CommandUnattended || !rec.Elsewhere || rec.PID != 0 {
		t.Errorf("held: got %+v, %v, want unattended and elsewhere", rec, err)
	}
	release()
	if rec, err := s.Look(s.ctx(), "far"); err != nil || rec.State != session.CommandUnknown || !strings.Contains(rec.Why, "supervisor was killed") {
		t.Errorf("let go of: got %+v, %v, want unknown", rec, err)
	}
}

// A claim that disappears during a wait for its command is damage, not a wait without
// end.
func TestClaimRemoved(t *testing.T) {
	s := newStage(t)
	waits := make(chan struct{})
	cfg := config(s.dir, 1)
	cfg.SetHook(firstTime("waiting", func() { close(waits) }))
	r := command.NewRunner(cfg)
	t.Cleanup(func() { _ = r.Close() })
	done := s.begin(r, s.sh(s.key, "touch up; until test -e go; do sleep 0.01; done"), "up")
	// earlier, Run might not have seen the claim yet and might ask for it
	select {
	case <-waits:
	case r := <-done:
		t.Fatalf("Run came back while the command runs: %+v", r)
	}
	if err := os.Remove(command.ClaimPath(s.dir, s.key)); err != nil {
		t.Fatal(err)
	}
	if r := <-done; !errors.Is(r.err, session.ErrCorrupt) {
		t.Errorf("got %+v, want ErrCorrupt", r)
	}
	s.touch("go")
}

// C1: no process starts a command again that removed its own claim: its supervisor makes
// the claim again at the end. Until then every look reports that the claim was removed.
func TestClaimRemovedByItsCommand(t *testing.T) {
	for range 20 {
		s := newStage(t)
		req := s.sh(s.key, "rm -f "+command.ClaimPath(s.dir, s.key)+"; echo ran >> ledger")
		// the supervisor remembers the key too
		for range 2 {
			if rec, err := s.Run(s.ctx(), req); !errors.Is(err, session.ErrCorrupt) && rec.State != session.CommandFinished {
				t.Errorf("got %+v, %v, want ErrCorrupt or the result", rec, err)
			}
		}
		eventually(t, "a line in the ledger", func() bool { return s.ledger() != "" })
		_ = s.Close()
		s.supervisorGone()
		rec, err := s.runner(2).Run(s.ctx(), later(req))
		if err != nil || rec.State != session.CommandFinished || rec.PID == 0 {
			t.Errorf("after the supervisor: got %+v, %v", rec, err)
		}
		if s.ledger() != wrote {
			t.Errorf("ledger %q, want one line", s.ledger())
		}
	}
}

// C1: a process that opened the claim before its command removed it sees it unlocked,
// without an end. The supervisor's new claim has the end.
func TestClaimReplacedWhileItIsRead(t *testing.T) {
	s := newStage(t)
	want := s.run(s.sh(s.key, "exit 3"))
	path := command.ClaimPath(s.dir, s.key)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before := filepath.Join(t.TempDir(), filepath.Base(path))
	if err := os.WriteFile(before, slices.Concat(whole[:command.ExitAt], make([]byte, len(whole)-command.ExitAt)), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(before)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := command.LookIn(f, path); err != nil || !cmp.Equal(got, want) {
		t.Errorf("claim with another in its place: got %+v, %v, want %+v", got, err, want)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got, err := command.LookIn(f, path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("claim with nothing in its place: got %+v, %v", got, err)
	}
}

func later(req session.CommandRequest) session.CommandRequest {
	req.Epoch++
	return req
}

// C1: the same holds if the command removes the whole directory of the session's
// commands. Its output is gone then, and its outcome is unknown, with the true reason.
func TestEverythingRemovedByItsCommand(t *testing.T) {
	s := newStage(t)
	req := s.sh(s.key, "rm -rf "+s.dir+"; echo ran >> ledger")
	// it fails, or returns the outcome
	_, _ = s.Run(s.ctx(), req)
	eventually(t, "a line in the ledger", func() bool { return s.ledger() != "" })
	_ = s.Close()
	eventually(t, "the claim to be there again", func() bool {
		rec, err := s.Look(s.ctx(), s.key)
		return err == nil && rec.State == session.CommandUnknown
	})
	rec, err := s.runner(2).Run(s.ctx(), later(req))
	if err != nil || rec.State != session.CommandUnknown || !strings.Contains(rec.Why, "its output can no longer be opened") || s.ledger() != wrote {
		t.Errorf("got %+v, %v, ledger %q", rec, err, s.ledger())
	}
}

// firstTime returns a hook that calls do at the first time of a point.
func firstTime(point string, do func()) func(string) {
	var once sync.Once
	return func(p string) {
		if p == point {
			once.Do(do)
		}
	}
}

func TestOutputIsCapped(t *testing.T) { each(t, outputIsCapped, "CMDTEST_MAX=131072") }

func outputIsCapped(t *testing.T, s *stage) {
	req := s.sh(s.key, `i=0; while [ $i -lt 30000 ]; do echo "line $i"; i=$((i+1)); done; printf small >&2`)
	// the two streams share the limit
	req.Split = true
	rec := s.run(req)
	if rec.Exit != 0 {
		t.Fatalf("got %+v", rec)
	}
	out, errs := s.output(s.key)
	if errs != "small" {
		t.Errorf("stderr: %q", errs)
	}
	if !strings.HasPrefix(out, "line 0\nline 1\n") || !strings.HasSuffix(out, "\nline 29999\n") || strings.ContainsRune(out, 0) {
		t.Errorf("head %q, tail %q", out[:20], out[len(out)-20:])
	}
	var cut int
	note := out[strings.Index(out, "\n[acode: "):]
	if _, err := fmt.Sscanf(note, "\n[acode: %d bytes cut out here]\n", &cut); err != nil {
		t.Fatalf("no note in the output: %v", err)
	}
	info, err := os.Stat(filepath.Join(s.dir, command.Stem(s.key)+".out"))
	if err != nil {
		t.Fatal(err)
	}
	noteLen := len(fmt.Sprintf("\n[acode: %d bytes cut out here]\n", cut))
	st := info.Sys().(*syscall.Stat_t)
	// whole pages are freed
	block := max(4096, int(st.Blksize))
	if int64(len(out)-noteLen+cut) != info.Size() || len(out) > 65536+2*block+noteLen {
		t.Errorf("read %d, cut %d, size %d", len(out), cut, info.Size())
	}
	if onDisk := st.Blocks * 512; onDisk > int64(65536+3*block) {
		t.Errorf("%d bytes on disk", onDisk)
	}
}

// A block that is freed in part would be shown full of zeros.
func TestWholeBlocksAreCutOut(t *testing.T) {
	for _, tt := range []struct{ size, limit, block, from, to int64 }{
		{size: 318890, limit: 65536, block: 4096, from: 32768, to: 282624},
		{size: 318890, limit: 65536, block: 65536, from: 65536, to: 196608},
		{size: 20_000_001, limit: 8 << 20, block: 65536, from: 4 << 20, to: 241 * 65536},
		{size: 20_000_001, limit: 8 << 20, block: 2 << 20, from: 4 << 20, to: 14 << 20},
		{size: 318890, limit: 65536, block: 512, from: 32768, to: 282624},
		{size: 318890, limit: 65536, block: 0, from: 32768, to: 282624},
		// nothing is freed
		{size: 70_000, limit: 65536, block: 65536, from: 65536, to: 0},
	} {
		if from, to := command.Middle(tt.size, tt.limit, tt.block); from != tt.from || to != tt.to {
			t.Errorf("%+v: got %d to %d", tt, from, to)
		}
	}
}

func TestOutputTornOrMissing(t *testing.T) {
	s := newStage(t)
	req := s.sh(s.key, "echo hello; echo oops >&2")
	req.Split = true
	s.run(req)
	out, errs := filepath.Join(s.dir, command.Stem(s.key)+".out"), filepath.Join(s.dir, command.Stem(s.key)+".err")
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	longer, err := os.OpenFile(out, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(longer, "written after the end")
	if err := errors.Join(err, longer.Close()); err != nil {
		t.Fatal(err)
	}
	if o, e := s.output(s.key); o != "hello\n" || e != "oops\n" {
		t.Errorf("got %q, %q", o, e)
	}
	for name, damage := range map[string]func() error{
		"torn":    func() error { return os.Truncate(out, 3) },
		"symlink": func() error { return errors.Join(os.Remove(out), os.Symlink(errs, out)) },
		"fifo":    func() error { return errors.Join(os.Remove(out), syscall.Mkfifo(out, 0o600)) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Output(s.key); !errors.Is(err, session.ErrCorrupt) {
			t.Errorf("%s: got %v, want ErrCorrupt", name, err)
		}
		if err := errors.Join(os.Remove(out), os.WriteFile(out, []byte("hello\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(errs); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Output(s.key); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("missing: got %v, want ErrCorrupt", err)
	}
}

// C4: if the outputs cannot be opened at the end, there is no exit record.
func TestOutputReplacedWhileRunning(t *testing.T) { each(t, outputReplacedWhileRunning) }

func outputReplacedWhileRunning(t *testing.T, s *stage) {
	for i, replace := range []bool{false, true} {
		key := fmt.Sprint(s.key, i)
		up, proceed := "up"+key, "go"+key
		done := s.begin(s.Runner, s.sh(key, "touch "+up+"; until test -e "+proceed+"; do sleep 0.01; done"), up)
		out := filepath.Join(s.dir, command.Stem(key)+".out")
		if err := os.Remove(out); err != nil {
			t.Fatal(err)
		}
		if replace {
			if err := os.WriteFile(out, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s.touch(proceed)
		if r := <-done; r.err != nil || r.rec.State != session.CommandUnknown {
			t.Errorf("replaced %v: got %+v", replace, r)
		}
	}
}

// An output file that is not ours refuses the request before any claim.
func TestOutputRefused(t *testing.T) { each(t, outputRefused) }

func outputRefused(t *testing.T, s *stage) {
	if err := s.Announce(s.ctx()); err != nil {
		t.Fatal(err)
	}
	s.touch("target")
	for name, plant := range map[string]func(path string) error{
		"symlink":  func(p string) error { return os.Symlink(filepath.Join(s.ws, "target"), p) },
		"hardlink": func(p string) error { return os.Link(filepath.Join(s.ws, "target"), p) },
		"fifo":     func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"open":     func(p string) error { return errors.Join(os.WriteFile(p, nil, 0o600), os.Chmod(p, 0o644)) },
	} {
		for _, suffix := range []string{".out", ".err"} {
			path := filepath.Join(s.dir, command.Stem(s.key)+suffix)
			if err := plant(path); err != nil {
				t.Fatal(err)
			}
			req := s.sh(s.key, "echo ran >> ledger")
			req.Split = true
			if rec, err := s.Run(s.ctx(), req); !errors.Is(err, session.ErrStoreIO) {
				t.Errorf("%s%s: got %+v, %v, want ErrStoreIO", name, suffix, rec, err)
			}
			if err := s.Forget(s.key); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.run(s.sh(s.key, "echo ran >> ledger"))
	if s.ledger() != wrote {
		t.Errorf("ledger %q", s.ledger())
	}
}

// Output that cannot be removed is reported with a code, and stays.
func TestOutputThatStays(t *testing.T) {
	s := newStage(t)
	s.run(s.sh(s.key, "true"))
	path := filepath.Join(s.dir, command.Stem(s.key)+".out")
	if err := errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "full"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for name, forget := range map[string]func() error{
		"Forget":    func() error { return s.Forget(s.key) },
		"ForgetAll": func() error { return command.ForgetAll(s.dir) },
	} {
		if err := forget(); session.CodeOf(err) != session.ErrStoreIO {
			t.Errorf("%s: got %v (%s), want %s", name, err, session.CodeOf(err), session.ErrStoreIO)
		}
	}
}

// Another kind of file in place of the session's records is damage, not a bug.
func TestRecordsThatAreAFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "session")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, unread := command.Records(dir)
	for _, err := range unread {
		if session.CodeOf(err) != session.ErrCorrupt {
			t.Errorf("Records: got %v (%s), want %s", err, session.CodeOf(err), session.ErrCorrupt)
		}
	}
	if len(unread) == 0 {
		t.Error("Records: found nothing")
	}
	if err := command.ForgetAll(dir); session.CodeOf(err) != session.ErrStoreIO {
		t.Errorf("ForgetAll: got %v (%s), want %s", err, session.CodeOf(err), session.ErrStoreIO)
	}
}

// A record that cannot be reached is not damaged: exit status 1, not 18.
func TestUnreachableRecordIsNoDamage(t *testing.T) {
	r := command.NewRunner(command.Config{Dir: filepath.Join(t.TempDir(), strings.Repeat("x", 300))})
	if _, err := r.Look(t.Context(), "k"); !errors.Is(err, session.ErrStoreIO) || strings.Contains(err.Error(), "damaged") {
		t.Errorf("Look: got %v (%s), want %s", err, session.CodeOf(err), session.ErrStoreIO)
	}
	s := newStage(t)
	s.run(s.sh(s.key+"-done", "exit 4"))
	path := command.ClaimPath(s.dir, s.key+"-done")
	if err := errors.Join(os.Remove(path), os.Symlink("/dev/null", path)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Look(s.ctx(), s.key+"-done"); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("Look at a symbolic link: got %v, want %s", err, session.ErrCorrupt)
	}
}

// A claim that is removed between the list and the look is not reported, also not as
// damage. A command may remove its claim, and the supervisor makes it again.
func TestRecordsWhileAClaimVanishes(t *testing.T) {
	s := newStage(t)
	s.run(s.sh(s.key, "true"))
	s.run(s.sh(s.key+"-stays", "true"))
	path := command.ClaimPath(s.dir, s.key)
	var stop atomic.Bool
	var wait sync.WaitGroup
	wait.Go(func() {
		for !stop.Load() {
			_ = os.Rename(path, path+".away")
			_ = os.Rename(path+".away", path)
		}
	})
	for range 2000 {
		if recs, unread := command.Records(s.dir); len(unread) > 0 || len(recs) == 0 {
			t.Errorf("Records: got %+v, %v", recs, unread)
			break
		}
	}
	stop.Store(true)
	wait.Wait()
}

// Each claim is judged by itself: damage of one does not hide the others. Nor does it
// hide that a process of its own command still runs.
func TestRecordsBesideDamage(t *testing.T) {
	s := newStage(t)
	for _, key := range []string{s.key + "-a", s.key + "-b"} {
		s.run(s.sh(key, "true"))
	}
	done := s.begin(s.Runner, s.sh(s.key+"-held", "touch here; until [ -e go ]; do sleep 0.02; done"), "here")
	for _, key := range []string{s.key + "-a", s.key + "-held"} {
		path := command.ClaimPath(s.dir, key)
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteAt([]byte("X"), 60)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	recs, unread := command.Records(s.dir)
	if len(recs) != 1 || recs[0].Key != s.key+"-b" || len(unread) != 2 {
		t.Fatalf("Records: got %+v, %v", recs, unread)
	}
	for _, err := range unread {
		var e *session.Error
		if !errors.As(err, &e) || e.Code != session.ErrCorrupt {
			t.Fatalf("Records: got %v, want ErrCorrupt", err)
		}
		if runs := e.Place == command.ClaimPath(s.dir, s.key+"-held"); errors.Is(err, command.ErrHeld) != runs {
			t.Errorf("%v: ErrHeld is %t, want %t", err, !runs, runs)
		}
	}
	s.touch("go")
	if res := <-done; !errors.Is(res.err, session.ErrCorrupt) {
		t.Errorf("Run: got %+v, %v, want ErrCorrupt", res.rec, res.err)
	}
}
