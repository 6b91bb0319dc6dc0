package process_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/process"
)

const roleVariable = "PROCESS_TEST_ROLE"

// init keeps the main goroutine on the main thread, because a role ends this thread.
func init() {
	if os.Getenv(roleVariable) != "" {
		runtime.LockOSThread()
	}
}

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(m.Run())
	case "self":
		id, err := process.Self()
		fmt.Println(id, err)
	case "childless":
		childless()
	case "headless": // The main thread ends; other threads live until the end of input.
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
		fmt.Println("up")
		_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
	}
}

// play starts this program in a role and returns it with its output.
func play(t *testing.T, role string, env ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), roleVariable+"="+role), env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, bufio.NewReader(out)
}

func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	s, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(s)
}

// eventually waits for a condition that depends on another process.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// An ID agrees with the kernel. Another process in the same namespace has the same boot
// and namespace.
func TestSelf(t *testing.T) {
	id, err := process.Self()
	if err != nil || id.PID != os.Getpid() || id.Start == 0 || len(id.Boot) != 36 {
		t.Fatalf("Self: got %+v, %v", id, err)
	}
	link, err := os.Readlink("/proc/self/ns/pid")
	if err != nil || link != fmt.Sprintf("pid:[%d]", id.NS) {
		t.Errorf("Self: got namespace %d, want that of %s, %v", id.NS, link, err)
	}
	cmd, out := play(t, "self")
	said := line(t, out)
	if want := fmt.Sprintf(" %s %d} <nil>", id.Boot, id.NS); !strings.HasPrefix(said, fmt.Sprintf("{%d ", cmd.Process.Pid)) || !strings.HasSuffix(said, want) {
		t.Errorf("in a child: got %s, want %s", said, want)
	}
}

// Alive compares each field of an ID.
func TestAlive(t *testing.T) {
	self, err := process.Self()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(*process.ID)
		want   bool
	}{
		"itself":         {func(*process.ID) {}, true},
		"other_start":    {func(id *process.ID) { id.Start++ }, false},
		"other_boot":     {func(id *process.ID) { id.Boot = "another" }, false},
		"elsewhere":      {func(id *process.ID) { id.NS++ }, false},
		"no_namespace":   {func(id *process.ID) { id.NS = 0 }, true},
		"no_pid":         {func(id *process.ID) { id.PID = 0 }, false},
		"unseen_no_lead": {func(id *process.ID) { id.Start = 0 }, leadsSession()},
	} {
		id := self
		tt.change(&id)
		if got, err := id.Alive(); got != tt.want || err != nil {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, tt.want)
		}
	}
}

func leadsSession() bool {
	sid, err := unix.Getsid(0)
	return err == nil && sid == os.Getpid()
}

// A process whose main thread has ended while other threads run is alive. It holds its
// locks and continues its work.
func TestMainThreadEnded(t *testing.T) {
	cmd, out := play(t, "headless")
	line(t, out)
	id, err := process.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the main thread to end", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id.PID))
		return err == nil && bytes.Contains(b, []byte(") Z "))
	})
	if lives, err := id.Alive(); !lives || err != nil {
		t.Errorf("Alive: got %v, %v for a process that runs", lives, err)
	}
	if id.Dying() {
		t.Error("Dying: got true for a process that runs")
	}
	p, err := process.Read(id.PID)
	if err != nil || p.Dead {
		t.Errorf("Read: got %+v, %v, want it alive", p, err)
	}
}

// A zombie is not alive. A stopped process is alive.
func TestZombieAndStopped(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	id, err := process.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stop", id.Stopped)
	if lives, err := id.Alive(); !lives || err != nil {
		t.Errorf("Alive: got %v, %v for a stopped process", lives, err)
	}
	if err := errors.Join(cmd.Process.Kill(), unix.Waitid(unix.P_PID, id.PID, nil, unix.WEXITED|unix.WNOWAIT, nil)); err != nil {
		t.Fatal(err)
	}
	if lives, err := id.Alive(); lives || err != nil || id.Stopped() || id.Dying() {
		t.Errorf("Alive: got %v, %v for a zombie; Stopped %v, Dying %v", lives, err, id.Stopped(), id.Dying())
	}
	_ = cmd.Wait()
	if _, err := process.Identify(id.PID); !errors.Is(err, process.ErrGone) {
		t.Errorf("Identify: got %v, want ErrGone", err)
	}
}

// childless prints the results of Childless in four states: without a child, with a
// running child, with a zombie, and after the wait for it.
func childless() {
	before := process.Childless()
	cmd := exec.Command("/bin/sh", "-c", "read line; exit 0")
	in, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		os.Exit(1)
	}
	alive := process.Childless()
	_ = in.Close() // The child ends.
	_ = unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	zombie := process.Childless()
	_ = cmd.Wait() // The wait before this has reported the end.
	fmt.Println(before, alive, zombie, process.Childless())
}

// Childless is exact.
func TestChildless(t *testing.T) {
	_, out := play(t, "childless")
	if got, want := line(t, out), "true false false true"; got != want {
		t.Errorf("Childless: got %q, want %q", got, want)
	}
}

// ReadFile reads files of the kernel to their end although they have no size.
func TestReadFile(t *testing.T) {
	for _, path := range []string{"/proc/self/maps", "/proc/self/stat", "/proc/sys/kernel/random/boot_id", "/proc/cpuinfo"} {
		got, err := process.ReadFile(path)
		if err != nil || len(got) == 0 {
			t.Fatalf("ReadFile(%s): %d bytes, %v", path, len(got), err)
		}
	}
	long := t.TempDir() + "/long"
	want := strings.Repeat("a line of text\n", 1000)
	if err := os.WriteFile(long, []byte(want), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := process.ReadFile(long); err != nil || string(got) != want {
		t.Errorf("ReadFile: got %d bytes, %v, want %d", len(got), err, len(want))
	}
	if _, err := process.ReadFile("/proc/0/stat"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadFile of no process: got %v", err)
	}
	if _, err := process.ReadFile("/proc"); err == nil {
		t.Error("ReadFile of a directory: got no error")
	}
}

// If /proc hides the processes of other users, Self returns an error that names the
// remedy.
func TestBlind(t *testing.T) {
	for name, mount := range map[string]string{
		"hidepid": "mount -t proc -o hidepid=2 proc /proc", "subset": "mount -t proc -o subset=pid proc /proc", "missing": "umount -l /proc",
	} {
		t.Run(name, func(t *testing.T) {
			drop := ""
			if name == "hidepid" {
				drop = "setpriv --reuid=65534 --regid=65534 --clear-groups "
			}
			dir, err := os.MkdirTemp("/tmp", "process-test-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			cmd := exec.Command("unshare", "--mount", "sh", "-ec", `chmod 755 . && cp "$0" self && `+mount+" && exec "+drop+"./self", os.Args[0])
			cmd.Dir, cmd.Env = dir, append(os.Environ(), roleVariable+"=self")
			out, err := cmd.CombinedOutput()
			if err != nil && os.Geteuid() != 0 {
				t.Skip("only root may mount here")
			}
			if err != nil || !strings.Contains(string(out), "/proc ") || strings.Contains(string(out), "<nil>") {
				t.Errorf("Self: got %s, %v, want an error that names /proc", out, err)
			}
		})
	}
}
