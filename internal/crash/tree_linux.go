package crash

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// sharedMemorySuffix marks SQLite's index of its log. It is memory, written through a
// mapping that no call shows, and rebuilt at the first open after a crash, so that trees
// and images leave it out.
const sharedMemorySuffix = "-shm"

// File is a file, directory or symbolic link of a Tree.
type File struct {
	// type and permissions
	Mode fs.FileMode
	// of a regular file
	Data []byte
	// of a symbolic link
	Target string
	// equal for two names of one file
	Inode Inode
}

// Tree is what lies below a directory. The files are keyed by slash-separated paths
// relative to Root, which is itself ".".
type Tree struct {
	// absolute, symbolic links resolved
	Root  string
	Files map[string]File
}

// Snapshot reads the tree below a directory that nobody changes meanwhile. Sockets, pipes
// and devices are left out.
func Snapshot(root string) (Tree, error) {
	root = newRoots([]string{root})[0]
	t := Tree{Root: root, Files: map[string]File{}}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || strings.HasSuffix(name, sharedMemorySuffix) {
			return err
		}
		f, ok, err := readFile(name, d)
		rel, relErr := filepath.Rel(root, name)
		if err != nil || relErr != nil || !ok {
			return errors.Join(err, relErr)
		}
		t.Files[filepath.ToSlash(rel)] = f
		return nil
	})
	if err != nil {
		return Tree{}, fmt.Errorf("snapshot %s: %w", root, err)
	}
	return t, nil
}

func readFile(name string, d fs.DirEntry) (f File, ok bool, err error) {
	info, err := d.Info()
	if err != nil {
		return f, false, fmt.Errorf("look at file: %w", err)
	}
	f.Mode = info.Mode()
	if st, known := info.Sys().(*syscall.Stat_t); known {
		f.Inode = Inode{Dev: uint64(st.Dev), Ino: st.Ino}
	}
	switch f.Mode.Type() {
	case fs.ModeDir:
	case fs.ModeSymlink:
		f.Target, err = os.Readlink(name)
	case 0:
		f.Data, err = os.ReadFile(name)
	default:
		return f, false, nil
	}
	return f, err == nil, err
}

// Materialize writes the tree into dir, which need not exist. Owners and times are not
// kept.
func (t Tree) Materialize(dir string) error {
	names := slices.Sorted(maps.Keys(t.Files)) // a directory before what it holds
	first := map[Inode]string{}
	for _, name := range names {
		f, at := t.Files[name], filepath.Join(dir, filepath.FromSlash(name))
		err := f.write(at, first)
		if err != nil {
			return fmt.Errorf("materialize %s: %w", name, err)
		}
	}
	for _, name := range slices.Backward(names) { // last, since they may forbid writing
		if f := t.Files[name]; f.Mode.IsDir() {
			if err := os.Chmod(filepath.Join(dir, filepath.FromSlash(name)), f.Mode.Perm()); err != nil {
				return fmt.Errorf("materialize %s: %w", name, err)
			}
		}
	}
	return nil
}

// write makes one file; first holds where each inode already has a name.
func (f File) write(at string, first map[Inode]string) error {
	switch f.Mode.Type() {
	case fs.ModeDir:
		return os.MkdirAll(at, 0o700)
	case fs.ModeSymlink:
		return os.Symlink(f.Target, at)
	}
	if other, ok := first[f.Inode]; ok && f.Inode != (Inode{}) {
		return os.Link(other, at)
	}
	first[f.Inode] = at
	if err := os.WriteFile(at, f.Data, 0o600); err != nil {
		return err
	}
	return os.Chmod(at, f.Mode.Perm())
}

// Differences names the paths at which two trees differ in type, permissions, content or
// target, in order.
func (t Tree) Differences(u Tree) []string {
	var names []string
	for name, f := range t.Files {
		g, ok := u.Files[name]
		if !ok || f.Mode.Type() != g.Mode.Type() || f.Target != g.Target || string(f.Data) != string(g.Data) ||
			f.Mode.Type() != fs.ModeSymlink && f.Mode.Perm() != g.Mode.Perm() {
			names = append(names, name)
		}
	}
	for name := range u.Files {
		if _, ok := t.Files[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// relative gives the name of an absolute path in the tree; ok is false outside of it.
func (t Tree) relative(abs string) (string, bool) {
	if abs == t.Root {
		return ".", true
	}
	rel, ok := strings.CutPrefix(abs, strings.TrimSuffix(t.Root, "/")+"/")
	return path.Clean(rel), ok && !strings.HasSuffix(rel, sharedMemorySuffix)
}
