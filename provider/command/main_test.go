//go:build linux

package command_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/sandbox"
	"github.com/acode-dev/acode/session"
)

const (
	testSession = session.ID("01890000-0000-7000-8000-000000000001")
	grace       = 150 * time.Millisecond
	// patience limits every wait; the machine may be busy.
	patience   = time.Minute
	onTerminal = "on-terminal"
)

// TestMain lets the test binary be the supervisor, and a client that can be killed.
func TestMain(m *testing.M) {
	crash.LauncherMain()
	if len(os.Args) > 1 && os.Args[1] == sandbox.Stage {
		os.Exit(sandbox.Enter(os.Args[2:]))
	}
	if len(os.Args) > 3 && os.Args[1] == onTerminal {
		os.Exit(command.OnTerminal(os.Args[2], os.Args[3:]))
	}
	switch os.Getenv("CMDTEST_ROLE") {
	case "supervisor":
		os.Exit(superviseMain())
	case "client":
		os.Exit(clientMain())
	case "stranger":
		os.Exit(strangerMain())
	case "traced":
		os.Exit(tracedMain())
	case "carry":
		os.Exit(carryMain())
	case "starved":
		os.Exit(starvedMain())
	}
	os.Exit(m.Run())
}

// deadly returns a hook that kills or stops this process at the nth time of a point. spec
// is "point:n"; an empty spec never does.
func deadly(spec string, sig syscall.Signal) func(string) {
	point, nth, _ := strings.Cut(spec, ":")
	n, _ := strconv.Atoi(nth)
	n = max(n, 1)
	return func(p string) {
		if p != point {
			return
		}
		if n--; n == 0 {
			thawed := make(chan os.Signal, 1)
			signal.Notify(thawed, syscall.SIGCONT)
			_ = syscall.Kill(os.Getpid(), sig)
			// the signal may arrive a moment later
			<-thawed
		}
	}
}

// supervisorConfig reads a supervisor's configuration from an environment.
func supervisorConfig(get func(string) string) command.SupervisorConfig {
	maxOut, _ := strconv.ParseInt(get("CMDTEST_MAX"), 10, 64)
	cfg := command.SupervisorConfig{Dir: get("CMDTEST_DIR"), Session: testSession, Now: time.Now, Grace: grace, MaxOutput: maxOut, Terminal: []string{onTerminal}}
	if d, err := time.ParseDuration(get("CMDTEST_GRACE")); err == nil {
		cfg.Grace = d
	}
	if path := get("CMDTEST_LOCK"); path != "" {
		cfg.LockCommand = func(string, bool) (*os.File, error) { return takeLock(path) }
	}
	return cfg
}

func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, &session.Error{Code: session.ErrLocked, Message: "workspace is busy", Next: session.Words("wait"), Cause: err}
	}
	return f, nil
}

func superviseMain() int {
	cfg := supervisorConfig(os.Getenv)
	cfg.Conn = os.NewFile(3, "conn")
	spec := os.Getenv("CMDTEST_KILL")
	if once := os.Getenv("CMDTEST_ONCE"); once != "" && spec != "" {
		// Only the first supervisor that finds this file missing dies.
		if _, err := os.OpenFile(once, os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			spec = ""
		}
	}
	cfg.SetHook(deadly(spec, syscall.SIGKILL))
	if limit := os.Getenv("CMDTEST_FORKING"); limit != "" {
		cfg.SetHook(func(point string) {
			if point == "forking" && confine(limit) != nil {
				os.Exit(2)
			}
		})
	}
	if spec := os.Getenv("CMDTEST_NAMED"); spec != "" {
		cfg.SetHook(denyNamed(spec))
	}
	if spec := os.Getenv("CMDTEST_FILES"); spec != "" {
		cfg.SetHook(lacking(spec))
	}
	if n, err := strconv.ParseUint(os.Getenv("CMDTEST_FSIZE"), 10, 64); err == nil {
		signal.Ignore(syscall.SIGXFSZ)
		_ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: n})
	}
	if spec := os.Getenv("CMDTEST_DENY"); spec != "" && deny(spec) != nil {
		return 2
	}
	if err := command.Supervise(context.Background(), cfg); err != nil {
		return 1
	}
	return 0
}

