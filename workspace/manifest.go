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

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/session"
)

// Manifest is the tracked files of a workspace as they were at one moment. To make one costs
// a stat a file: entries have no hash, and a later difference of the stat counts as modified
// without comparing content, except for files touched so recently that their times could hide
// a change; those are hashed. What a session reads and writes is known exactly, by FileStates
// of its own.
type Manifest struct {
	AtNS    int64 // when the scan began
	Git     bool  // git chose the files: tracked ones, and untracked ones that are not ignored
	Entries []session.FileState
	Dirs    []session.FileState // all directories above entries; their times tell where files came
}

// Scan makes the manifest of the workspace: the files that git lists (tracked, or untracked
// and not ignored) when it is there and the workspace is a repository, else every file outside
// .git. workers is how many directories are looked at at a time; 0 means one a processor.
// Files that vanish meanwhile are left out.
func (r *Root) Scan(ctx context.Context, workers int) (*Manifest, error) {
	m := &Manifest{AtNS: r.now().UnixNano()}
	names, err := listed(ctx, r.dir)
	m.Git = err == nil
	if err != nil {
		if names, err = r.every(ctx); err != nil {
			return nil, err
		}
	}
	m.Entries = make([]session.FileState, len(names))
	for i, name := range names {
		m.Entries[i].Path = name
	}
	m.sort()
	m.Dirs = ancestors(m.Entries)
	err = inParallel(ctx, workers, m.groups(), func(g group) error { return r.scanGroup(ctx, m, g) })
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
	slices.SortFunc(m.Entries, func(a, b session.FileState) int {
		aDir, aBase := split(a.Path)
		bDir, bBase := split(b.Path)
		return cmp.Or(cmp.Compare(aDir, bDir), cmp.Compare(aBase, bBase))
	})
	m.Entries = slices.CompactFunc(m.Entries, func(a, b session.FileState) bool { return a.Path == b.Path })
}

// ancestors lists every directory that sorted entries lie below, sorted, the root included.
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
	slices.SortFunc(dirs, func(a, b session.FileState) int { return cmp.Compare(a.Path, b.Path) })
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
func inParallel(ctx context.Context, workers int, gs []group, do func(group) error) error {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var next atomic.Int64
	var wait sync.WaitGroup
	errs := make([]error, min(workers, len(gs)))
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

// scanGroup stats the files of one directory. What cannot be looked at stays without inode.
func (r *Root) scanGroup(ctx context.Context, m *Manifest, g group) error {
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
		if !e.Racy || !st.regular() {
			continue
		}
		if state, err := r.hashEntry(ctx, d, base, e.Path); err == nil {
			*e = state
		}
	}
	return ctx.Err()
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

// Compare lists what differs from old, sorted by path, with nothing said about what the
// session did: files modified, deleted and, by looking into the directories that changed,
// created. An entry without a hash counts as modified when its stat differs. When ctx ends
// first, unchecked lists the files that were not looked at, and the error is nil.
func (r *Root) Compare(ctx context.Context, old *Manifest) (changed []session.ChangedFile, unchecked []string, err error) {
	c := comparison{r: r, old: old, dirs: make(map[string]bool, len(old.Dirs))}
	for _, d := range old.Dirs {
		c.dirs[d.Path] = true
	}
	groups := old.groups()
	done := make([]atomic.Bool, len(groups))
	index := make(map[*session.FileState]int, len(groups))
	for i, g := range groups {
		index[g.dir] = i
	}
	err = inParallel(ctx, 0, groups, func(g group) error {
		if err := c.group(ctx, g); err != nil {
			return err
		}
		done[index[g.dir]].Store(true)
		return nil
	})
	if err != nil && ctx.Err() == nil {
		return nil, nil, err
	}
	for i, g := range groups {
		for j := g.from; j < g.upto && !done[i].Load(); j++ {
			unchecked = append(unchecked, old.Entries[j].Path)
		}
	}
	unchecked = append(unchecked, c.created(ctx)...)
	slices.SortFunc(c.changed, func(a, b session.ChangedFile) int { return cmp.Compare(a.Path, b.Path) })
	slices.Sort(unchecked)
	return c.changed, unchecked, nil
}

// comparison is one Compare under way.
type comparison struct {
	r    *Root
	old  *Manifest
	dirs map[string]bool

	mu      sync.Mutex
	changed []session.ChangedFile
	fresh   []found
}

// found is a name that the manifest does not have.
type found struct {
	name string
	dir  bool
}

// group compares one directory; what it found counts only when it was finished.
func (c *comparison) group(ctx context.Context, g group) error {
	d, err := c.r.folder(g.dir.Path)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && !passedOver(err) && !errors.Is(err, unix.ENOTDIR) {
			return failure(g.dir.Path, "looking at the directory", err)
		}
		d = nil
	} else {
		defer d.close()
	}
	var changed []session.ChangedFile
	for i := g.from; i < g.upto; i++ {
		f, err := c.entry(ctx, d, &c.old.Entries[i])
		if err != nil {
			return err
		}
		if f != nil {
			changed = append(changed, *f)
		}
		if i%64 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	fresh := c.newNames(d, g)
	if len(changed)+len(fresh) > 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changed = append(c.changed, changed...)
		c.fresh = append(c.fresh, fresh...)
	}
	return nil
}

