package app

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/acode-dev/acode/session"
)

// Two servers keep an errand under one name at once. The first one counts for both.
func TestErrandOfTwoServers(t *testing.T) {
	c := connect(t, newWorkspace(t))
	defer c.close()
	errand := func(digest string, id session.ID, meanwhile func()) (*Errand, error) {
		return c.site.Errand("name", digest, func() (session.ID, uint64, error) { meanwhile(); return id, 1, nil })
	}
	faster := func() {
		if _, err := errand("digest", "first", func() {}); err != nil {
			t.Fatal(err)
		}
	}
	if e, err := errand("digest", "second", faster); err != nil || e.Session != "first" {
		t.Errorf("Errand: got %+v, %v, want that of the first session", e, err)
	}
	if _, err := errand("other", "third", func() {}); !errors.Is(err, session.ErrConflict) {
		t.Errorf("Errand with another digest: got %v, want %s", err, session.ErrConflict)
	}
}

// The record of an errand is not believed if any of its bytes has changed.
func TestDamagedErrand(t *testing.T) {
	dir := newWorkspace(t)
	c := connect(t, dir)
	defer c.close()
	errand := func() (*Errand, error) {
		return c.site.Errand("name", "digest", func() (session.ID, uint64, error) { return "id", 1, nil })
	}
	if _, err := errand(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "state", "errands", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("errands: got %v, %v, want one file", files, err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		damaged := append([]byte{}, whole...)
		damaged[i] ^= 1
		if err := os.WriteFile(files[0], damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if e, err := errand(); !errors.Is(err, session.ErrCorrupt) {
			t.Errorf("byte %d: got %+v, %v, want %s", i, e, err, session.ErrCorrupt)
		}
	}
}
