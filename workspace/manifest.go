package workspace

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/acode-dev/acode/session"
)

// Manifest is the tracked files of a workspace as they were at one moment, and the files that
// remaining steps name. To make one costs a stat a file. An entry has a hash where its content
// must be known later: a remaining step names it, or it was touched so recently that its times
// could hide a change. Of any other entry a different stat counts as modified. What a session
// reads and writes is known exactly, by FileStates of its own.
type Manifest struct {
	Base    string // blob hash of the manifest that this one only differs from, as Watch.Look says; empty: it is whole
	Git     bool   // git chose the files: tracked ones, and untracked ones that are not ignored
	Entries []session.FileState
	Dirs    []session.FileState // all directories above entries; their times tell where files came
}

// maxHashed is the size in bytes up to which a manifest has hashes: to hash more takes longer than
// a person waits for a start.
const maxHashed = 64 << 20

// Scan makes the manifest of the workspace: the files that git lists (tracked, or
// untracked and not ignored) when it answers and the workspace is a repository, else
// every file outside .git; what a killed Apply left half-made is none. The files that
// planned names (patterns as Read takes them) are hashed up to 64 MiB, and are in the manifest
// also where git ignores them. before is an earlier manifest, whose hashes hold for files
// with the same stat; nil: there is none. Files that vanish meanwhile are left out.
func (r *Root) Scan(ctx context.Context, planned []string, before *Manifest) (*Manifest, error) {
	m := &Manifest{}
	names, err := r.repository().listed(ctx)
	m.Git = err == nil
	if err != nil {
		if names, err = r.every(ctx); err != nil {
			return nil, err
		}
	}
	names = slices.DeleteFunc(names, temporary)
	plan := newNamed(planned)
	names = append(names, plan.files()...)
	m.Entries = make([]session.FileState, len(names))
	for i, name := range names {
		m.Entries[i].Path = name
	}
	m.sort()
	m.Dirs = ancestors(m.Entries)
	err = inParallel(ctx, m.groups(), func(g group) error { return r.scanGroup(ctx, m, g, plan, before) })
	m.Entries = slices.DeleteFunc(m.Entries, func(f session.FileState) bool { return f.Inode == 0 })
	m.Dirs = slices.DeleteFunc(m.Dirs, func(f session.FileState) bool { return f.Inode == 0 })
	return m, err
}

// every lists all files by walking.
func (r *Root) every(ctx context.Context) (names []string, err error) {
	err = fs.WalkDir(r.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && name == ".":
			return failure(name, "listing", err)
		case err != nil:
			return nil
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case !d.IsDir():
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

// split cuts a path into directory and last component without cleaning it.
func split(name string) (dir, base string) {
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return ".", name
	}
	return name[:i], name[i+1:]
}

// sort puts the files of one directory side by side.
func (m *Manifest) sort() {
	slices.SortFunc(m.Entries, byFolder)
	m.Entries = slices.CompactFunc(m.Entries, func(a, b session.FileState) bool { return a.Path == b.Path })
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
	dir        *session.FileState
	from, upto int // of Entries
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

// inParallel calls do for each group until one fails or the context ends.
func inParallel(ctx context.Context, gs []group, do func(group) error) error {
	var next atomic.Int64
	var wait sync.WaitGroup
	errs := make([]error, min(runtime.GOMAXPROCS(0), len(gs)))
	for w := range errs {
		wait.Go(func() {
			for errs[w] == nil {
				i := int(next.Add(1)) - 1
				if i >= len(gs) {
					return
				}
				if errs[w] = do(gs[i]); errs[w] == nil && ctx.Err() != nil {
					errs[w] = context.Cause(ctx)
				}
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// scanGroup stats the files of one directory. What cannot be looked at stays without
// inode.
func (r *Root) scanGroup(ctx context.Context, m *Manifest, g group, plan named, before *Manifest) error {
	d, err := r.folder(g.dir.Path)
	if err != nil {
		return nil // it vanished, or is not ours to read
	}
	defer d.close()
	now := r.now()
	*g.dir = d.st.state(g.dir.Path, "", now)
	for i := g.from; i < g.upto; i++ {
		e := &m.Entries[i]
		_, base := split(e.Path)
		st, err := d.lstat(base)
		if err != nil || st.directory() {
			continue // vanished; or a submodule, which has a history of its own
		}
		*e = st.state(e.Path, "", now)
		if st.regular() && (e.Racy || plan.has(e.Path)) {
			*e = r.known(ctx, d, *e, before)
		}
	}
	return ctx.Err()
}

// known gives e with its hash, unless the file is too large or cannot be read.
func (r *Root) known(ctx context.Context, d *folder, e session.FileState, before *Manifest) session.FileState {
	if old := before.entry(e.Path); old != nil && old.Hash != "" && !old.Racy && *old == withHash(e, old.Hash) {
		return *old
	}
	if e.Size > maxHashed {
		return e
	}
	_, base := split(e.Path)
	if state, err := r.hashEntry(ctx, d, base, e.Path); err == nil {
		return state
	}
	return e
}

func withHash(f session.FileState, hash string) session.FileState {
	f.Hash = hash
	return f
}

// entry finds a file; nil: m, which may be nil, does not have it.
func (m *Manifest) entry(name string) *session.FileState {
	if m == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(m.Entries, session.FileState{Path: name}, byFolder)
	if !ok {
		return nil
	}
	return &m.Entries[i]
}

// hashEntry hashes a tracked file; further links are no reason not to look.
func (r *Root) hashEntry(ctx context.Context, d *folder, base, name string) (session.FileState, error) {
	f, _, err := d.open(base, ^uint64(0))
	if err != nil {
		return session.FileState{}, err
	}
	defer f.Close()
	state, _, err := r.hash(ctx, f, name)
	return state, err
}