// entry compares one file; nil means that it is as it was.
func (c *comparison) entry(ctx context.Context, d *folder, e *session.FileState) (*session.ChangedFile, error) {
	gone := session.ChangedFile{Path: e.Path, Kind: session.FileDeleted, Old: e.Hash}
	if d == nil {
		return &gone, nil
	}
	_, base := split(e.Path)
	st, err := d.lstat(base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &gone, nil
	case err != nil:
		return nil, failure(e.Path, "looking at it", err)
	case st.matches(*e) && (!e.Racy || e.Hash == ""):
		return nil, nil
	}
	now := session.ChangedFile{Path: e.Path, Kind: session.FileModified, Old: e.Hash, Size: st.size, MTimeNS: st.mtime}
	if e.Hash == "" || !st.regular() {
		return &now, nil
	}
	state, err := c.r.hashEntry(ctx, d, base, e.Path)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err == nil && state.Hash == e.Hash && state.Mode == e.Mode {
		return nil, nil
	}
	now.New = state.Hash
	return &now, nil
}

// newNames lists what lies in a directory and not in the manifest, if anything came or went
// there.
func (c *comparison) newNames(d *folder, g group) (fresh []found) {
	if d == nil || d.st.matches(*g.dir) && !g.dir.Racy {
		return nil
	}
	entries, err := d.f.ReadDir(-1)
	if err != nil {
		return nil
	}
	known := c.old.Entries[g.from:g.upto]
	for _, e := range entries {
		name := path.Join(g.dir.Path, e.Name())
		_, ok := slices.BinarySearchFunc(known, e.Name(), func(f session.FileState, base string) int {
			_, b := split(f.Path)
			return cmp.Compare(b, base)
		})
		if !ok && e.Name() != ".git" && !(e.IsDir() && c.dirs[name]) {
			fresh = append(fresh, found{name, e.IsDir()})
		}
	}
	return fresh
}

// created turns new names into created files, level by level, without what git ignores. It
// gives the names that it had no time for.
func (c *comparison) created(ctx context.Context) (unchecked []string) {
	for level := c.fresh; len(level) > 0; {
		if ctx.Err() != nil {
			for _, f := range level {
				unchecked = append(unchecked, f.name)
			}
			return unchecked
		}
		if c.old.Git {
			level = notIgnored(ctx, c.r.dir, level)
		}
		var below []found
		for _, f := range level {
			if f.dir {
				below = append(below, c.below(f.name)...)
			} else {
				c.add(f.name)
			}
		}
		level = below
	}
	return nil
}

// below lists a new directory, unless it is a repository of its own.
func (c *comparison) below(dir string) (names []found) {
	entries, err := fs.ReadDir(c.r.root.FS(), dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if e.Name() == ".git" {
			return nil
		}
		names = append(names, found{path.Join(dir, e.Name()), e.IsDir()})
	}
	return names
}

func (c *comparison) add(name string) {
	info, err := c.r.root.Lstat(name)
	if err != nil {
		return
	}
	c.changed = append(c.changed, session.ChangedFile{Path: name, Kind: session.FileCreated, Size: info.Size(), MTimeNS: info.ModTime().UnixNano()})
}
