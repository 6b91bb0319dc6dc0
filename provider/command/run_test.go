//go:build linux

package command_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/session"
)

// commands are the methods that the engine needs from a runner.
type commands interface {
	Look(ctx context.Context, key string) (session.CommandRecord, error)
	Run(ctx context.Context, req session.CommandRequest) (session.CommandRecord, error)
	Wait(ctx context.Context, key string) (session.CommandRecord, error)
	Terminate(ctx context.Context, key string) error
	Output(key string) (stdout, stderr io.ReadCloser, err error)
	Forget(key string) error
}

var _ commands = (*command.Runner)(nil)

func (s *stage) output(key string) (string, string) {
	s.t.Helper()
	o, e, err := s.Output(key)
	if err != nil {
		s.t.Fatalf("Output(%s): %v", key, err)
	}
	defer o.Close()
	defer e.Close()
	ob, err1 := io.ReadAll(o)
	eb, err2 := io.ReadAll(e)
	if err := errors.Join(err1, err2); err != nil {
		s.t.Fatal(err)
	}
	return string(ob), string(eb)
}

func TestRunFinishes(t *testing.T) { each(t, runFinishes) }

func runFinishes(t *testing.T, s *stage) {
	if rec, err := s.Look(s.ctx(), s.key); err != nil || rec.State != session.CommandUnclaimed {
		t.Fatalf("Look before: got %+v, %v", rec, err)
	}
	req := s.sh(s.key, `echo out; echo err >&2; exit 7`)
	req.Split = true
	req.Volatile = false
	rec := s.run(req)
	if rec.State != session.CommandFinished || rec.Exit != 7 || rec.PID == 0 || rec.StartedUS == 0 || rec.EndedUS < rec.StartedUS || rec.Epoch != 1 {
		t.Fatalf("Run: got %+v", rec)
	}
	if o, e := s.output(s.key); o != "out\n" || e != "err\n" {
		t.Fatalf("Output: got %q, %q", o, e)
	}
	again := s.run(req)
	if again.EndedUS != rec.EndedUS {
		t.Fatalf("Run twice: got %+v, want %+v", again, rec)
	}
	if err := s.Forget(s.key); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Output(s.key); !errors.Is(err, session.ErrCorrupt) {
		t.Fatalf("Output after Forget: got %v, want ErrCorrupt", err)
	}
	if rec, err := s.Look(s.ctx(), s.key); err != nil || rec.State != session.CommandFinished {
		t.Fatalf("Look after Forget: got %+v, %v", rec, err)
	}
}

