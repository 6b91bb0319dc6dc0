package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/sandbox"
	"github.com/acode-dev/acode/session"
)

// confined returns a request for a script in a sandbox of the mode. The stage has a
// directory outside, with the file kept.
func (s *stage) confined(mode, script string) session.CommandRequest {
	s.t.Helper()
	req := s.sh(s.key, script)
	base := filepath.Dir(s.ws)
	box := &session.Sandbox{Mode: mode, Workspace: s.ws, Home: filepath.Join(base, "home"), Tmp: filepath.Join(base, "tmp"),
		Read: sandbox.Place{Getenv: os.Getenv, State: s.dir}.Readable()}
	for _, dir := range []string{box.Home, box.Tmp, filepath.Join(base, "outside")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			s.t.Fatal(err)
		}
	}
	req.Sandbox = box
	return req
}

func eachMode(t *testing.T, test func(t *testing.T, s *stage, mode string)) {
	for _, mode := range []string{sandbox.Namespaces, sandbox.Filter} {
		t.Run(mode, func(t *testing.T) { test(t, newStage(t, "PATH="+os.Getenv("PATH")), mode) })
	}
}

// A confined command is started, ends and is recorded like any other, and can write in
// its workspace only.
func TestConfinedCommand(t *testing.T) {
	eachMode(t, func(t *testing.T, s *stage, mode string) {
		rec := s.run(s.confined(mode, "echo out; echo x > ledger; echo x > ../outside/planted || echo refused; exit 3"))
		if rec.State != session.CommandFinished || rec.Exit != 3 || rec.PID == 0 || s.ledger() != "x\n" {
			t.Errorf("Run: got %+v, ledger %q", rec, s.ledger())
		}
		if out, _ := s.output(s.key); !strings.HasPrefix(out, "out\n") || !strings.HasSuffix(out, "refused\n") {
			t.Errorf("output: got %q", out)
		}
		if s.has("../outside/planted") {
			t.Error("the command wrote outside")
		}
		got, err := os.ReadFile(command.ClaimPath(s.dir, s.key))
		if err != nil || !strings.Contains(string(got), `"sandbox":"`+mode+", landlock ") {
			t.Errorf("the claim: got %q, %v", got, err)
		}
	})
}

// A program that cannot be started is a start error, as without a sandbox.
func TestConfinedStartErrors(t *testing.T) {
	eachMode(t, func(t *testing.T, s *stage, mode string) {
		if err := os.WriteFile(filepath.Join(s.ws, "lost"), []byte("#!/no/interpreter\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		for file, want := range map[string]string{"no-such-program": "not found in PATH", "./none": "no such file", "./lost": "its interpreter", "./.": "permission denied"} {
			req := s.confined(mode, "")
			req.Key, req.Argv = s.key+file, []string{file}
			if rec := s.run(req); rec.State != session.CommandFinished || rec.Exit != -1 || rec.Starved || !strings.Contains(rec.StartError, want) {
				t.Errorf("%s: got %+v, want %q", file, rec, want)
			}
		}
	})
}

// The stage leaves neither the report nor more descriptors to the command, and those that
// it has to the store cannot be written to.
func TestConfinedDescriptors(t *testing.T) {
	eachMode(t, func(t *testing.T, s *stage, mode string) {
		s.run(s.confined(mode, `test ! -e /proc/self/fd/22 || exit 5
			for fd in 20 21; do
				test -e /proc/self/fd/$fd || continue
				( eval "echo planted >&$fd" ) 2>/dev/null && echo written
				( : >> /proc/self/fd/$fd ) 2>/dev/null && echo reopened
			done
			ls /proc/self/fd | wc -l`))
		if out, _ := s.output(s.key); strings.ContainsAny(out, "wr") {
			t.Errorf("a descriptor: got %q", out)
		}
	})
}

// A confined command on a terminal has one, and its timeout ends it.
func TestConfinedOnTerminal(t *testing.T) {
	eachMode(t, func(t *testing.T, s *stage, mode string) {
		req := s.confined(mode, "test -t 1 && echo terminal; echo x > ../outside/planted || echo refused")
		req.TTY = true
		rec := s.run(req)
		if out, _ := s.output(s.key); rec.Exit != 0 || !strings.Contains(out, "terminal\n") || !strings.Contains(out, "refused") {
			t.Errorf("Run: got %+v, %q", rec, out)
		}
		req = s.confined(mode, "sleep 600 & sleep 600")
		req.Key, req.Timeout = s.key+"2", 300*time.Millisecond
		if rec := s.run(req); !rec.TimedOut || len(rec.Left) > 0 {
			t.Errorf("Run: got %+v, want it timed out", rec)
		}
	})
}

// A command that only reads writes nowhere, also on a terminal, and its record says how
// it was confined.
func TestReadingCommand(t *testing.T) {
	eachMode(t, func(t *testing.T, s *stage, mode string) {
		for i, tty := range []bool{false, true} {
			req := s.confined(mode, "cat given; for f in ledger ../home/x ../tmp/x $HOME/x /tmp/x; do echo x 2>/dev/null > $f && echo planted; done; exit 0")
			if err := os.WriteFile(filepath.Join(s.ws, "given"), []byte("content\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			req.Sandbox.ReadOnly, req.TTY, req.Key = true, tty, s.key+string(rune('a'+i))
			rec := s.run(req)
			if out, _ := s.output(req.Key); rec.Exit != 0 || !strings.Contains(out, "content") || strings.Contains(out, "planted") || s.has("ledger") {
				t.Errorf("Run: got %+v, %q", rec, out)
			}
			got, err := os.ReadFile(command.ClaimPath(s.dir, req.Key))
			if err != nil || !strings.Contains(string(got), ", reading\"") {
				t.Errorf("the claim: got %q, %v", got, err)
			}
		}
	})
}

// The same key with another confinement is another command.
func TestConfinementIsPartOfTheRequest(t *testing.T) {
	s := newStage(t)
	s.run(s.confined(sandbox.Namespaces, "true"))
	reading := s.confined(sandbox.Namespaces, "true")
	reading.Sandbox.ReadOnly = true
	for _, req := range []session.CommandRequest{s.sh(s.key, "true"), reading} {
		if _, err := s.Run(s.ctx(), req); session.CodeOf(err) != session.ErrConflict {
			t.Errorf("Run: got %v, want %s", err, session.ErrConflict)
		}
	}
}

// A command that makes the supervisor its tracer and stops is not over.
func TestTracedCommandIsNotOver(t *testing.T) {
	s := newStage(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	req := s.sh(s.key, "exec "+self)
	req.Env = append(req.Env, "CMDTEST_ROLE=traced")
	req.Timeout = 500 * time.Millisecond
	if rec := s.run(req); !rec.TimedOut {
		t.Errorf("Run: got %+v, want it ended by its timeout", rec)
	}
}

// tracedMain makes the parent of this process its tracer, and stops.
func tracedMain() int {
	if _, _, no := unix.RawSyscall(unix.SYS_PTRACE, unix.PTRACE_TRACEME, 0, 0); no != 0 {
		return 1
	}
	// a traced process stops for each signal
	_ = unix.Kill(os.Getpid(), unix.SIGUSR1)
	return 0
}
