package pgtest_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acode-dev/acode/internal/pgtest"
)

// holdVariable makes the test binary start a cluster, print its address and wait.
const holdVariable = "ACODE_PGTEST_HOLD"

func TestMain(m *testing.M) {
	if os.Getenv(holdVariable) == "" {
		os.Exit(m.Run())
	}
	os.Unsetenv("ACODE_TEST_POSTGRES")
	// record returns only after a failure.
	fmt.Fprintln(os.Stderr, record(hold))
	os.Exit(1)
}

// hold prints the folders of its own clusters, one in every state, and of the cluster
// that Database starts.
func hold(t testing.TB) {
	killed, frozen := pgtest.New(t, pgtest.Options{}), pgtest.New(t, pgtest.Options{})
	killed.Kill9()
	if err := frozen.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	shared := pgtest.Psql(t, pgtest.Database(t), "SHOW unix_socket_directories")
	fmt.Println(killed.Root, frozen.Root, shared)
	if os.Getenv(holdVariable) == "exit" {
		// No cleanup runs.
		os.Exit(0)
	}
	select {}
}

// until waits for an effect of another process.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	for !holds() {
		select {
		case <-limit.C:
			t.Fatalf("waited 30 s for %s", what)
		case <-tick.C:
		}
	}
}

// G2: a cluster and its files are gone soon after the test process, after any end of it
// and of the server.
func TestNothingIsLeft(t *testing.T) {
	for _, how := range []string{"killed", "exit"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), holdVariable+"="+how)
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			roots := strings.Fields(line)
			if err != nil || len(roots) != 3 {
				t.Fatalf("hold: got %q, %v, want three folders", line, err)
			}
			// This is the positive control: all clusters exist while the process does.
			if how == "killed" {
				for _, root := range roots {
					if _, err := os.Stat(filepath.Join(root, "data", "postmaster.pid")); err != nil {
						t.Error(err)
					}
				}
			}
			// The process may have ended.
			_ = cmd.Process.Kill()
			// The process was killed on purpose.
			_ = cmd.Wait()
			for _, root := range roots {
				until(t, root+" to go", func() bool { _, err := os.Stat(root); return os.IsNotExist(err) })
				until(t, "processes of "+root+" to go", func() bool { return len(processesOf(t, root)) == 0 })
			}
		})
	}
}

// processesOf lists processes that name a folder or run in it.
func processesOf(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		// The process may have ended.
		b, _ := os.ReadFile(filepath.Join(name, "cmdline"))
		if strings.Contains(string(b), root) {
			out = append(out, string(b))
		}
	}
	return append(out, serversOf(t, root)...)
}

// serversOf lists processes that run in a folder, as all processes of a server do.
func serversOf(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	names, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		// The process may have ended.
		if dir, _ := os.Readlink(name); strings.HasPrefix(dir, root) {
			out = append(out, name)
		}
	}
	return out
}
