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

// sharedMemorySuffix marks SQLite's index of its log. The file is memory, written through
// a mapping without calls, and is rebuilt at the first open after a crash. Trees and
// images omit it.
const sharedMemorySuffix = "-shm"

// File is a file, directory or symbolic link of a Tree.
type File struct {
	// Mode holds type and permissions.
	Mode fs.FileMode
	// Data is the content of a regular file.
	Data []byte
	// Target is the target of a symbolic link.
	Target string
	// Inode is equal for two names of one file.
	Inode Inode
}

// Tree is the content of a directory. The keys of Files are slash-separated paths
// relative to Root, which is itself ".".
type Tree struct {
	// Root is absolute and contains no symbolic links.
	Root  string
	Files map[string]File
}

// Snapshot reads the tree below a directory that does not change meanwhile. It omits
// sockets, pipes and devices.
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

// Materialize writes the tree into dir and creates dir if necessary. It does not keep
// owners and times.
func (t Tree) Materialize(dir string) error {
	// A directory comes before its content.
	names := slices.Sorted(maps.Keys(t.Files))
	first := map[Inode]string{}
	for _, name := range names {
		f, at := t.Files[name], filepath.Join(dir, filepath.FromSlash(name))
		err := f.write(at, first)
		if err != nil {
			return fmt.Errorf("materialize %s: %w", name, err)
		}
	}
	// Modes come last, because they may forbid writing.
	for _, name := range slices.Backward(names) {
		if f := t.Files[name]; f.Mode.IsDir() {
			if err := os.Chmod(filepath.Join(dir, filepath.FromSlash(name)), f.Mode.Perm()); err != nil {
				return fmt.Errorf("materialize %s: %w", name, err)
			}
		}
	}
	return nil
}

// write makes one file. first holds the first name of each inode.
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

// Differences returns the sorted paths at which two trees differ in type, permissions,
// content or target.
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

// relative returns the name of an absolute path in the tree. ok is false outside the
// tree.
func (t Tree) relative(abs string) (string, bool) {
	if abs == t.Root {
		return ".", true
	}
	rel, ok := strings.CutPrefix(abs, strings.TrimSuffix(t.Root, "/")+"/")
	return path.Clean(rel), ok && !strings.HasSuffix(rel, sharedMemorySuffix)
}
