package lock_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acode-dev/acode/lock"
	"github.com/acode-dev/acode/session"
)

func acquireDirectory(t *testing.T, path string, shared bool) *lock.Directory {
	t.Helper()
	d, err := lock.AcquireDirectory(path, shared)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Release() })
	return d
}

// K1: a directory is one workspace by any of its paths, even if its path changes.
func TestDirectoryByTwoPaths(t *testing.T) {
	for name, other := range map[string]func(t *testing.T, path string) string{
		"same": func(_ *testing.T, path string) string { return path },
		"moved": func(t *testing.T, path string) string {
			if err := os.Rename(path, path+"-moved"); err != nil {
				t.Fatal(err)
			}
			return path + "-moved"
		},
		"bind_mount": func(t *testing.T, path string) string {
			to := t.TempDir()
			if out, err := exec.Command("mount", "--bind", path, to).CombinedOutput(); err != nil {
				t.Skipf("only root may mount here: %s", out)
			}
			t.Cleanup(func() { _ = exec.Command("umount", "-l", to).Run() })
			return to
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ws")
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
			p := start(t, "directory", path)
			if p.first != "holding" {
				t.Fatalf("holder: %s", p.first)
			}
			there := other(t, path)
			_, err := lock.AcquireDirectory(there, false)
			wantCode(t, err, session.ErrLocked)
			if want := fmt.Sprintf("process %d ", p.Process.Pid); !strings.Contains(err.Error(), want) {
				t.Errorf("AcquireDirectory: got %q, want that it names %s", err, want)
			}
			_ = p.Process.Kill()
			p.rest()
			acquireDirectory(t, there, false)
		})
	}
}

// Sessions that share a workspace hold the directory together and keep out a session
// that does not share.
func TestDirectoryShared(t *testing.T) {
	path := t.TempDir()
	one, two := acquireDirectory(t, path, true), acquireDirectory(t, path, true)
	_, err := lock.AcquireDirectory(path, false)
	wantCode(t, err, session.ErrLocked)
	if err := errors.Join(one.Release(), two.Release()); err != nil {
		t.Fatal(err)
	}
	alone := acquireDirectory(t, path, false)
	// a person asked for it
	acquireDirectory(t, path, true)
	if err := alone.Release(); err != nil {
		t.Fatal(err)
	}
	acquireDirectory(t, path, false)
}

// K4: no command inherits the lock.
func TestDirectoryIsNotInherited(t *testing.T) {
	path := t.TempDir()
	d := acquireDirectory(t, path, false)
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if err := d.Release(); err != nil {
		t.Fatal(err)
	}
	acquireDirectory(t, path, false)
}

// A workspace that cannot be opened is not reported as a held lock.
func TestDirectoryMissing(t *testing.T) {
	_, err := lock.AcquireDirectory(filepath.Join(t.TempDir(), "none"), false)
	wantCode(t, err, session.ErrEnvironment)
}
