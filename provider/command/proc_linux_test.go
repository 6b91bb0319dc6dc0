package command_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/acode-dev/acode/provider/command"
)

// mustRun gives what a test process of the role printed.
func mustRun(t *testing.T, role string, env ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), "CMDTEST_ROLE="+role), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", role, err, out)
	}
	return string(out)
}

// childlessMain says what Childless gives without a child, with one that runs, with one that is dead
// and not reaped, and after it was reaped.
func childlessMain() int {
	before := command.Childless()
	cmd := exec.Command("/bin/sh", "-c", "read line; exit 0")
	in, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return 1
	}
	alive := command.Childless()
	_ = in.Close() // it ends
	for dead := false; !dead; {
		b, err := command.ReadProc(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		if err != nil {
			return 2
		}
		dead = bytes.Contains(b, []byte(") Z "))
	}
	zombie := command.Childless()
	_ = cmd.Wait() // its end was seen
	fmt.Print(before, alive, zombie, command.Childless())
	return 0
}

// Whether the process table need not be read is known exactly.
func TestChildless(t *testing.T) {
	if got, want := mustRun(t, "childless"), "true false false true"; got != want {
		t.Errorf("Childless: got %q, want %q", got, want)
	}
}

// Files of the kernel are read to their end, which no size announces.
func TestReadProc(t *testing.T) {
	for _, path := range []string{"/proc/self/maps", "/proc/self/stat", "/proc/sys/kernel/random/boot_id", "/proc/cpuinfo"} {
		got, err := command.ReadProc(path)
		if err != nil || len(got) == 0 {
			t.Fatalf("ReadProc(%s): %d bytes, %v", path, len(got), err)
		}
	}
	long := t.TempDir() + "/long"
	want := strings.Repeat("a line of text\n", 1000)
	if err := os.WriteFile(long, []byte(want), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := command.ReadProc(long); err != nil || string(got) != want {
		t.Errorf("ReadProc: got %d bytes, %v, want %d", len(got), err, len(want))
	}
	if _, err := command.ReadProc("/proc/0/stat"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadProc of nobody: got %v", err)
	}
	if _, err := command.ReadProc("/proc"); err == nil {
		t.Error("ReadProc of a directory: got no error")
	}
}
