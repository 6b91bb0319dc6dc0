package workspace

import (
	"cmp"
	"context"
	"math"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/acode-dev/acode/session"
)

// Manifest holds the tracked files of a workspace at one moment, and the files that
// remaining steps name. Making one costs one stat for each file. An entry has a hash if
// its content must be known later: a remaining step names the file, or it was touched
// so recently that its times could hide a change. Any other entry counts as modified
// when its stat differs. Files that a session reads and writes have FileStates of their
// own.
type Manifest struct {
	// Base is the hash of the blob with the manifest that this one is a difference
	// from, as Watch.Look returns it. It is empty for a whole manifest.
	Base string
	// Git says that git chose the files: tracked ones, and untracked ones that are not
	// ignored.
	Git     bool
	Entries []session.FileState
	// Dirs are all directories above entries. Their times tell where files were added.
	Dirs []session.FileState
}

// maxHashed is the size in bytes up to which a manifest has hashes. Hashing more takes
// longer than a person waits for a start.
const maxHashed = 64 << 20

// Scan makes the manifest of the workspace. It has the files that git lists (tracked,
// or untracked and not ignored). If git does not answer or the workspace is not a
// repository, it has every file outside .git. It leaves out temporary files of a killed
// Apply, and files that disappear meanwhile.
//
// planned has patterns as Read takes them. The files that they name are hashed up to 64
// MiB, and are in the manifest even if git ignores them. before is an earlier manifest,
// whose hashes hold for files with the same stat, or nil.
func (r *Root) Scan(ctx context.Context, planned []string, before *Manifest) (*Manifest, error) {
	names, git, err := r.list(ctx, true, []string{"."})
	if err != nil {
		return nil, err
	}
	plan := newNamed(planned)
	m := newManifest(append(names, plan.files()...), git)
	if before != nil {
		for _, was := range before.Entries {
			if e := m.entry(was.Path); e != nil && was.Hash != "" {
				*e = was
			}
		}
	}
	diff, _, _ := r.examine(ctx, m, plan)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	m = m.With(diff)
	unknown := func(f session.FileState) bool { return f.Inode == 0 }
	m.Entries, m.Dirs = slices.DeleteFunc(m.Entries, unknown), slices.DeleteFunc(m.Dirs, unknown)
	return m, nil
}

// newManifest returns a manifest of files with unknown state, and of the directories
// above them.
func newManifest(names []string, git bool) *Manifest {
	m := &Manifest{Git: git, Entries: make([]session.FileState, len(names))}
	for i, name := range names {
		m.Entries[i].Path = name
	}
	slices.SortFunc(m.Entries, byFolder)
	m.Entries = slices.CompactFunc(m.Entries, func(a, b session.FileState) bool { return a.Path == b.Path })
	m.Dirs = ancestors(m.Entries)
	return m
}

// list returns the files at or below some paths. If git is set and git answers, they
// are the files that git lists. Otherwise they are all files.
func (r *Root) list(ctx context.Context, git bool, at []string) (names []string, byGit bool, err error) {
	if git {
		if names, err = r.repository().listed(ctx, at); err == nil {
			return slices.DeleteFunc(names, temporary), true, nil
		}
	}
	for _, name := range at {
		found, err := r.files(ctx, math.MaxInt, name, nil)
		if ctx.Err() != nil {
			return nil, false, context.Cause(ctx)
		}
		// a path other than "." has disappeared
		if err != nil && name == "." {
			return nil, false, failure(name, "listing", err)
		}
		names = append(names, found...)
	}
	return slices.DeleteFunc(names, temporary), false, nil
}

// split cuts a path into directory and last component. It does not clean the path.
func split(name string) (dir, base string) {
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return ".", name
	}
	return name[:i], name[i+1:]
}

// byFolder orders files by their directory, then by their name in it.
func byFolder(a, b session.FileState) int {
	aDir, aBase := split(a.Path)
	bDir, bBase := split(b.Path)
	return cmp.Or(cmp.Compare(aDir, bDir), cmp.Compare(aBase, bBase))
}

// ancestors returns every directory above sorted entries, including the root, sorted.
func ancestors(entries []session.FileState) []session.FileState {
	seen := map[string]bool{".": true}
	last := ""
	for _, e := range entries {
		dir, _ := split(e.Path)
		if dir == last {
			continue
		}
		for last = dir; !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
		}
	}
	dirs := make([]session.FileState, 0, len(seen))
	for dir := range seen {
		dirs = append(dirs, session.FileState{Path: dir})
	}
	slices.SortFunc(dirs, byPath)
	return dirs
}

// group is one directory with its files.
type group struct {
	dir *session.FileState
	// from and upto are indexes of Entries.
	from, upto int
}

// groups pairs directories with their files. Both lists have the same order.
func (m *Manifest) groups() []group {
	gs := make([]group, len(m.Dirs))
	at := 0
	for i := range m.Dirs {
		g := group{dir: &m.Dirs[i], from: at}
		for at < len(m.Entries) {
			if dir, _ := split(m.Entries[at].Path); dir != g.dir.Path {
				break
			}
			at++
		}
		g.upto = at
		gs[i] = g
	}
	return gs
}

// inParallel calls do for each number below n, until the context ends.
func inParallel(ctx context.Context, n int, do func(int)) {
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n) {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	wait.Wait()
}

// entry returns the file with this name, or nil if m does not have it.
func (m *Manifest) entry(name string) *session.FileState {
	i, ok := slices.BinarySearchFunc(m.Entries, session.FileState{Path: name}, byFolder)
	if !ok {
		return nil
	}
	return &m.Entries[i]
}

// hasDir reports whether m has files below the directory name.
func (m *Manifest) hasDir(name string) bool {
	_, ok := slices.BinarySearchFunc(m.Dirs, session.FileState{Path: name}, byPath)
	return ok
}
