//go:build linux

package command_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/session"
)

// C1: many runners race for the same keys, and to start the supervisor: each command
// starts once.
func TestRunnersRace(t *testing.T) {
	s := newStage(t)
	var wg sync.WaitGroup
	ctx := s.ctx()
	for i := range 8 {
		r := s.runner(1)
		wg.Go(func() {
			for k := range 4 {
				rec, err := r.Run(ctx, s.sh(fmt.Sprintf("k%d", k), fmt.Sprintf("echo %d >> ledger", k)))
				if err != nil || rec.State != session.CommandFinished {
					t.Errorf("runner %d: got %+v, %v", i, rec, err)
				}
			}
		})
	}
	wg.Wait()
	for k := range 4 {
		if n := strings.Count(s.ledger(), fmt.Sprintf("%d\n", k)); n != 1 {
			t.Errorf("key %d was started %d times", k, n)
		}
	}
}

// C1: processes race, as two resumes of a forked store would.
func TestProcessesRace(t *testing.T) {
	s := newStage(t)
	a, b := s.client(s.three()), s.client(s.three())
	if err := errors.Join(a.Wait(), b.Wait()); err != nil {
		t.Fatal(err)
	}
	if s.ledger() != "0\n1\n2\n" {
		t.Fatalf("ledger %q", s.ledger())
	}
}

// C3: requests of an earlier epoch are refused, connected or not.
func TestEarlierEpochIsFenced(t *testing.T) { each(t, earlierEpochIsFenced) }

func earlierEpochIsFenced(t *testing.T, s *stage) {
	s.run(s.sh(s.key+"-a", "echo a >> ledger"))
	later := s.runner(2)
	if err := later.Announce(s.ctx()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(s.ctx(), s.sh(s.key+"-b", "echo b >> ledger")); !errors.Is(err, session.ErrFenced) {
		t.Errorf("connected: got %v, want ErrFenced", err)
	}
	_ = s.Close()
	if _, err := s.Run(s.ctx(), s.sh(s.key+"-b", "echo b >> ledger")); !errors.Is(err, session.ErrFenced) {
		t.Errorf("new connection: got %v, want ErrFenced", err)
	}
	req := s.sh(s.key+"-b", "echo b2 >> ledger")
	req.Epoch = 2
	if rec, err := later.Run(s.ctx(), req); err != nil || rec.State != session.CommandFinished || rec.Epoch != 2 {
		t.Errorf("later epoch: got %+v, %v", rec, err)
	}
	if s.ledger() != "a\nb2\n" {
		t.Errorf("ledger %q", s.ledger())
	}
}

// C3: a process is frozen just before its request, and thawed after another took over.
func TestThawedHolderIsFenced(t *testing.T) {
	s := newStage(t)
	cmd := s.client(s.three()[:1], "CMDTEST_CLIENT_STOP=connected:1")
	stopped := func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		return err == nil && strings.Contains(string(b), ") T ")
	}
	eventually(t, "the client to freeze", stopped)
	later := s.runner(2)
	if err := later.Announce(s.ctx()); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if out := fmt.Sprint(cmd.Stdout); !strings.Contains(out, "took the session over") {
		t.Errorf("client said %q", out)
	}
	if s.ledger() != "" {
		t.Errorf("ledger %q", s.ledger())
	}
}

