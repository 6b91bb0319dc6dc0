package local

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/acode-dev/acode/session"
	"golang.org/x/sys/unix"
)

// writeTemp writes b to a new file in dir and makes it durable; the caller links or
// renames it.
func writeTemp(dir, pattern string, b []byte) (string, error) {
	f, err := os.CreateTemp(dir, pattern) // 0600
	if err != nil {
		return "", storeError("make temporary file", err)
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = os.Remove(f.Name()) // it is incomplete and nobody knows its name
		return "", storeError("write temporary file", err)
	}
	return f.Name(), nil
}

// removeLeft removes the temporary files that processes which were killed left in dir.
func removeLeft(dir, pattern string) {
	left, _ := fs.Glob(os.DirFS(dir), pattern) // what cannot be removed stays, and harms nobody
	for _, name := range left {
		_ = os.Remove(filepath.Join(dir, name))
	}
}

// syncDir makes the names in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return storeError("open directory", err)
	}
	defer d.Close()
	return storeError("sync directory", d.Sync())
}

// ballastBytes is room that is given back when the disk is full, so that a session can
// still say why it stops.
const ballastBytes = 256 << 10

// ballastPattern is the name of a ballast that is being made.
const ballastPattern = "ballast-*"

// makeBallast fills the ballast file where it is missing and there is room; without room
// the store works all the same.
func makeBallast(home string) {
	path := filepath.Join(home, "ballast")
	if info, err := os.Lstat(path); err == nil && info.Size() == ballastBytes {
		return
	}
	_ = os.Remove(path) // an incomplete one
	removeLeft(home, ballastPattern)
	tmp, err := writeTemp(home, ballastPattern, make([]byte, ballastBytes))
	if err == nil && os.Rename(tmp, path) != nil {
		_ = os.Remove(tmp) // best effort, like the ballast itself
	}
}

// errKind is the refusal of what stands in the place of a file.
var errKind = errors.New("not a regular file")

// openRegular opens a file for reading. What is no regular file, a named pipe that would
// never answer for one, is errKind.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		_ = f.Close() // nothing was read
		return nil, cmp.Or(err, errKind)
	}
	return f, nil
}

func newer(have int) error {
	return &session.Error{
		Code: session.ErrNewer, Message: fmt.Sprintf("the store has format %d, which a newer acode wrote; nothing was changed", have),
		Next: session.Words("install the newer acode"),
	}
}
