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

// Manifest is the tracked files of a workspace as they were at one moment, and the files
// that remaining steps name. To make one costs a stat a file. An entry has a hash where
// its content must be known later: a remaining step names it, or it was touched so
// recently that its times could hide a change. Of any other entry a different stat counts
// as modified. What a session reads and writes is known exactly, by FileStates of its
// own.
type Manifest struct {
	// blob hash of the manifest that this one only differs from, as Watch.Look says;
	// empty: it is whole
	Base string
	// git chose the files: tracked ones, and untracked ones that are not ignored
	Git     bool
	Entries []session.FileState
	// all directories above entries; their times tell where files came
	Dirs []session.FileState
}

// maxHashed is the size in bytes up to which a manifest has hashes: to hash more takes
// longer than a person waits for a start.
const maxHashed = 64 << 20

// Scan makes the manifest of the workspace: the files that git lists (tracked, or
// untracked and not ignored) when it answers and the workspace is a repository, else
// every file outside .git; what a killed Apply left half-made is none. The files that
// planned names (patterns as Read takes them) are hashed up to 64 MiB, and are in the
// manifest also where git ignores them. before is an earlier manifest, whose hashes hold
// for files with the same stat; nil: there is none. Files that vanish meanwhile are left
// out.
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

// newManifest names files of which nothing is known yet, and the directories above them.
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

// list names the files at or below some paths, as git does where it is to be asked and
// answers; else all.
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
		if err != nil && name == "." { // else it vanished
			return nil, false, failure(name, "listing", err)
		}
		names = append(names, found...)
	}
	return slices.DeleteFunc(names, temporary), false, nil
}

// split cuts a path into directory and last component without cleaning it.
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

// ancestors lists every directory that sorted entries lie below, sorted, the root
// included.
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
	// of Entries
	from, upto int
}

// groups pairs directories with their files; both are sorted alike.
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

// entry finds a file; nil: m does not have it.
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