// clientMain runs the requests in the file that CMDTEST_REQS names, and prints each
// record.
func clientMain() int {
	b, err := os.ReadFile(os.Getenv("CMDTEST_REQS"))
	if err != nil {
		return 3
	}
	var reqs []session.CommandRequest
	if json.Unmarshal(b, &reqs) != nil {
		return 3
	}
	if spec := os.Getenv("CMDTEST_CLIENT_DENY"); spec != "" && deny(spec) != nil {
		return 2
	}
	cfg := config(os.Getenv("CMDTEST_DIR"), 1, "CMDTEST_KILL="+os.Getenv("CMDTEST_SUPERVISOR_KILL"),
		"CMDTEST_ONCE="+os.Getenv("CMDTEST_ONCE"))
	cfg.SetHook(deadly(os.Getenv("CMDTEST_CLIENT_KILL"), syscall.SIGKILL))
	if spec := os.Getenv("CMDTEST_CLIENT_STOP"); spec != "" {
		cfg.SetHook(deadly(spec, syscall.SIGSTOP))
	}
	r := command.NewRunner(cfg)
	for _, req := range reqs {
		rec, err := r.Run(context.Background(), req)
		fmt.Println(req.Key, rec.State, rec.Exit, session.CodeOf(err), err)
	}
	return 0
}

func config(dir string, epoch uint64, env ...string) command.Config {
	return command.Config{Dir: dir, Session: testSession, Epoch: epoch, Now: time.Now, Poll: 10 * time.Millisecond, Grace: grace,
		Env: append([]string{"CMDTEST_ROLE=supervisor", "CMDTEST_DIR=" + dir, "GORACE=atexit_sleep_ms=0"}, env...)}
}

// stage is a workspace, a directory of claims and a runner.
type stage struct {
	t   *testing.T
	ws  string
	dir string
	// key is unique, so that processes of an aborted test, perhaps of another run, are
	// not taken for those of this stage.
	key string
	*command.Runner

	// supervisorHook is the hook of a supervisor inside the test; nil does nothing.
	supervisorHook func(point string)
}

func newStage(t *testing.T, env ...string) *stage {
	t.Helper()
	return newStageIn(t, t.TempDir(), env...)
}

func newStageIn(t *testing.T, tmp string, env ...string) *stage {
	t.Helper()
	s := &stage{t: t, ws: filepath.Join(tmp, "ws"), dir: filepath.Join(tmp, "commands", "session"), key: "k-" + rand.Text()}
	if err := os.MkdirAll(s.ws, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.supervisorGone)
	s.Runner = s.runner(1, env...)
	return s
}

// each runs a test under a supervisor of its own process, and under one inside the test.
func each(t *testing.T, test func(t *testing.T, s *stage), env ...string) {
	t.Run("detached", func(t *testing.T) { test(t, newStage(t, env...)) })
	t.Run("inside", func(t *testing.T) {
		s := newStage(t, env...)
		s.inside(env...)
		test(t, s)
	})
}

// inside serves the stage from this process, until the test ends.
func (s *stage) inside(env ...string) {
	s.t.Helper()
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	cfg := supervisorConfig(func(name string) string {
		for _, v := range append(env, "CMDTEST_DIR="+s.dir) {
			if val, ok := strings.CutPrefix(v, name+"="); ok {
				return val
			}
		}
		return ""
	})
	cfg.Conn = os.NewFile(uintptr(fds[0]), "conn")
	cfg.SetHook(s.supervisorHook)
	s.childless()
	// a file of a killed supervisor
	left := filepath.Join(s.dir, "new-1.tmp")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- command.Supervise(context.Background(), cfg) }()
	s.t.Cleanup(func() {
		_ = unix.Close(fds[1])
		_ = s.Close()
		if err := <-done; err != nil {
			s.t.Errorf("Supervise: %v", err)
		}
	})
	// The socket's name exists before the supervisor listens. A client that dials then
	// starts another supervisor, which would be taken for a command's child here.
	eventually(s.t, "the supervisor to answer", func() bool {
		return !errors.Is(command.Send(s.ctx(), s.dir, "hail"), command.ErrLost)
	})
	if _, err := os.Lstat(left); !os.IsNotExist(err) {
		s.t.Errorf("a leftover of a killed supervisor stays: %v", err)
	}
}