// C1, with one supervisor for all commands of a session.
func TestOneSupervisorServesAll(t *testing.T) {
	s := newStage(t)
	s.run(s.sh(s.key+"-a", "echo a >> ledger"))
	pid := s.supervisorPID()
	s.run(s.sh(s.key+"-b", "echo b >> ledger"))
	if got := s.supervisorPID(); got != pid {
		t.Fatalf("second supervisor %d after %d", got, pid)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// it ends by itself
	s.supervisorGone()
	eventually(t, "the supervisor's process to end", func() bool { return !running(pid) })
	s.run(s.sh(s.key+"-c", "echo c >> ledger"))
	if s.ledger() != "a\nb\nc\n" {
		t.Fatalf("ledger: %q", s.ledger())
	}
	recs, unread := command.Records(s.dir)
	if len(unread) > 0 || len(recs) != 3 || recs[0].Key != s.key+"-a" || recs[2].Key != s.key+"-c" {
		t.Fatalf("Records: got %+v, %v", recs, unread)
	}
}

// Commands that end at the same time leave no process, and none is taken for a leftover
// of another.
func TestCommandsBesideEachOther(t *testing.T) {
	s := newStage(t)
	for round := range 30 {
		var ended sync.WaitGroup
		for i := range 4 {
			key := fmt.Sprintf("k%d-%d", round, i)
			ended.Go(func() {
				rec, err := s.Run(s.ctx(), s.sh(key, `sleep 0.05; true`))
				if err != nil || rec.State != session.CommandFinished || len(rec.Left) > 0 {
					t.Errorf("Run: got %+v, %v", rec, err)
				}
			})
		}
		ended.Wait()
	}
}

func TestSignalExitAndExecFailure(t *testing.T) { each(t, signalExitAndExecFailure) }

func signalExitAndExecFailure(t *testing.T, s *stage) {
	rec := s.run(s.sh(s.key+"-sig", "kill -9 $$"))
	if rec.State != session.CommandFinished || rec.Signal != "SIGKILL" || rec.Exit != -1 || rec.Cancelled || rec.TimedOut {
		t.Errorf("signal: got %+v", rec)
	}
	if rec := s.run(s.sh(s.key+"-realtime", "kill -s 40 $$")); rec.Signal != "signal 40" || rec.Exit != -1 {
		t.Errorf("a signal without a name: got %+v", rec)
	}
	for _, argv := range [][]string{{"no-such-program-here"}, {"/no/such/program"}, {"./plain"}} {
		if err := os.WriteFile(filepath.Join(s.ws, "plain"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		req := s.sh(s.key+"-x"+argv[0], "")
		req.Argv = argv
		rec := s.run(req)
		if rec.State != session.CommandFinished || rec.Exit != -1 || rec.StartError == "" || strings.Contains(rec.StartError, argv[0]) || rec.PID != 0 || rec.EndedUS-rec.StartedUS > patience.Microseconds() {
			t.Errorf("%s: got %+v; the record must not name an argument that may hold a secret", argv, rec)
		}
	}
}

// The kernel reports a missing program if its interpreter is missing.
func TestMissingInterpreter(t *testing.T) {
	s := newStage(t)
	if err := os.WriteFile(filepath.Join(s.ws, "script"), []byte("#!/no/such/shell\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"./script", filepath.Join(s.ws, "script")} {
		req := s.sh(s.key+program, "")
		req.Argv = []string{program}
		if rec := s.run(req); rec.State != session.CommandFinished || !strings.HasPrefix(rec.StartError, "its interpreter") {
			t.Errorf("%s: got %+v", program, rec)
		}
	}
}

func TestEnvironmentAndPlace(t *testing.T) { each(t, environmentAndPlace) }

func environmentAndPlace(t *testing.T, s *stage) {
	if err := os.MkdirAll(filepath.Join(s.ws, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	req := s.sh(s.key, `tr '\0' '\n' < /proc/$$/environ; echo "cwd=$(pwd)"; cat; ls -l /proc/self/fd | wc -l; ps -o sid= -p $$ | tr -d ' ' ; echo $$`)
	req.Dir = "sub"
	req.Env = append(req.Env, "MODE=debug", "ACODE_HOME=/secret", "ACODE_CHECKPOINT_SECRET=x", "ACODE_IDEMPOTENCY_KEY=other", "MODE=release", "PWD=/wrong", "LATIN=caf\xe9")
	s.run(req)
	out, _ := s.output(s.key)
	for _, want := range []string{"MODE=release\n", "LATIN=caf\xe9\n", "ACODE_IDEMPOTENCY_KEY=" + s.key + "\n", "PWD=" + s.ws + "/sub\n", "cwd=" + s.ws + "/sub\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("output lacks %q:\n%s", want, out)
		}
	}
	if strings.Count(out, "ACODE_") != 1 || strings.Contains(out, "CMDTEST") || strings.Contains(out, "/wrong") || strings.Contains(out, "MODE=debug") {
		t.Errorf("environment is not scrubbed:\n%s", out)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if n := len(lines); lines[n-1] != lines[n-2] {
		t.Errorf("the command leads no process session of its own: %v", lines[n-2:])
	}
}

// A command has its three standard descriptors and those of its locks. The numbers of the
// locks are higher than those that scripts use, so that a script cannot write to a file
// of acode's.
func TestDescriptors(t *testing.T) {
	lock := filepath.Join(t.TempDir(), "command")
	s := newStage(t, "CMDTEST_LOCK="+lock)
	s.run(s.sh(s.key, "{ printf x >&4; } 2>/dev/null; cd /proc/$$/fd; for n in 3 4 5 6 7 8 9 20 21; do test ! -e $n || echo $n; done"))
	if out, _ := s.output(s.key); out != "20\n21\n" {
		t.Errorf("descriptors beyond the standard ones: got %q", out)
	}
	if b, err := os.ReadFile(lock); err != nil || len(b) != 0 {
		t.Errorf("the command wrote %q to its lock, %v", b, err)
	}
}

// A directory cannot leave the workspace, and such a request claims nothing.
func TestDirIsConfined(t *testing.T) { each(t, dirIsConfined) }

func dirIsConfined(t *testing.T, s *stage) {
	if err := os.Symlink("/", filepath.Join(s.ws, "link")); err != nil {
		t.Fatal(err)
	}
	for dir, code := range map[string]session.Code{"..": session.ErrEscape, "/": session.ErrEscape, "link/tmp": session.ErrEscape, "none": session.ErrCommand} {
		req := s.sh(s.key, "echo ran >> ledger")
		req.Dir = dir
		if rec, err := s.Run(s.ctx(), req); !errors.Is(err, code) {
			t.Errorf("%s: got %+v, %v, want %s", dir, rec, err, code)
		}
	}
	if rec, err := s.Look(s.ctx(), s.key); err != nil || rec.State != session.CommandUnclaimed || s.ledger() != "" {
		t.Errorf("got %+v, %v, ledger %q", rec, err, s.ledger())
	}
	// a refusal does not use the key up
	s.run(s.sh(s.key, "echo ran >> ledger"))
	if s.ledger() != "ran\n" {
		t.Errorf("ledger: %q", s.ledger())
	}
}

func TestRefusals(t *testing.T) { each(t, refusals) }

func refusals(t *testing.T, s *stage) {
	bad := map[string]func(*session.CommandRequest){
		"no_key":    func(r *session.CommandRequest) { r.Key = "" },
		"no_argv":   func(r *session.CommandRequest) { r.Argv = nil },
		"relative":  func(r *session.CommandRequest) { r.Workspace = "x" },
		"zero_byte": func(r *session.CommandRequest) { r.Env = []string{"A=\x00"} },
		"tty_split": func(r *session.CommandRequest) { r.TTY, r.Split = true, true },
		"long_key":  func(r *session.CommandRequest) { r.Key = strings.Repeat(s.key, 2000) },
	}
	for name, spoil := range bad {
		req := s.sh(s.key, "echo ran >> ledger")
		spoil(&req)
		if _, err := s.Run(s.ctx(), req); !errors.Is(err, session.ErrCommand) {
			t.Errorf("%s: got %v, want ErrCommand", name, err)
		}
	}
	s.run(s.sh(s.key, "echo ran >> ledger"))
	if _, err := s.Run(s.ctx(), s.sh(s.key, "echo other >> ledger")); !errors.Is(err, session.ErrConflict) {
		t.Errorf("another command under one key: got %v, want ErrConflict", err)
	}
	if s.ledger() != "ran\n" {
		t.Errorf("ledger: %q", s.ledger())
	}
}

// Requests travel over the socket only: no file of ours holds their content.
func TestRequestIsNeverOnDisk(t *testing.T) { each(t, requestIsNeverOnDisk) }

func requestIsNeverOnDisk(t *testing.T, s *stage) {
	const secret = "hunter2-planted-secret"
	req := s.sh(s.key, "touch up; : "+secret+"; until test -e go; do sleep 0.01; done; sleep 60 "+"& exit 0")
	req.Env = append(req.Env, "TOKEN="+secret)
	grep := func() {
		found := 0
		err := filepath.WalkDir(filepath.Dir(s.dir), func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			found++
			b, err := os.ReadFile(path)
			if bytes.Contains(b, []byte(secret)) {
				t.Errorf("%s holds the secret", path)
			}
			return err
		})
		if err != nil || found < 4 {
			t.Errorf("looked at %d files, %v", found, err)
		}
	}
	done := s.begin(s.Runner, req, "up")
	grep()
	s.touch("go")
	if r := <-done; r.err != nil || len(r.rec.Left) != 1 {
		t.Fatalf("got %+v", r)
	}
	grep()
	killLeft(t, s)
}

// When ctx ends the command continues, and a later call gets its result.
func TestContextEndsCommandGoesOn(t *testing.T) { each(t, contextEndsCommandGoesOn) }

func contextEndsCommandGoesOn(t *testing.T, s *stage) {
	cause := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(s.ctx())
	req := s.sh(s.key, "echo ran >> ledger; touch up; until test -e go; do sleep 0.01; done; echo done")
	done := make(chan error, 1)
	go func() {
		_, err := s.Run(ctx, req)
		done <- err
	}()
	eventually(t, "start", func() bool {
		rec, err := s.Look(s.ctx(), s.key)
		return s.has("up") && err == nil && rec.PID > 0
	})
	cancel(cause)
	if err := <-done; !errors.Is(err, cause) {
		t.Fatalf("Run: got %v, want the cause", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	later := s.runner(2)
	if rec, err := later.Look(s.ctx(), s.key); err != nil || rec.State != session.CommandRunning || rec.PID == 0 {
		t.Fatalf("Look: got %+v, %v", rec, err)
	}
	wait := make(chan result, 1)
	ctx2 := s.ctx()
	go func() {
		rec, err := later.Wait(ctx2, s.key)
		wait <- result{rec, err}
	}()
	s.touch("go")
	if r := <-wait; r.err != nil || r.rec.State != session.CommandFinished || r.rec.Exit != 0 {
		t.Fatalf("Wait: got %+v", r)
	}
	if out, _ := s.output(s.key); out != "done\n" || s.ledger() != "ran\n" {
		t.Fatalf("output %q, ledger %q", out, s.ledger())
	}
	if rec, err := later.Wait(s.ctx(), "never"); err != nil || rec.State != session.CommandUnclaimed {
		t.Fatalf("Wait for a key never claimed: got %+v, %v", rec, err)
	}
	_ = later.Close()
}

// A supervisor and its commands do not keep the open files of acode's parent process
// open.
func TestSupervisorInheritsNothing(t *testing.T) {
	s := newStage(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := s.Run(s.ctx(), s.sh(s.key, "touch up; until test -e go; do sleep 0.01; done"))
		done <- err
	}()
	eventually(t, "the command to run", func() bool { return s.has("up") })
	_ = w.Close()
	if err := r.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("Read: got %v, want the end while the command runs", err)
	}
	s.touch("go")
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A supervisor serves any number of commands without more open descriptors. This includes
// commands that it refuses or cannot start.
func TestSupervisorKeepsNothingOpen(t *testing.T) {
	lock := filepath.Join(t.TempDir(), "command")
	// without garbage collection no forgotten file is closed
	s := newStage(t, "CMDTEST_LOCK="+lock, "GOGC=off")
	commands := func(round int) {
		t.Helper()
		key := func(name string) string { return fmt.Sprint(name, round) }
		s.run(s.sh(key("runs"), "echo out; echo err >&2"))
		missing := s.sh(key("missing"), "")
		missing.Argv = []string{"/no/such/program"}
		if rec := s.run(missing); rec.StartError == "" {
			t.Errorf("a program that is not there: got %+v", rec)
		}
		late := s.sh(key("late"), "sleep 306")
		late.Timeout = 10 * time.Millisecond
		s.run(late)
		nowhere := s.sh(key("nowhere"), "true")
		nowhere.Dir = "no/such/directory"
		stale := s.sh(key("stale"), "true")
		stale.Epoch = 0
		unwritable := s.sh(key("unwritable"), "true")
		unwritable.Split = true
		if err := os.Mkdir(filepath.Join(s.dir, command.Stem(unwritable.Key)+".err"), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, req := range []session.CommandRequest{nowhere, stale, unwritable} {
			if rec, err := s.Run(s.ctx(), req); err == nil {
				t.Errorf("%s: got %+v, want a refusal", req.Key, rec)
			}
		}
		var held *os.File
		// a process that another test just starts has the lock file until it executes its
		// program
		eventually(t, "the lock", func() bool {
			var err error
			held, err = takeLock(lock)
			return err == nil
		})
		if rec, err := s.Run(s.ctx(), s.sh(key("locked"), "true")); !errors.Is(err, session.ErrLocked) {
			t.Errorf("locked: got %+v, %v, want ErrLocked", rec, err)
		}
		if err := held.Close(); err != nil {
			t.Fatal(err)
		}
	}
	commands(0)
	dir := fmt.Sprintf("/proc/%d/fd", s.supervisorPID())
	open := func() int {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	// some descriptors of the last command may still be open
	settled := open()
	for round := range 3 {
		commands(round + 1)
	}
	eventually(t, "the supervisor to have closed its files", func() bool { return open() <= settled })
}
