package install

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// errChanged says that a file is not as it was read.
var errChanged = errors.New("the file has changed meanwhile")

// content is the content of a file.
type content struct {
	data   []byte
	exists bool
}

func load(path string) (content, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return content{}, nil
	}
	return content{data, true}, err
}

func (c content) same(other content) bool {
	return c.exists == other.exists && bytes.Equal(c.data, other.data)
}

// store replaces the content of a file at once, or removes the file. Its mode, its owner
// and a link to it stay. It returns errChanged if the file does not hold old.
func store(path string, old, next content) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	} else if info, lerr := os.Lstat(path); lerr == nil && info.Mode()&fs.ModeSymlink != 0 {
		return err // a link to a file that does not exist
	}
	if !next.exists {
		return unless(path, old, func() error { return os.Remove(path) })
	}
	temp, err := written(path, next.data)
	if err != nil {
		return err
	}
	err = unless(path, old, func() error {
		if old.exists {
			return os.Rename(temp, path)
		}
		return errors.Join(os.Link(temp, path), os.Remove(temp))
	})
	if err != nil {
		return errors.Join(err, discard(temp))
	}
	return syncDirectory(filepath.Dir(path))
}

// unless does act, unless the file does not hold old.
func unless(path string, old content, act func() error) error {
	now, err := load(path)
	if err == nil && !now.same(old) {
		err = errChanged
	}
	if err != nil {
		return err
	}
	return act()
}

func discard(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// written writes a file beside path, with the mode and owner of path.
func written(path string, data []byte) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".acode-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if info, serr := os.Stat(path); serr == nil {
		err = errors.Join(err, f.Chmod(info.Mode().Perm()))
		if own, ok := info.Sys().(*syscall.Stat_t); ok && int(own.Uid) != os.Geteuid() {
			err = errors.Join(err, f.Chown(int(own.Uid), int(own.Gid)))
		}
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, discard(f.Name()))
	}
	return f.Name(), nil
}

func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
