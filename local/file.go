package local

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/acode-dev/acode/session"
)

// writeTemp writes b to a new file in dir and makes it durable; the caller links or renames it.
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

// syncDir makes the names in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return storeError("open directory", err)
	}
	defer d.Close()
	return storeError("sync directory", d.Sync())
}

// ballastBytes is room that is given back when the disk is full, so that a session can still
// say why it stops.
const ballastBytes = 256 << 10

// makeBallast fills the ballast file where it is missing and there is room; without room the
// store works all the same.
func makeBallast(home string) {
	path := filepath.Join(home, "ballast")
	if info, err := os.Lstat(path); err == nil && info.Size() == ballastBytes {
		return
	}
	_ = os.Remove(path) // an incomplete one
	tmp, err := writeTemp(home, "ballast-*", make([]byte, ballastBytes))
	if err == nil && os.Rename(tmp, path) != nil {
		_ = os.Remove(tmp) // best effort, like the ballast itself
	}
}

// makeDirs makes the home of a store and the folders in it.
func makeDirs(home string) error {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return storeError("make store", err)
	}
	for _, dir := range []string{"heads", "blobs"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			return storeError("make store", err)
		}
	}
	for _, dir := range []string{home, filepath.Dir(home)} {
		if err := syncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

func newer(have int) error {
	return &session.Error{
		Code: session.ErrNewer, Message: fmt.Sprintf("the store has format %d, which a newer acode wrote; nothing was changed", have),
		Next: "install the newer acode",
	}
}
