package local_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// sweeping is content that calls Sweep when it ends.
type sweeping struct {
	io.Reader
	sweep func()
}

func (s sweeping) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err == io.EOF {
		s.sweep()
	}
	return n, err
}

// Sweep removes the unfinished file of a process that was killed while it stored large
// content. A file that is being written stays.
func TestSweepLeavesWhatIsWritten(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := create(t, s, 1)
	left := filepath.Join(o.Home, "blobs", "new-12345")
	if err := os.WriteFile(left, noise(1000), 0o600); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(o.Home, "blobs", "new-pipe") // not a file of acode, and it would block a reader
	must(t, unix.Mkfifo(pipe, 0o600))
	want, swept := noise(300_000), 0
	sweep := func() {
		swept++
		if err := s.Sweep(); err != nil {
			t.Errorf("Sweep: %v", err)
		}
	}
	ref, err := w.Stage(t.Context(), sweeping{bytes.NewReader(want), sweep}, int64(len(want)))
	if err != nil || swept == 0 {
		t.Fatalf("Stage: %v, swept %d times", err, swept)
	}
	sweep()
	if got, err := content(t, w, ref.Hash); err != nil || !bytes.Equal(got, want) {
		t.Errorf("Open: got %d bytes, %v", len(got), err)
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("Sweep: the leftover file is still there: %v", err)
	}
	if _, err := os.Lstat(pipe); err != nil {
		t.Errorf("Sweep: a foreign file: %v", err)
	}
}

// A process killed while it made a store leaves unfinished files. The next process that
// makes the store removes them.
func TestStoreIsMadeWithoutWhatWasLeft(t *testing.T) {
	o := options(t)
	if err := os.MkdirAll(o.Home, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"key-123", "ballast-456"} {
		if err := os.WriteFile(filepath.Join(o.Home, name), noise(32), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	must(t, open(t, o).Close())
	left, err := filepath.Glob(filepath.Join(o.Home, "*-*"))
	must(t, err)
	for _, path := range left {
		if name := filepath.Base(path); name != "acode.db-wal" && name != "acode.db-shm" {
			t.Errorf("left in the store: %s", name)
		}
	}
}
