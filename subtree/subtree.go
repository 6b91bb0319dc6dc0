// Package subtree opens what lies below a directory, and nothing else, whatever symbolic links lie
// there and whatever is renamed meanwhile.
//
// It is os.Root wherever the kernel keeps the promise that os.Root is built on: a directory that is to
// be opened without following symbolic links is none. gVisor follows them (google/gvisor#14786), and
// there os.Root leads outside. Whole paths are resolved by the kernel then (openat2), and where it
// cannot, nothing is opened.
package subtree

import (
	"io/fs"
	"os"
)

// Tree is the files below a directory. Names are slash-separated and relative to it; "." is the
// directory. One that leads outside, through ".." or symbolic links, is an *fs.PathError whose cause
// is no error of the operating system. Methods may be called from several goroutines.
type Tree interface {
	OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error)
	// Stat follows symbolic links as far as they stay below the directory, Lstat does not follow name.
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	Mkdir(name string, perm fs.FileMode) error
	// Remove removes a file or an empty directory.
	Remove(name string) error
	// FS lists directories.
	FS() fs.FS
	Close() error
}

// Open opens dir as a tree, which the caller closes.
func Open(dir string) (Tree, error) {
	if followsLinks() {
		return Resolve(dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return root, nil
}
