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

// writeTemp writes b to a new file in dir and makes it durable. It returns the path; the
// caller links or renames the file.
func writeTemp(dir, pattern string, b []byte) (string, error) {
	f, err := os.CreateTemp(dir, pattern) // mode 0600
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
		_ = os.Remove(f.Name()) // it is incomplete
		return "", storeError("write temporary file", err)
	}
	return f.Name(), nil
}

// removeLeft removes temporary files of killed processes from dir.
func removeLeft(dir, pattern string) {
	left, _ := fs.Glob(os.DirFS(dir), pattern) // best effort: a leftover file is harmless
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

// ballastBytes is the size of the ballast. acode frees it when the disk is full, so that
// a session can still record why it stops.
const ballastBytes = 256 << 10

// ballastPattern is the pattern of the name of an unfinished ballast.
const ballastPattern = "ballast-*"

// makeBallast makes the ballast file if it is missing and there is room. The store works
// without it.
func makeBallast(home string) {
	path := filepath.Join(home, "ballast")
	if info, err := os.Lstat(path); err == nil && info.Size() == ballastBytes {
		return
	}
	_ = os.Remove(path) // it may be incomplete
	removeLeft(home, ballastPattern)
	tmp, err := writeTemp(home, ballastPattern, make([]byte, ballastBytes))
	if err == nil && os.Rename(tmp, path) != nil {
		_ = os.Remove(tmp) // best effort
	}
}

// errKind is the error for a path that is not a regular file.
var errKind = errors.New("not a regular file")

// openRegular opens a file for reading. It returns errKind for anything but a regular
// file. A named pipe, for instance, would block forever.
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
