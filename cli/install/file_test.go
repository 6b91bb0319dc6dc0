package install

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A link stays a link, and the file behind it keeps its mode.
func TestStoreKeepsLinkAndMode(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	write(t, path, "old")
	if err := errors.Join(os.Chmod(path, 0o604), os.Symlink("real", link)); err != nil {
		t.Fatal(err)
	}
	if err := store(link, content{[]byte("old"), true}, content{[]byte("new"), true}); err != nil {
		t.Fatal(err)
	}
	if at, err := os.Readlink(link); err != nil || at != "real" {
		t.Errorf("the link: got %q, %v", at, err)
	}
	if got := tree(t, dir)["real"]; got != "-rw----r-- new" {
		t.Errorf("the file: got %s", got)
	}
}

// A file that is not as it was read stays, and no other file is left.
func TestStoreRefusesAChangedFile(t *testing.T) {
	for name, c := range map[string]struct {
		now       string
		old, next content
	}{
		"changed": {"other", content{[]byte("old"), true}, content{[]byte("new"), true}},
		"new":     {"other", content{}, content{[]byte("new"), true}},
		"removed": {"", content{[]byte("old"), true}, content{[]byte("new"), true}},
		"delete":  {"other", content{[]byte("old"), true}, content{}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if c.now != "" {
				write(t, filepath.Join(dir, "file"), c.now)
			}
			before := len(tree(t, dir))
			if err := store(filepath.Join(dir, "file"), c.old, c.next); !errors.Is(err, errChanged) {
				t.Errorf("got %v, want %v", err, errChanged)
			}
			if after := tree(t, dir); len(after) != before || c.now != "" && after["file"] != "-rw-r----- "+c.now {
				t.Errorf("the directory: got %v", after)
			}
		})
	}
}

// A link to nothing is refused.
func TestStoreRefusesALinkToNothing(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("nothing", link); err != nil {
		t.Fatal(err)
	}
	if err := store(link, content{}, content{[]byte("new"), true}); err == nil {
		t.Error("got no error")
	}
	if at, err := os.Readlink(link); err != nil || at != "nothing" {
		t.Errorf("the link: got %q, %v", at, err)
	}
}
