package command_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/session"
)

const (
	testSession = session.ID("01890000-0000-7000-8000-000000000001")
	grace       = 150 * time.Millisecond
)

// TestMain lets the test binary be the supervisor, and a client that can be killed.
func TestMain(m *testing.M) {
	switch os.Getenv("CMDTEST_ROLE") {
	case "supervisor":
		os.Exit(superviseMain())
	case "client":
		os.Exit(clientMain())
	}
	os.Exit(m.Run())
}

// deadly returns a hook that kills (or stops) this process at the nth time of a point,
// "point:n". An empty spec never does.
func deadly(spec string, sig syscall.Signal) func(string) {
	point, nth, _ := strings.Cut(spec, ":")
	n, _ := strconv.Atoi(nth)
	n = max(n, 1)
	return func(p string) {
		if p != point {
			return
		}
		if n--; n == 0 {
			_ = syscall.Kill(os.Getpid(), sig)
			if sig == syscall.SIGKILL {
				select {} // the signal may land a moment later
			}
		}
	}
}

func superviseMain() int {
	maxOut, _ := strconv.ParseInt(os.Getenv("CMDTEST_MAX"), 10, 64)
	cfg := command.SupervisorConfig{Dir: os.Getenv("CMDTEST_DIR"), Session: testSession, Conn: os.NewFile(3, "conn"),
		Now: time.Now, Grace: grace, MaxOutput: maxOut}
	if path := os.Getenv("CMDTEST_LOCK"); path != "" {
		cfg.LockCommand = func() (*os.File, error) {
			f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
			if err != nil {
				return nil, err
			}
			if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
				return nil, &session.Error{Code: session.ErrLocked, Message: "workspace is busy", Next: "wait"}
			}
			return f, nil
		}
	}
	sig := syscall.SIGKILL
	if os.Getenv("CMDTEST_STOP") != "" {
		sig = syscall.SIGSTOP
	}
	spec := os.Getenv("CMDTEST_KILL")
	if once := os.Getenv("CMDTEST_ONCE"); once != "" && spec != "" {
		// Only the first supervisor that this file meets dies.
		if _, err := os.OpenFile(once, os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			spec = ""
		}
	}
	cfg.SetHook(deadly(spec, sig))
	if n, err := strconv.ParseUint(os.Getenv("CMDTEST_FSIZE"), 10, 64); err == nil {
		lim := syscall.Rlimit{Cur: n, Max: n}
		_ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &lim)
	}
	if err := command.Supervise(context.Background(), cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// clientMain runs the requests in the file that it is given, and prints each record.
func clientMain() int {
	b, err := os.ReadFile(os.Getenv("CMDTEST_REQS"))
	if err != nil {
		return 3
	}
	var reqs []session.CommandRequest
	if json.Unmarshal(b, &reqs) != nil {
		return 3
	}
	cfg := config(os.Getenv("CMDTEST_DIR"), 1)
	cfg.SetHook(deadly(os.Getenv("CMDTEST_CLIENT_KILL"), syscall.SIGKILL))
	r := command.NewRunner(cfg)
	for _, req := range reqs {
		rec, err := r.Run(context.Background(), req)
		fmt.Println(req.Key, rec.State, rec.Exit, err)
	}
	return 0
}

func config(dir string, epoch uint64, env ...string) command.Config {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return command.Config{Dir: dir, Session: testSession, Epoch: epoch, Executable: exe, Now: time.Now, Poll: 10 * time.Millisecond, Grace: grace,
		Env: append([]string{"CMDTEST_ROLE=supervisor", "CMDTEST_DIR=" + dir, "GOCOVERDIR=" + os.Getenv("GOCOVERDIR")}, env...)}
}

// stage is a workspace, a directory of claims and a runner.
type stage struct {
	t   *testing.T
	ws  string
	dir string
	*command.Runner
}

func newStage(t *testing.T, env ...string) *stage {
	t.Helper()
	tmp := t.TempDir()
	s := &stage{t: t, ws: filepath.Join(tmp, "ws"), dir: filepath.Join(tmp, "commands", "session")}
	if err := os.Mkdir(s.ws, 0o700); err != nil {
		t.Fatal(err)
	}
	s.Runner = s.runner(1, env...)
	t.Cleanup(s.quiet)
	return s
}

func (s *stage) runner(epoch uint64, env ...string) *command.Runner {
	r := command.NewRunner(config(s.dir, epoch, env...))
	s.t.Cleanup(func() { _ = r.Close() })
	return r
}

// quiet ends whatever a test left, by the records alone, and waits for the supervisor.
func (s *stage) quiet() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = s.Close()
	recs, _ := command.Records(s.dir)
	for _, rec := range recs {
		_ = command.Cancel(ctx, s.dir, rec.Key)
	}
	s.supervisorGone()
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

// supervisorPID reads who serves the session.
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
		Env: []string{"PATH=" + os.Getenv("PATH")}, Volatile: true}
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
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	s.t.Cleanup(cancel)
	return ctx
}

// begin runs req in the background and returns once script has made the file started.
func (s *stage) begin(r *command.Runner, req session.CommandRequest, started string) <-chan result {
	s.t.Helper()
	done := make(chan result, 1)
	ctx := s.ctx()
	go func() {
		rec, err := r.Run(ctx, req)
		done <- result{rec, err}
	}()
	eventually(s.t, started, func() bool { return s.has(started) })
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

// eventually waits for something that other processes do.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(15 * time.Second)
	defer limit.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("waited in vain for %s", what)
		}
	}
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
