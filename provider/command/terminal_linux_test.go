package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acode-dev/acode/session"
)

// tty makes a request for a command on a terminal.
func (s *stage) tty(key, script string) session.CommandRequest {
	req := s.sh(key, script)
	req.TTY = true
	return req
}

// recorded returns the output that script(1) records of a command on its terminal, which
// does not convert the ends of lines.
func recorded(t *testing.T, dir, script string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "typescript")
	cmd := exec.Command("script", "-qec", "stty -onlcr; "+script, file)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "SHELL=/bin/sh")
	if err := cmd.Run(); err != nil {
		t.Fatalf("script: %v", err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// script adds a first and a last line
	_, text, begun := strings.Cut(string(b), "\n")
	end := strings.LastIndex(text, "\nScript done on")
	if !begun || end < 0 {
		t.Fatalf("the output of script is no recording: %q", b)
	}
	return text[:end]
}

// A command on a terminal has its own terminal at each of its streams, of one size,
// without input.
func TestTerminal(t *testing.T) { each(t, terminal) }

func terminal(t *testing.T, s *stage) {
	rec := s.run(s.tty(s.key, `test -t 0; test -t 1; test -t 2; stty size; echo to the terminal > /dev/tty; printf "$TERM\n" >&2
		read line || echo no input; cat; cat; echo $0 "$@"; tr '\0' '\n' < /proc/$$/environ | grep -c ^TERM=; exit 3`))
	want := "24 80\nto the terminal\nxterm-256color\nno input\n/bin/sh\n1\n"
	if out, errs := s.output(s.key); out != want || errs != "" || rec.Exit != 3 || rec.State != session.CommandFinished || len(rec.Left) > 0 {
		t.Errorf("got %q, %q, %+v", out, errs, rec)
	}
	req := s.tty("own", `echo "$TERM" "$@"`)
	req.Env, req.Argv = append(req.Env, "TERM=vt100", "GODEBUG=inittrace=1"), append(req.Argv, "name", "--", "-x", "")
	s.run(req)
	if out, _ := s.output("own"); out != "vt100 -- -x \n" {
		t.Errorf("with its own: got %q", out)
	}
}

// The output of a command on a terminal is the same as script(1) records.
func TestTerminalAsRecorded(t *testing.T) {
	s := newStage(t)
	for i, script := range []string{
		`i=0; while [ $i -lt 300 ]; do echo $i; echo $i >&2; i=$((i+1)); done`,
		`printf 'no newline'`,
		`printf 'progress 1\rprogress 2\r\nwith CR\r\n\033[31mred\033[0m\a\b\ttab'`,
		`seq 200000`,
		`head -c 300000 /dev/zero; printf '\377\376\200\001\177\004\003\032end'`,
		`echo a > /dev/stdout; echo b > /dev/stderr; echo c > /dev/tty; ls --color=auto -d /; stty -a | head -1 | cut -d' ' -f1-2`,
	} {
		key := fmt.Sprint(s.key, i)
		s.run(s.tty(key, script))
		want := recorded(t, s.ws, script)
		if out, _ := s.output(key); out != want {
			t.Errorf("%s: got %d bytes, script has %d\n%.300q\n%.300q", script, len(out), len(want), out, want)
		}
	}
}

// The last bytes before the end are kept, even if the end comes at once.
func TestTerminalKeepsTheLastBytes(t *testing.T) {
	s := newStage(t)
	s.run(s.tty(s.key, `true`))
	s.run(s.tty("loop", `for i in $(seq 50); do echo $i; done; head -c 3000 /dev/zero | tr '\0' x; printf last`))
	if out, _ := s.output("loop"); !strings.HasSuffix(out, "xlast") || len(out) != 141+3000+4 {
		t.Errorf("got %d bytes, %.50q", len(out), out)
	}
	for i := range 25 {
		key := fmt.Sprint(s.key, i)
		s.run(s.tty(key, `head -c 5000 /dev/zero | tr '\0' x; printf last`))
		if out, _ := s.output(key); out != strings.Repeat("x", 5000)+"last" {
			t.Fatalf("%d: got %d bytes that end in %q", i, len(out), out[max(0, len(out)-10):])
		}
	}
}

// The exit status of a command on a terminal is as in a shell, for a signal and for a
// program that cannot be executed.
func TestTerminalEnds(t *testing.T) { each(t, terminalEnds) }

func terminalEnds(t *testing.T, s *stage) {
	for script, want := range map[string]int{"exit 7": 7, "kill -SEGV $$": 139, "kill -KILL $$": 137, "kill -TERM $$": 143, "trap 'exit 9' USR1; kill -USR1 0": 9} {
		if rec := s.run(s.tty(script, script)); rec.State != session.CommandFinished || rec.Exit != want || rec.Signal != "" {
			t.Errorf("%s: got %+v, want %d", script, rec, want)
		}
	}
	missing := s.tty("missing", "")
	missing.Argv = []string{"no-such-program-here"}
	if rec := s.run(missing); rec.StartError == "" || rec.Exit != -1 {
		t.Errorf("missing: got %+v", rec)
	}
	if err := os.WriteFile(filepath.Join(s.ws, "odd"), []byte("#!/no/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	odd := s.tty("odd", "")
	odd.Argv = []string{"./odd"}
	rec := s.run(odd)
	if out, _ := s.output("odd"); rec.Exit != 126 || out != "acode: the command could not be started: no such file or directory\n" {
		t.Errorf("no interpreter: got %q, %+v", out, rec)
	}
}

// A command on a terminal is ended as any other, by its time limit or a person, with its
// children.
func TestTerminalIsEnded(t *testing.T) { each(t, terminalIsEnded, "CMDTEST_GRACE=1s") }

func terminalIsEnded(t *testing.T, s *stage) {
	req := s.tty("late", `trap 'echo asked; exit 5' INT; setsid sleep 306 & echo up; > up; while :; do sleep 0.01; done`)
	req.Timeout = time.Second
	rec := s.run(req)
	if out, _ := s.output("late"); out != "up\nasked\n" || !rec.TimedOut || rec.Exit != 5 || len(rec.Left) > 0 {
		t.Errorf("late: got %q, %+v", out, rec)
	}
	stubborn := s.tty("stubborn", `trap 'echo no' INT TERM HUP; echo up; > up2; while :; do sleep 0.01; done`)
	done := s.begin(s.Runner, stubborn, "up2")
	if err := s.Terminate(s.ctx(), "stubborn"); err != nil {
		t.Fatal(err)
	}
	r := <-done
	// the shell reports the end of its child too
	if out, _ := s.output("stubborn"); r.err != nil || !r.rec.Cancelled || strings.Count(out, "no\n") != 2 || len(r.rec.Left) > 0 {
		t.Errorf("stubborn: got %q, %+v", out, r)
	}
}

// The command is over when its leader is. Its children are hung up, as at the close of
// any terminal. A child that does not end by that is listed.
func TestTerminalOfChildren(t *testing.T) { each(t, terminalOfChildren) }

func terminalOfChildren(t *testing.T, s *stage) {
	rec := s.run(s.tty(s.key, `sh -c 'echo $$ > hung; exec sleep 307' & sh -c 'trap "" HUP; echo $$ > pid; until test -e end; do echo more; sleep 0.01; done' & until test -s hung && test -s pid; do :; done; echo started`))
	out, _ := s.output(s.key)
	if !strings.Contains(out, "started\n") || strings.Trim(strings.ReplaceAll(out, "started\n", ""), "more\n") != "" || rec.State != session.CommandFinished || rec.Exit != 0 || len(rec.Left) == 0 {
		t.Errorf("got %q, %+v", out, rec)
	}
	eventually(t, "the first child to end", func() bool { return !running(s.pidIn("hung")) })
	child := s.pidIn("pid")
	s.touch("end")
	eventually(t, "the second child to end", func() bool { return !running(child) })
}

// The process that holds the terminal is killed. The command is hung up, its outcome is
// unknown, and it is not started again.
func TestTerminalProcessKilled(t *testing.T) {
	s := newStage(t)
	req := s.tty(t.TempDir(), `trap 'echo hung up >> ledger; exit 1' HUP; > up; until test -e go; do sleep 0.01; done; echo ran >> ledger`)
	done := s.begin(s.Runner, req, "up")
	rec, err := s.Look(s.ctx(), req.Key)
	if err != nil || syscall.Kill(rec.PID, syscall.SIGKILL) != nil {
		t.Fatalf("Look: got %+v, %v", rec, err)
	}
	if r := <-done; r.err != nil || r.rec.Interruption() != "SIGKILL" {
		t.Errorf("got %+v", r)
	}
	eventually(t, "the command to be hung up", func() bool { return s.ledger() == "hung up\n" })
	s.touch("go")
	if _, err := s.Run(s.ctx(), req); err != nil || s.ledger() != "hung up\n" {
		t.Errorf("again: %v, ledger %q", err, s.ledger())
	}
}

// C2: the children of a command on a terminal are found by its process session too, once
// its supervisor is killed.
func TestTerminalIsFoundBySession(t *testing.T) {
	s := newStage(t)
	req := s.tty("k", `/usr/bin/env -i /bin/bash -c 'exec 20>&- 21>&-; echo $$ > pid; until test -e end; do /bin/sleep 0.01; done' & > up; until test -e go; do sleep 0.01; done`)
	done := s.begin(s.Runner, req, "up")
	child := s.pidIn("pid")
	_ = syscall.Kill(s.supervisorPID(), syscall.SIGKILL)
	s.supervisorGone()
	left, err := s.Left(s.ctx(), "k")
	if err != nil || !strings.Contains(strings.Join(left, " "), fmt.Sprint(child)) {
		t.Errorf("Left: got %q, %v, want %d among them", left, err, child)
	}
	s.touch("go")
	s.touch("end")
	if r := <-done; r.err != nil || r.rec.State != session.CommandUnknown && r.rec.State != session.CommandLingering {
		t.Errorf("got %+v", r)
	}
}
