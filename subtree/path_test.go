package subtree_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/acode-dev/acode/subtree"
)

func TestWithin(t *testing.T) {
	for path, want := range map[string]bool{"/a/b": true, "/a/b/c/d": true, "/a/b/..c": true, "/a/b/c/..": true, "/a": false, "/": false, "/a/bc": false, "/a/b/../c": false, "a/b": false} {
		if got := subtree.Within("/a/b", path); got != want {
			t.Errorf("Within(%q): got %v, want %v", path, got, want)
		}
	}
}

// The part of a path that does not exist yet stays as it is.
func TestResolved(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(top, "real", "sub"), 0o755))
	must(t, os.Symlink("real", filepath.Join(top, "link")))
	for path, want := range map[string]string{"link": "real", "link/sub": "real/sub", "link/new/more": "real/new/more", "gone/new": "gone/new"} {
		if got := subtree.Resolved(filepath.Join(top, path)); got != filepath.Join(top, want) {
			t.Errorf("Resolved(%q): got %s, want %s", path, got, want)
		}
	}
}
