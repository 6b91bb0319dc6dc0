package subtree_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/acode-dev/acode/subtree"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// site makes a tree with links that stay inside and links that lead to the directory
// beside it.
func site(t *testing.T) (dir, outside string) {
	t.Helper()
	top := t.TempDir()
	dir, outside = filepath.Join(top, "in"), filepath.Join(top, "out")
	must(t, os.MkdirAll(filepath.Join(dir, "d/sub"), 0o755))
	must(t, os.MkdirAll(filepath.Join(outside, "empty"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "d/f"), []byte("inside"), 0o644))
	must(t, os.WriteFile(filepath.Join(outside, "f"), []byte("outside"), 0o644))
	for name, target := range map[string]string{
		"link": "d", "up": "../out", "abs": outside, "self": dir, "d/far": "../../out", "loop": "loop", "magic": "/proc/self/cwd", "file": "d/f",
	} {
		must(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	return dir, outside
}

// opened opens the site.
func opened(t *testing.T) (tree *os.Root, outside string) {
	t.Helper()
	dir, outside := site(t)
	tree, err := subtree.Open(dir)
	must(t, err)
	t.Cleanup(func() { _ = tree.Close() })
	return tree, outside
}

// Open refuses a directory if the kernel follows symbolic links that it must not
// follow.
func TestRefusedWhereLinksAreFollowed(t *testing.T) {
	if tree, err := subtree.OpenWhere(t.TempDir(), true); err == nil || tree != nil {
		t.Errorf("Open: got %v, %v, want a refusal", tree, err)
	}
}

// Files below the tree are opened, examined, made and removed through any link that
// stays inside.
func TestInside(t *testing.T) {
	tree, _ := opened(t)
	for _, name := range []string{"d/f", "link/f", "file", "link/../d/f"} {
		f, err := tree.OpenFile(name, os.O_RDONLY, 0)
		must(t, err)
		if b, err := io.ReadAll(f); err != nil || string(b) != "inside" {
			t.Errorf("%s: got %q, %v", name, b, err)
		}
		must(t, f.Close())
	}
	if info, err := tree.Stat("file"); err != nil || !info.Mode().IsRegular() {
		t.Errorf("Stat follows: got %v, %v", info, err)
	}
	if info, err := tree.Lstat("file"); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("Lstat does not follow: got %v, %v", info, err)
	}
	must(t, tree.Mkdir("link/new", 0o755))
	if info, err := tree.Stat("d/new"); err != nil || !info.IsDir() {
		t.Errorf("Mkdir: got %v, %v", info, err)
	}
	must(t, tree.Remove("link/new"))
	must(t, tree.Remove("link/f"))
	if err := tree.Mkdir("d/sub", 0o755); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Mkdir of an existing directory: got %v", err)
	}
	if _, err := tree.Stat("d/f"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Remove: got %v", err)
	}
	entries, err := fs.ReadDir(tree.FS(), "d")
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"far", "sub"}; !slices.Equal(names, want) {
		t.Errorf("FS: got %v, want %v", names, want)
	}
}

// Files outside are neither opened nor examined nor changed. The error is not one of
// the operating system, except for a link that leads nowhere.
func TestOutside(t *testing.T) {
	tree, outside := opened(t)
	calls := map[string]func(name string) error{
		"OpenFile": func(name string) error { return closed(tree.OpenFile(name, os.O_RDONLY, 0)) },
		"create":   func(name string) error { return closed(tree.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)) },
		"Stat":     func(name string) error { _, err := tree.Stat(name); return err },
		"Lstat":    func(name string) error { _, err := tree.Lstat(name); return err },
		"Mkdir":    func(name string) error { return tree.Mkdir(name+"/made", 0o755) },
		"Remove":   tree.Remove,
		"FS":       func(name string) error { _, err := fs.ReadDir(tree.FS(), filepath.Dir(name)); return err },
	}
	for what, call := range calls {
		for _, name := range []string{"up/f", "up/empty", "abs/f", "abs/empty", "self/d", "d/far/f", "d/far/empty", "link/far/f", "../out/f", "loop/f", "magic/f"} {
			err := call(name)
			var no syscall.Errno
			if err == nil || errors.As(err, &no) && no != syscall.ELOOP && !(what == "FS" && errors.Is(err, fs.ErrInvalid)) {
				t.Errorf("%s %s: got %v, want a refusal", what, name, err)
			}
		}
	}
	entries, err := os.ReadDir(outside)
	must(t, err)
	if len(entries) != 2 || entries[0].Name() != "empty" || entries[1].Name() != "f" {
		t.Errorf("outside: got %v", entries)
	}
}

func closed(f *os.File, err error) error {
	if err != nil {
		return err
	}
	return f.Close()
}
