package faults_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acode-dev/acode/internal/crash"
	"golang.org/x/sys/unix"
)

// acodePath is the tested program. TestMain builds it.
var acodePath string

// insideVariable tells a test binary that it started itself. Its value is "mounts" in its
// own mount namespace, and "limits" without one.
const insideVariable = "ACODE_FAULTS_INSIDE"

func TestMain(m *testing.M) {
	crash.LauncherMain()
	if back, dir, ok := strings.Cut(os.Getenv(foreignVariable), ":"); ok {
		serveForeign(back, dir)
	}
	if os.Getenv(insideVariable) == "" {
		os.Exit(runInside())
	}
	os.Exit(buildAndRun(m))
}

// canMount reports whether these tests may mount file systems.
func canMount() bool { return os.Getenv(insideVariable) == "mounts" }

// runInside runs the tests in a mount namespace, so that no mount outlives them.
func runInside() int {
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	err := reexec("mounts", attr)
	var ended *exec.ExitError
	// The process could not start, because namespaces are not available.
	if err != nil && !errors.As(err, &ended) {
		err = reexec("limits", &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL})
	}
	if errors.As(err, &ended) {
		return max(ended.ExitCode(), 1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func reexec(inside string, attr *syscall.SysProcAttr) error {
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideVariable+"="+inside)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = attr
	return cmd.Run()
}

func buildAndRun(m *testing.M) int {
	// Mounts made here must not be visible outside.
	if canMount() {
		if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			fmt.Fprintln(os.Stderr, "make mounts private:", err)
			return 1
		}
	}
	dir, err := os.MkdirTemp("", "faults-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	acodePath = filepath.Join(dir, "acode")
	if out, err := exec.Command("go", "build", "-o", acodePath, "../../cmd/acode").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build acode: %v: %s\n", err, out)
		return 1
	}
	return m.Run()
}