func (s *stage) runner(epoch uint64, env ...string) *command.Runner {
	r := command.NewRunner(config(s.dir, epoch, env...))
	s.t.Cleanup(func() { _ = r.Close() })
	return r
}

// supervisorGone waits until no supervisor holds the session's lock.
func (s *stage) supervisorGone() {
	s.t.Helper()
	f, err := os.Open(filepath.Join(s.dir, "supervisor.lock"))
	if err != nil {
		return
	}
	defer f.Close()
	eventually(s.t, "the supervisor to end", func() bool {
		if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil {
			return false
		}
		_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
		return true
	})
}

// supervisorPID returns the pid of the supervisor.
func (s *stage) supervisorPID() int {
	s.t.Helper()
	var id struct {
		PID int `json:"pid"`
	}
	b, err := os.ReadFile(filepath.Join(s.dir, "supervisor.lock"))
	if err == nil {
		err = json.Unmarshal(b, &id)
	}
	if err != nil {
		s.t.Fatalf("supervisor.lock: %v", err)
	}
	return id.PID
}

func (s *stage) sh(key, script string) session.CommandRequest {
	return session.CommandRequest{Key: key, Epoch: 1, Argv: []string{"/bin/sh", "-c", script}, Workspace: s.ws,
		Env: []string{"PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}, Volatile: true}
}

func (s *stage) run(req session.CommandRequest) session.CommandRecord {
	s.t.Helper()
	rec, err := s.Run(s.ctx(), req)
	if err != nil {
		s.t.Fatalf("Run(%s): %v", req.Key, err)
	}
	return rec
}

func (s *stage) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	s.t.Cleanup(cancel)
	return ctx
}

// begin runs req in the background. It returns once the script has made the file started
// and the start block is written.
func (s *stage) begin(r *command.Runner, req session.CommandRequest, started string) <-chan result {
	s.t.Helper()
	done := make(chan result, 1)
	ctx := s.ctx()
	go func() {
		rec, err := r.Run(ctx, req)
		done <- result{rec, err}
	}()
	eventually(s.t, started, func() bool {
		rec, err := s.Look(ctx, req.Key)
		return s.has(started) && (err != nil || rec.PID > 0)
	})
	return done
}

type result struct {
	rec session.CommandRecord
	err error
}

func (s *stage) has(name string) bool {
	_, err := os.Stat(filepath.Join(s.ws, name))
	return err == nil
}

func (s *stage) ledger() string {
	b, err := os.ReadFile(filepath.Join(s.ws, "ledger"))
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	return string(b)
}

func (s *stage) touch(name string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.ws, name), nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) pidIn(name string) int {
	s.t.Helper()
	pid := 0
	eventually(s.t, "a pid in "+name, func() bool {
		b, _ := os.ReadFile(filepath.Join(s.ws, name))
		pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		return pid > 0
	})
	return pid
}

// eventually waits until ok returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// childless waits until this process has no children: they would be taken for a
// command's. A process that was once a supervisor adopts orphans.
func (s *stage) childless() {
	s.t.Helper()
	eventually(s.t, "earlier tests' children to end", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
		for _, pid := range strings.Fields(string(b)) {
			if n, _ := strconv.Atoi(pid); running(n) {
				return false
			}
		}
		return err == nil
	})
}

// running reports whether pid is a process that is no zombie.
func running(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	return fields[0] != "Z" && fields[0] != "X"
}

// mustRun returns the output of a test process of the role.
func mustRun(t *testing.T, role string, env ...string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "CMDTEST_ROLE="+role), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", role, err, out)
	}
	return string(out)
}
