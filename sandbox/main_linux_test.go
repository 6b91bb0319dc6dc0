package sandbox_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/acode-dev/acode/internal/kernel"
	"github.com/acode-dev/acode/sandbox"
)

// TestMain lets the test binary be the first stage of a sandbox, and a confined program
// that carries out an act.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == sandbox.Stage {
		os.Exit(sandbox.Enter(os.Args[2:]))
	}
	if len(os.Args) > 2 && os.Args[1] == "act" {
		os.Exit(actMain(os.Args[2], os.Args[3:]))
	}
	if err := kernel.Become(); err != nil {
		panic(err)
	}
	if len(os.Args) > 1 && os.Args[1] == "mode" {
		mode, err := sandbox.Mode(self())
		fmt.Printf("%s %v", mode, err)
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == "command" {
		os.Exit(startMain(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// startMain starts a first stage with args as acode does, and returns its exit status.
func startMain(args []string) int {
	cmd := exec.Command(self(), args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = sandbox.StageAttributes(cmd.Args)
	if err := cmd.Run(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func self() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}

// box is a sandbox for tests. Its mode is empty for no sandbox.
type box struct {
	t *testing.T
	sandbox.Profile
	// outside has files that no command may reach; listed is on the list of readable
	// directories.
	outside, listed string
}

func newBox(t *testing.T, mode string) box {
	t.Helper()
	dir := t.TempDir()
	b := box{t: t, outside: filepath.Join(dir, "outside"), listed: filepath.Join(dir, "listed")}
	b.Profile = sandbox.Profile{Mode: mode, Workspace: filepath.Join(dir, "ws"), Home: filepath.Join(dir, "home"), Tmp: filepath.Join(dir, "tmp"),
		Read: append(sandbox.Place{Getenv: os.Getenv, Home: filepath.Join(dir, "nobody"), State: b.outside}.Readable(), b.listed, filepath.Dir(self()))}
	for _, d := range []string{b.Workspace, b.Home, b.Tmp, b.outside, b.listed, filepath.Join(b.outside, "dir"), filepath.Join(b.listed, "dir"), filepath.Join(b.Workspace, "dir")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{b.outside, b.listed, b.Workspace} {
		write(t, filepath.Join(d, "file"), "content of "+filepath.Base(d))
		write(t, filepath.Join(d, "script"), "#!/bin/sh\nexit 0\n")
		if err := os.Chmod(filepath.Join(d, "script"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// command returns a confined command in the workspace.
func (b box) command(argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	if b.Mode != "" {
		cmd = exec.Command(self(), b.Arguments(b.Workspace, 0, argv[0], argv)...)
		cmd.SysProcAttr = b.Attributes(syscall.SysProcAttr{})
	}
	own := []string{"HOME=" + b.Home, "TMPDIR=" + b.TempDir(), "GORACE=atexit_sleep_ms=0"}
	cmd.Dir, cmd.Env = b.Workspace, slices.Concat(os.Environ(), own)
	return cmd
}

// do carries out an act inside and returns its error.
func (b box) do(act string, args ...string) error {
	out, err := b.command(append([]string{self(), "act", act}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
