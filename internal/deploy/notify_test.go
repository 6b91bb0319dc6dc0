package deploy_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// started is the ExecStart line of the system unit, run as systemd would run it.
type started struct {
	t      *testing.T
	cmd    *exec.Cmd
	socket *net.UnixConn
	config string
}

// programs builds both programs.
func programs(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", dir+"/", "../../cmd/acode", "../../cmd/acode-sync").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return dir
}

// startService starts the service with a server that does not exist. The test sets the
// variables that systemd would set.
func startService(t *testing.T, bin string) *started {
	t.Helper()
	// The path of a socket must be short.
	home, err := os.MkdirTemp("", "acode")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	s := &started{t: t, config: filepath.Join(home, ".config", "acode", "config.yml")}
	if err := os.MkdirAll(filepath.Dir(s.config), 0o700); err != nil {
		t.Fatal(err)
	}
	s.configure("sync: {url: 'postgres://u@127.0.0.1:1/d', listen: 'unix:" + home + "/http'}\n")
	path := filepath.Join(home, "notify")
	if s.socket, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.socket.Close() })
	line := strings.Fields(readUnit(t, "system")["Service.ExecStart"][0])
	s.cmd = exec.CommandContext(t.Context(), filepath.Join(bin, filepath.Base(line[0])), line[1:]...)
	s.cmd.Env = []string{"HOME=" + home, "PATH=/usr/bin:/bin", "NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=300000", "ACODE_KEY_KEYRING=false"}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// This ends the service if the test fails early.
	t.Cleanup(func() { _, _ = s.cmd.Process.Kill(), s.cmd.Wait() })
	return s
}

func (s *started) configure(text string) {
	s.t.Helper()
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *started) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// hear reads notifications until one begins with want, and returns the lines before it.
func (s *started) hear(want string) (before []string) {
	s.t.Helper()
	buf := make([]byte, 4096)
	for {
		if err := s.socket.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			s.t.Fatal(err)
		}
		n, err := s.socket.Read(buf)
		if err != nil {
			s.t.Fatalf("waiting for %q after %q: %v", want, before, err)
		}
		for line := range strings.SplitSeq(string(buf[:n]), "\n") {
			if strings.HasPrefix(line, want) {
				return before
			}
			before = append(before, line)
		}
	}
}

// status returns the exit status of the service.
func (s *started) status() int {
	s.t.Helper()
	var failed *exec.ExitError
	if err := s.cmd.Wait(); err != nil && !errors.As(err, &failed) {
		s.t.Fatal(err)
	}
	return s.cmd.ProcessState.ExitCode()
}

// The ExecStart line works with a simulated systemd.
func TestService(t *testing.T) {
	t.Parallel()
	bin := programs(t)
	t.Run("notifies", func(t *testing.T) { notifies(t, bin) })
	t.Run("is_started_again", func(t *testing.T) { startedAgain(t, bin) })
}

// notifies checks the messages to systemd: ready without a server, alive, status, reload
// and stop. A reload has a start but no stop, because systemd kills a service that
// announced its stop and continues.
func notifies(t *testing.T, bin string) {
	t.Helper()
	s := startService(t, bin)
	if before := s.hear("READY=1"); len(before) > 0 {
		t.Errorf("before it was ready: %q", before)
	}
	s.hear("STATUS=connecting")
	s.hear("STATUS=offline, 0 events pending")
	s.hear("WATCHDOG=1")
	s.hear("WATCHDOG=1")

	s.signal(syscall.SIGHUP)
	before := append(s.hear("RELOADING=1"), s.hear("READY=1")...)
	if slices.Contains(before, "STOPPING=1") {
		t.Errorf("a reload was announced as the end: %q", before)
	}
	s.hear("WATCHDOG=1")

	s.signal(syscall.SIGTERM)
	begun := time.Now()
	s.hear("STOPPING=1")
	if got, took := s.status(), time.Since(begun); got != 0 || took > 5*time.Second {
		t.Errorf("SIGTERM: exit status %d after %v, want 0 within 5 s", got, took)
	}
}

// startedAgain checks that systemd restarts a service after the watchdog ended it, and
// does not restart one that needs a person. The unit distinguishes them by the exit
// status.
func startedAgain(t *testing.T, bin string) {
	t.Helper()
	never := strings.Fields(readUnit(t, "system")["Service.RestartPreventExitStatus"][0])

	hung := startService(t, bin)
	hung.hear("WATCHDOG=1")
	// The watchdog sends this signal.
	hung.signal(syscall.SIGABRT)
	if got := strconv.Itoa(hung.status()); slices.Contains(never, got) {
		t.Errorf("the watchdog's victim ends with %s, with which it is not started again", got)
	}

	wrong := startService(t, bin)
	wrong.hear("WATCHDOG=1")
	wrong.configure("sync: {url: nonsense}\n")
	wrong.signal(syscall.SIGTERM)
	if got := wrong.status(); got != 0 {
		t.Errorf("SIGTERM: exit status %d, want 0", got)
	}
	again := exec.CommandContext(t.Context(), wrong.cmd.Path, wrong.cmd.Args[1:]...)
	again.Env = wrong.cmd.Env
	// The status is checked below.
	_ = again.Run()
	if got := strconv.Itoa(again.ProcessState.ExitCode()); !slices.Contains(never, got) {
		t.Errorf("a wrong configuration ends with %s, want one of %q", got, never)
	}
}
