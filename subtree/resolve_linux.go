package subtree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// followsLinks reports whether this kernel opens a directory through a symbolic link that it was told
// not to follow. /proc/self is one on every Linux.
var followsLinks = sync.OnceValue(func() bool {
	fd, err := unix.Open("/proc/self", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	_ = unix.Close(fd) // nothing was read
	return true
})

// resolved is a tree below a directory, whose paths the kernel resolves.
type resolved struct{ dir *os.File }

// Resolve is Open on a kernel that follows symbolic links where it should not. It returns an error
// where the kernel cannot resolve paths below a directory either.
func Resolve(dir string) (Tree, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	r := resolved{f}
	if _, err := r.Stat("."); err != nil {
		_ = f.Close() // only opened
		return nil, fmt.Errorf("symbolic links cannot be kept from leading out of it on this system: %w", err)
	}
	return r, nil
}

var errOutside = errors.New("path leads outside")

// open opens name. Somebody who renames directories meanwhile can make the kernel give up, not err.
func (r resolved) open(name string, flag int, perm fs.FileMode) (*os.File, error) {
	how := unix.OpenHow{Flags: uint64(flag | unix.O_CLOEXEC), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	if flag&os.O_CREATE != 0 {
		how.Mode = uint64(perm.Perm())
	}
	const tries = 100
	var fd int
	var err error
	for range tries {
		fd, err = unix.Openat2(int(r.dir.Fd()), name, &how)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if errors.Is(err, unix.EXDEV) {
		err = errOutside
	}
	if err != nil {
		return nil, &fs.PathError{Op: "openat2", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), filepath.Join(r.dir.Name(), name)), nil
}

func (r resolved) OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return r.open(name, flag, perm)
}

func (r resolved) Stat(name string) (fs.FileInfo, error)  { return r.stat(name, 0) }
func (r resolved) Lstat(name string) (fs.FileInfo, error) { return r.stat(name, unix.O_NOFOLLOW) }

func (r resolved) stat(name string, flag int) (fs.FileInfo, error) {
	f, err := r.open(name, unix.O_PATH|flag, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Stat()
}

func (r resolved) Mkdir(name string, perm fs.FileMode) error {
	return r.inParent("mkdirat", name, func(parent int, base string) error {
		return unix.Mkdirat(parent, base, uint32(perm.Perm()))
	})
}

func (r resolved) Remove(name string) error {
	return r.inParent("unlinkat", name, func(parent int, base string) error {
		err := unix.Unlinkat(parent, base, 0)
		if errors.Is(err, unix.EISDIR) {
			return unix.Unlinkat(parent, base, unix.AT_REMOVEDIR)
		}
		return err
	})
}

// inParent does what is to be done with the last component of name in the directory that holds it.
func (r resolved) inParent(op, name string, do func(parent int, base string) error) error {
	parent, err := r.open(path.Dir(name), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer parent.Close()
	if err := do(int(parent.Fd()), path.Base(name)); err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}

func (r resolved) FS() fs.FS { return listing{r} }

func (r resolved) Close() error { return r.dir.Close() }

// listing is the directories of a tree.
type listing struct{ r resolved }

func (l listing) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	f, err := l.r.open(name, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return f, nil
}