// freeze stops the supervisor while it is quiet: each of its threads is stopped, and none
// holds the epoch file. A thread holds the file until a moment after the start of a
// command. freeze returns the supervisor's pid.
func (s *stage) freeze() int {
	s.t.Helper()
	pid := s.supervisorPID()
	s.t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	f, err := os.Open(filepath.Join(s.dir, "epoch"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	eventually(s.t, "the supervisor to stand still and quiet", func() bool {
		// if the process is gone, still never returns true
		_ = syscall.Kill(pid, syscall.SIGSTOP)
		if !still(pid) {
			return false
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
			_ = syscall.Kill(pid, syscall.SIGCONT)
			return false
		}
		return unix.Flock(int(f.Fd()), unix.LOCK_UN) == nil
	})
	return pid
}

// still reports whether each thread of pid is stopped.
func still(pid int) bool {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, name := range tasks {
		b, err := os.ReadFile(name)
		if err == nil && !strings.Contains(string(b), ") T ") {
			return false
		}
	}
	return err == nil && len(tasks) > 0
}

// A frozen supervisor keeps its lock: no second one starts, and the caller's context ends
// the wait.
func TestFrozenSupervisor(t *testing.T) {
	s := newStage(t)
	s.run(s.sh(s.key+"-a", "echo a >> ledger"))
	pid := s.freeze()
	ctx, cancel := timeoutCause(s)
	defer cancel()
	if _, err := s.runner(1).Run(ctx, s.sh(s.key+"-b", "echo b >> ledger")); !errors.Is(err, errPatience) {
		t.Errorf("Run: got %v, want the context's cause", err)
	}
	if err := s.Announce(s.ctx()); err != nil {
		t.Error(err)
	}
	if s.supervisorPID() != pid || s.ledger() != "a\n" {
		t.Errorf("supervisor %d after %d, ledger %q", s.supervisorPID(), pid, s.ledger())
	}
	_ = syscall.Kill(pid, syscall.SIGCONT)
	if rec, err := s.runner(1).Run(s.ctx(), s.sh(s.key+"-c", "echo c >> ledger")); err != nil || rec.State != session.CommandFinished {
		t.Errorf("after the thaw: got %+v, %v", rec, err)
	}
}

// No wait is endless: if a process is frozen or a lock held, the caller's context ends
// the wait.
func TestContextEndsEveryWait(t *testing.T) {
	s := newStage(t)
	done := s.begin(s.Runner, s.sh(s.key, "touch up; until test -e go; do sleep 0.01; done"), "up")
	pid := s.freeze()
	for name, call := range map[string]func(context.Context) error{
		"run": func(ctx context.Context) error {
			_, err := s.runner(1).Run(ctx, s.sh(s.key+"-next", "true"))
			return err
		},
		"wait": func(ctx context.Context) error {
			_, err := s.runner(1).Wait(ctx, s.key)
			return err
		},
	} {
		ctx, cancel := timeoutCause(s)
		if err := call(ctx); !errors.Is(err, errPatience) {
			t.Errorf("%s: got %v, want the context's cause", name, err)
		}
		cancel()
	}
	_ = syscall.Kill(pid, syscall.SIGCONT)
	held, err := os.OpenFile(filepath.Join(s.dir, "epoch"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := unix.Flock(int(held.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := timeoutCause(s)
	defer cancel()
	if err := s.Announce(ctx); !errors.Is(err, errPatience) {
		t.Errorf("Announce: got %v, want the context's cause", err)
	}
	_ = unix.Flock(int(held.Fd()), unix.LOCK_UN)
	later := s.runner(2)
	if err := later.Announce(s.ctx()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.runner(1).Wait(s.ctx(), s.key); !errors.Is(err, session.ErrFenced) {
		t.Errorf("Wait under an earlier epoch: got %v, want ErrFenced", err)
	}
	s.touch("go")
	<-done
	if rec, err := later.Wait(s.ctx(), s.key); err != nil || rec.State != session.CommandFinished {
		t.Errorf("Wait: got %+v, %v", rec, err)
	}
}

// A socket address holds 107 bytes, and home directories may have longer paths.
func TestLongDirectory(t *testing.T) {
	tmp := filepath.Join(t.TempDir(), strings.Repeat("d", 200), strings.Repeat("e", 200))
	s := newStageIn(t, tmp)
	s.run(s.sh(s.key+"-a", "echo a >> ledger"))
	if rec, err := s.runner(1).Run(s.ctx(), s.sh(s.key+"-b", "echo b >> ledger")); err != nil || rec.State != session.CommandFinished {
		t.Errorf("got %+v, %v", rec, err)
	}
	if s.ledger() != "a\nb\n" {
		t.Errorf("ledger %q", s.ledger())
	}
}

func TestCancelOfAnUnclaimedKey(t *testing.T) {
	s := newStage(t)
	if err := command.Cancel(s.ctx(), s.dir, "none"); !errors.Is(err, session.ErrCommand) {
		t.Errorf("Cancel: got %v, want ErrCommand", err)
	}
}

// A supervisor serves one session only.
func TestForeignSession(t *testing.T) {
	s := newStage(t)
	s.run(s.sh(s.key+"-a", "echo a >> ledger"))
	cfg := config(s.dir, 1)
	cfg.Session = "01890000-0000-7000-8000-000000000002"
	r := command.NewRunner(cfg)
	t.Cleanup(func() { _ = r.Close() })
	if _, err := r.Run(s.ctx(), s.sh(s.key+"-b", "echo b >> ledger")); !errors.Is(err, session.ErrInternal) {
		t.Errorf("got %v, want ErrInternal", err)
	}
}

func TestSupervisorCannotStart(t *testing.T) {
	s := newStage(t)
	cfg := config(s.dir, 1)
	cfg.Executable = filepath.Join(s.ws, "none")
	r := command.NewRunner(cfg)
	if _, err := r.Run(s.ctx(), s.sh(s.key+"-a", "echo a >> ledger")); !errors.Is(err, session.ErrInternal) {
		t.Errorf("got %v, want ErrInternal", err)
	}
	if rec, err := r.Look(s.ctx(), s.key+"-a"); err != nil || rec.State != session.CommandUnclaimed {
		t.Errorf("Look: got %+v, %v", rec, err)
	}
}

// C2: a command that unlocks its inherited lock counts as running until its end is
// recorded.
func TestCommandUnlocksItsClaim(t *testing.T) {
	s := newStage(t)
	ended := make(chan session.CommandState, 1)
	s.supervisorHook = firstTime("ended", func() {
		rec, err := s.Look(context.Background(), s.key)
		if err != nil {
			t.Error(err)
		}
		ended <- rec.State
	})
	s.inside()
	ctx, leave := context.WithCancel(s.ctx())
	defer leave()
	go func() {
		_, _ = s.Run(ctx, s.sh(s.key, `flock -u 20; touch up; until [ -e go ]; do sleep 0.02; done; flock -u 20`))
	}()
	looks := func(want session.CommandState) {
		t.Helper()
		eventually(t, string(want), func() bool {
			rec, err := s.Look(s.ctx(), s.key)
			return err == nil && rec.State == want && s.has("up")
		})
	}
	looks(session.CommandRunning)
	leave()
	s.touch("go")
	if state := <-ended; state != session.CommandRunning {
		t.Errorf("at its end: got %s, want running", state)
	}
	looks(session.CommandFinished)
}

// C1: the second process to claim a key finds it claimed. Here a cancel claims it while
// the supervisor is about to.
func TestClaimedMeanwhile(t *testing.T) {
	s := newStage(t)
	reached, go1 := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.supervisorHook = func(point string) {
		if point == "claim-written" {
			once.Do(func() { close(reached); <-go1 })
		}
	}
	s.inside()
	done := make(chan result, 1)
	go func() {
		rec, err := s.Run(s.ctx(), s.sh(s.key, "echo k >> ledger"))
		done <- result{rec, err}
	}()
	<-reached
	err := s.Terminate(s.ctx(), s.key)
	close(go1)
	if err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.err != nil || r.rec.State != session.CommandFinished || !r.rec.Cancelled || s.ledger() != "" {
		t.Errorf("Run: got %+v, ledger %q, want it cancelled and never started", r, s.ledger())
	}
}

// C3: an announcement of an epoch waits for a command of an earlier epoch that is just
// starting. Later requests are refused.
func TestAnnounceWaitsForAStart(t *testing.T) {
	s := newStage(t)
	later := s.runner(2)
	order := make(chan string, 2)
	s.supervisorHook = func(point string) {
		switch point {
		case "claimed":
			ctx := s.ctx()
			go func() {
				if err := later.Announce(ctx); err != nil {
					t.Error(err)
				}
				order <- "announced"
			}()
			// more time than an announcement would take
			limit := time.NewTimer(200 * time.Millisecond)
			defer limit.Stop()
			<-limit.C
		case "started":
			order <- "started"
		}
	}
	s.inside()
	// Run may already be refused
	_, _ = s.Run(s.ctx(), s.sh(s.key, "true"))
	if first, second := <-order, <-order; first != "started" || second != "announced" {
		t.Errorf("got %s, then %s, want the start first", first, second)
	}
}

// C4: if a command ends after its claim was read and before its lock is examined, its
// record has the recorded end.
func TestEndsWhileItIsJudged(t *testing.T) {
	rec, err := command.EndWhileJudged(t.TempDir(), t.TempDir(), 7)
	if err != nil || rec.State != session.CommandFinished || rec.Exit != 7 {
		t.Errorf("got %+v, %v, want finished with 7", rec, err)
	}
}

// C6: a supervisor answers no process of another user, even if that can reach its socket.
func TestSupervisorAnswersItsUserOnly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it takes root to be another user")
	}
	s := newStage(t)
	s.run(s.sh(s.key, "true"))
	for name, as := range map[string]struct{ before, want string }{
		"own":     {"", `"op":"claimed"`},
		"another": {"setpriv --reuid=65534 --regid=65534 --clear-groups ", "EOF"},
	} {
		cmd := exec.CommandContext(s.ctx(), "sh", "-ec", `chmod 755 . && chmod 777 s && cp "$0" self && exec `+as.before+"./self", os.Args[0])
		cmd.Dir, cmd.Env = s.dir, append(os.Environ(), "CMDTEST_ROLE=stranger", "GORACE=atexit_sleep_ms=0")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), as.want) {
			t.Errorf("%s: got %s, %v, want %s", name, out, err, as.want)
		}
	}
}

// strangerMain sends a request to the supervisor whose socket is in this directory, and
// prints its answer.
func strangerMain() int {
	conn, err := net.Dial("unix", "s")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer conn.Close()
	// only the answer counts
	_, _ = io.WriteString(conn, `{"op":"claimed","id":1,"key":"k"}`+"\n")
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if errors.Is(err, syscall.ECONNRESET) {
		// it closed the connection with the request unread
		err = io.EOF
	}
	fmt.Println(answer, err)
	return 0
}
