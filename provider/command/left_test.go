//go:build linux

package command_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/session"
)

var errPatience = errors.New("the test has waited long enough")

func timeoutCause(s *stage) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(s.ctx(), 300*time.Millisecond, errPatience)
}

// killLeft ends the processes that records list as left.
func killLeft(t *testing.T, s *stage) {
	t.Helper()
	recs, unread := command.Records(s.dir)
	if len(unread) > 0 {
		t.Fatal(unread)
	}
	for _, rec := range recs {
		for _, l := range rec.Left {
			pid, _ := strconv.Atoi(strings.Fields(l)[0])
			if pid > 1 && running(pid) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

// stubborn starts an orphan in its own process session. The orphan ignores INT and TERM,
// holds no inherited descriptor and has an empty environment.
const stubborn = `(setsid env -i /bin/bash -c 'exec 20>&- 21>&- >/dev/null 2>&1; trap "" INT TERM; echo $$ > orphan.t; /bin/mv orphan.t orphan; while :; do /bin/sleep 1; done' &); until test -e orphan; do sleep 0.01; done; `

func TestTimeoutEndsEveryDescendant(t *testing.T) { each(t, timeoutEndsEveryDescendant) }

func timeoutEndsEveryDescendant(t *testing.T, s *stage) {
	req := s.sh(s.key, stubborn+"echo ready; touch up; while :; do sleep 1; done")
	req.Timeout = 300 * time.Millisecond
	rec := s.run(req)
	// a slow machine needs more time
	for !s.has("up") && req.Timeout < patience {
		req.Key, req.Timeout = req.Key+s.key, 3*req.Timeout
		_ = os.Remove(filepath.Join(s.ws, "orphan"))
		rec = s.run(req)
	}
	if rec.State != session.CommandFinished || !rec.TimedOut || rec.Cancelled || rec.Signal == "" || len(rec.Left) != 0 {
		t.Errorf("got %+v", rec)
	}
	if pid := s.pidIn("orphan"); running(pid) {
		t.Errorf("orphan %d runs on", pid)
	}
	if out, _ := s.output(req.Key); out != "ready\n" {
		t.Errorf("output %q", out)
	}
}

// A supervisor that was frozen finds two events at once: the command has ended, and its
// time limit has passed. A command that ended in time is not reported as timed out.
func TestEndsInTimeUnderAFrozenSupervisor(t *testing.T) {
	// the order in which the supervisor sees the events is not fixed
	for range 3 {
		s := newStage(t)
		req := s.sh(s.key, "touch up; until test -e go; do sleep 0.01; done")
		req.Timeout = time.Second
		late := time.NewTimer(req.Timeout)
		done := s.begin(s.Runner, req, "up")
		rec, err := s.Look(s.ctx(), s.key)
		if err != nil {
			t.Fatal(err)
		}
		pid := s.freeze()
		s.touch("go")
		eventually(t, "the command to end", func() bool { return !running(rec.PID) })
		<-late.C
		// this timer was set before the supervisor's own
		late.Reset(100 * time.Millisecond)
		<-late.C
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if r := <-done; r.err != nil || r.rec.State != session.CommandFinished || r.rec.Signal == "" && (r.rec.Exit != 0 || r.rec.TimedOut) {
			t.Errorf("got %+v", r)
		}
	}
}

func TestTerminate(t *testing.T) { each(t, terminate) }

func terminate(t *testing.T, s *stage) {
	done := s.begin(s.Runner, s.sh(s.key, stubborn+"touch up; while :; do sleep 0.05; done"), "up")
	if err := command.Cancel(s.ctx(), s.dir, s.key); err != nil {
		t.Fatal(err)
	}
	r := <-done
	if r.err != nil || r.rec.State != session.CommandFinished || !r.rec.Cancelled || r.rec.TimedOut || r.rec.Signal == "" {
		t.Errorf("got %+v", r)
	}
	if pid := s.pidIn("orphan"); running(pid) {
		t.Errorf("orphan %d runs on", pid)
	}
	if err := s.Terminate(s.ctx(), s.key); err != nil {
		t.Errorf("Terminate of a command that is over: %v", err)
	}
}

// C1: a command that is terminated before its supervisor has claimed it never starts. A
// frozen supervisor may already have the request.
func TestTerminateBeforeTheClaim(t *testing.T) {
	s := newStage(t)
	connected := make(chan struct{}, 9)
	cfg := config(s.dir, 1)
	cfg.SetHook(func(point string) {
		if point == "connected" {
			connected <- struct{}{}
		}
	})
	r := command.NewRunner(cfg)
	t.Cleanup(func() { _ = r.Close() })
	if _, err := r.Run(s.ctx(), s.sh(s.key+"-a", "echo a >> ledger")); err != nil {
		t.Fatal(err)
	}
	<-connected
	pid := s.freeze()
	ctx, cancel := context.WithCancelCause(s.ctx())
	left := make(chan error, 1)
	req := s.sh(s.key+"-b", "echo b >> ledger")
	go func() {
		_, err := r.Run(ctx, req)
		left <- err
	}()
	<-connected
	eventually(t, "the request to lie there", func() bool { return command.Unread(r) })
	cancel(errPatience)
	if err := <-left; !errors.Is(err, errPatience) {
		t.Fatalf("Run: got %v, want the cause", err)
	}
	if err := r.Terminate(s.ctx(), s.key+"-b"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	// its request comes after that of b
	if _, err := r.Run(s.ctx(), s.sh(s.key+"-c", "echo c >> ledger")); err != nil {
		t.Fatal(err)
	}
	if s.ledger() != "a\nc\n" {
		t.Errorf("ledger %q: a terminated command ran", s.ledger())
	}
	rec, err := r.Run(s.ctx(), req)
	if err != nil || rec.State != session.CommandFinished || !rec.Cancelled || rec.Exit != -1 || rec.EndedUS < rec.StartedUS {
		t.Errorf("Run again: got %+v, %v", rec, err)
	}
	if out, _ := s.output(s.key + "-b"); out != "" {
		t.Errorf("output %q", out)
	}
	if err := r.Terminate(s.ctx(), "never"); !errors.Is(err, session.ErrCommand) {
		t.Errorf("Terminate of a key without a request: got %v, want ErrCommand", err)
	}
}

// A command counts as ended when a look finds no process of it, not when every process
// was signalled: a process may fork meanwhile, and the next look finds the child.
func TestEndsOnlyWhenNobodyIsLeft(t *testing.T) {
	// after INT and TERM, each with its time to work
	looks, last := 0, 30
	if err := command.EndAll(t.Context(), func() int { looks++; return min(1, max(0, last-looks)) }); err != nil {
		t.Fatal(err)
	}
	if looks < last {
		t.Errorf("ended after %d looks, each of which saw a process", looks)
	}
}

// One look that finds no process does not end a command either: a leader that ends, and
// the child that it starts meanwhile, can both slip through one look.
func TestOneLookEndsNothing(t *testing.T) {
	looks, last := 0, 60
	if err := command.EndAll(t.Context(), func() int {
		if looks++; looks%3 != 0 {
			return 0
		}
		return min(1, max(0, last-looks))
	}); err != nil {
		t.Fatal(err)
	}
	if looks < last {
		t.Errorf("ended after %d looks, every third of which saw a process", looks)
	}
}

// A request that reaches a supervisor between the claim of a command and its start is not
// lost: the client sees the command run and asks only once.
func TestTerminateBetweenClaimAndStart(t *testing.T) {
	s := newStage(t)
	asked := make(chan error, 1)
	s.supervisorHook = firstTime("claimed", func() {
		go func() { asked <- command.AskToEnd(s.ctx(), s.dir, s.key) }()
		// the answer may have to wait for the start
		answer := time.NewTimer(200 * time.Millisecond)
		defer answer.Stop()
		select {
		case err := <-asked:
			asked <- err
		case <-answer.C:
		}
	})
	s.inside()
	rec := s.run(s.sh(s.key, "until test -e go; do sleep 0.01; done"))
	if err := <-asked; err != nil || rec.State != session.CommandFinished || !rec.Cancelled || rec.Signal == "" {
		t.Errorf("asked: %v; got %+v, want cancelled", err, rec)
	}
}

// INT comes first, and a command that handles it gets its time.
func TestTerminateAsksFirst(t *testing.T) { each(t, terminateAsksFirst, "CMDTEST_GRACE=1m") }

func terminateAsksFirst(t *testing.T, s *stage) {
	done := s.begin(s.Runner, s.sh(s.key, `trap "echo bye; exit 3" INT; touch up; while :; do sleep 0.05; done`), "up")
	if err := command.Cancel(s.ctx(), s.dir, s.key); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.err != nil || r.rec.State != session.CommandFinished || !r.rec.Cancelled || r.rec.TimedOut || r.rec.Exit != 3 {
		t.Errorf("got %+v", r)
	}
	if out, _ := s.output(s.key); out != "bye\n" {
		t.Errorf("output %q: INT did not come first", out)
	}
}

// Cancel returns an error if its supervisor cannot be asked. It does not wait for the
// command's own end, and it ends nothing.
func TestCancelWithoutTheSocket(t *testing.T) {
	s := newStage(t)
	done := s.begin(s.Runner, s.sh(s.key, `touch up; until test -e go; do sleep 0.01; done`), "up")
	if err := os.Remove(filepath.Join(s.dir, "s")); err != nil {
		t.Fatal(err)
	}
	if err := command.Cancel(s.ctx(), s.dir, s.key); !errors.Is(err, session.ErrLocked) || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("Cancel: got %v", err)
	}
	s.touch("go")
	if r := <-done; r.err != nil || r.rec.State != session.CommandFinished || r.rec.Exit != 0 || r.rec.Cancelled {
		t.Errorf("got %+v", r)
	}
}

// Cancel reports that the command has ended, or that it could not see the end within its
// context.
func TestCancelEndsWithItsContext(t *testing.T) {
	s := newStage(t, "CMDTEST_GRACE=1m")
	done := s.begin(s.Runner, s.sh(s.key, `trap "" INT; touch up; until test -e go; do sleep 0.01; done`), "up")
	ctx, cancel := timeoutCause(s)
	defer cancel()
	if err := command.Cancel(ctx, s.dir, s.key); !errors.Is(err, errPatience) {
		t.Errorf("Cancel: got %v, want the context's cause", err)
	}
	s.touch("go")
	if r := <-done; r.err != nil || !r.rec.Cancelled || r.rec.Exit != 0 {
		t.Errorf("got %+v", r)
	}
}

// A child that outlives a normal exit is listed. Run does not wait for it, and the end of
// a later command does not end it.
func TestBackgroundChildIsListed(t *testing.T) {
	lock := filepath.Join(t.TempDir(), "command")
	each(t, func(t *testing.T, s *stage) { backgroundChildIsListed(t, s, lock) }, "CMDTEST_LOCK="+lock)
}

func backgroundChildIsListed(t *testing.T, s *stage, lock string) {
	rec := s.run(s.sh(s.key+"-a", "sleep 301 & until grep -q sleep /proc/$!/comm; do sleep 0.01; done; echo $! > bg; exit 0"))
	bg := s.pidIn("bg")
	t.Cleanup(func() { _ = syscall.Kill(bg, syscall.SIGKILL) })
	if want := fmt.Sprintf("%d sleep 301", bg); rec.State != session.CommandFinished || len(rec.Left) != 1 || rec.Left[0] != want {
		t.Errorf("got %+v, want left %q", rec, want)
	}
	f, err := takeLock(lock)
	for range 1000 { // a process that was just forked may hold it until its exec
		if err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
		f, err = takeLock(lock)
	}
	if err != nil {
		t.Fatalf("the background child keeps the command lock: %v", err)
	}
	_ = f.Close()
	req := s.sh(s.key+"-b", "sleep 302")
	req.Timeout = 100 * time.Millisecond
	if rec := s.run(req); !rec.TimedOut {
		t.Errorf("b: got %+v", rec)
	}
	if !running(bg) {
		t.Error("the end of one command ended a process that another left")
	}
	_ = syscall.Kill(bg, syscall.SIGKILL)
	eventually(t, "the name alone", func() bool {
		rec, err := s.Look(s.ctx(), s.key+"-a")
		return err == nil && len(rec.Left) == 1 && rec.Left[0] == fmt.Sprintf("%d sleep", bg)
	})
}

// The command lock is taken before the claim, held by the command itself, and released
// after it.
func TestCommandLock(t *testing.T) {
	lock := filepath.Join(t.TempDir(), "command")
	s := newStage(t, "CMDTEST_LOCK="+lock)
	held, err := takeLock(lock)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(s.ctx(), s.sh(s.key, "echo ran >> ledger")); !errors.Is(err, session.ErrLocked) {
		t.Errorf("lock held elsewhere: got %v, want ErrLocked", err)
	}
	if rec, err := s.Look(s.ctx(), s.key); err != nil || rec.State != session.CommandUnclaimed {
		t.Errorf("Look: got %+v, %v", rec, err)
	}
	_ = held.Close()
	done := s.begin(s.Runner, s.sh(s.key, "touch up; until test -e go; do sleep 0.01; done"), "up")
	if err := syscall.Kill(s.supervisorPID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.supervisorGone()
	if _, err := takeLock(lock); !errors.Is(err, session.ErrLocked) {
		t.Errorf("a command whose supervisor is gone gave the lock up: %v", err)
	}
	s.touch("go")
	<-done
	f, err := takeLock(lock)
	if err != nil {
		t.Fatalf("after the command: %v", err)
	}
	_ = f.Close()
	if s.ledger() != "" {
		t.Errorf("ledger %q", s.ledger())
	}
}

// Signals that ask processes to end, as at a shutdown or from a service manager, do not
// lose the exit record.
func TestSupervisorIgnoresTerm(t *testing.T) {
	s := newStage(t)
	done := s.begin(s.Runner, s.sh(s.key, "trap 'exit 9' TERM; touch up; while :; do sleep 0.01; done"), "up")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		if err := syscall.Kill(s.supervisorPID(), sig); err != nil {
			t.Fatal(err)
		}
	}
	rec, err := s.Look(s.ctx(), s.key)
	if err != nil || rec.State != session.CommandRunning {
		t.Fatalf("Look: got %+v, %v", rec, err)
	}
	if err := syscall.Kill(rec.PID, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.err != nil || r.rec.State != session.CommandFinished || r.rec.Exit != 9 {
		t.Errorf("got %+v", r)
	}
	_ = os.Remove(filepath.Join(s.ws, "up"))
}

// A program with another user's rights may not be signalled. Its time limit still ends it
// for acode: it is listed, and Run does not wait for it. It takes root to make such a
// program.
func TestTimeoutOfAnotherUsersProgram(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it takes root to make a program of another user")
	}
	s := newStage(t)
	tmp := filepath.Dir(s.ws)
	req := s.sh(s.key, "")
	req.Argv = []string{filepath.Join(tmp, "setuid"), "--reuid=0", "--keep-groups", "sleep", "305"}
	req.Timeout = 300 * time.Millisecond
	b, err := json.Marshal([]session.CommandRequest{req})
	if err == nil {
		err = os.WriteFile(filepath.Join(tmp, "reqs"), b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(s.ctx(), "sh", "-ec", `mkdir -p "$CMDTEST_DIR"; cp "$0" self; cp "$(command -v setpriv)" setuid; chmod 4755 setuid
		chown -R 65534 ws commands; chmod 755 .. .; exec setpriv --reuid=65534 --regid=65534 --clear-groups ./self`, os.Args[0])
	cmd.Dir = tmp
	cmd.Env = append(os.Environ(), "CMDTEST_ROLE=client", "GORACE=atexit_sleep_ms=0", "CMDTEST_DIR="+s.dir, "CMDTEST_REQS="+filepath.Join(tmp, "reqs"))
	out, err := cmd.CombinedOutput()
	rec, lookErr := s.Look(s.ctx(), s.key)
	t.Cleanup(func() { killLeft(t, s) })
	if err != nil || lookErr != nil || rec.State != session.CommandFinished || !rec.TimedOut || len(rec.Left) != 1 || !strings.Contains(rec.Left[0], "sleep 305") {
		t.Errorf("got %+v, %v, %v: %s", rec, lookErr, err, out)
	}
}
