package workspace

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/session"
)

// Compare lists what differs from old, sorted by path, with nothing said about what the
// session did: files modified, deleted and, by looking into the directories that changed,
// created. An entry without a hash counts as modified when its stat differs; one that was too
// large to be hashed and still has its size may have changed. When ctx
// ends first, unchecked lists the files that were not looked at, and the error is nil; so
// it does of a directory that may not be read.
func (r *Root) Compare(ctx context.Context, old *Manifest) (changed []session.ChangedFile, unchecked []string, err error) {
	return newComparison(r, old).run(ctx)
}

func newComparison(r *Root, old *Manifest) *comparison {
	c := &comparison{r: r, old: old, dirs: make(map[string]bool, len(old.Dirs))}
	for _, d := range old.Dirs {
		c.dirs[d.Path] = true
	}
	return c
}

func (c *comparison) run(ctx context.Context) (changed []session.ChangedFile, unchecked []string, err error) {
	groups := c.old.groups()
	done := make([]atomic.Bool, len(groups))
	index := make(map[*session.FileState]int, len(groups))
	for i, g := range groups {
		index[g.dir] = i
	}
	err = inParallel(ctx, groups, func(g group) error {
		err := c.group(ctx, g)
		if errors.Is(err, fs.ErrPermission) {
			return nil
		}
		done[index[g.dir]].Store(err == nil)
		return err
	})
	if err != nil && ctx.Err() == nil {
		return nil, nil, err
	}
	for i, g := range groups {
		for j := g.from; j < g.upto && !done[i].Load(); j++ {
			unchecked = append(unchecked, c.old.Entries[j].Path)
		}
	}
	unchecked = append(unchecked, c.created(ctx)...)
	slices.SortFunc(c.changed, func(a, b session.ChangedFile) int { return cmp.Compare(a.Path, b.Path) })
	slices.Sort(unchecked)
	return c.changed, unchecked, nil
}

// comparison is one Compare under way.
type comparison struct {
	r     *Root
	old   *Manifest
	dirs  map[string]bool
	watch *Watch // nil: nobody wants news

	mu      sync.Mutex
	changed []session.ChangedFile
	fresh   []found
	news    []update
}

// note keeps what differs for a Watch.
func (c *comparison) note(f session.FileState, dir bool) {
	if c.watch == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.news = append(c.news, update{f, dir})
}

// noteFolder notes a directory that is not as it was, or is new.
func (c *comparison) noteFolder(d *folder, was session.FileState) {
	if c.watch != nil && (was.Racy || !d.st.matches(was)) {
		c.note(d.st.state(d.name, "", c.r.now()), true)
	}
}

// noteAbove notes the new directories that lead to a new file, each once.
func (c *comparison) noteAbove(name string) {
	for dir := path.Dir(name); c.watch != nil && !c.dirs[dir]; dir = path.Dir(dir) {
		c.dirs[dir] = true
		if d, err := c.r.folder(dir); err == nil {
			c.noteFolder(d, session.FileState{})
			d.close()
		}
	}
}

// noteFile notes a file that is not as it was, or is new. It is hashed where its content must be
// known later.
func (c *comparison) noteFile(ctx context.Context, d *folder, name string, st stat, was session.FileState) {
	if c.watch == nil {
		return
	}
	f := st.state(name, "", c.r.now())
	if st.regular() && (f.Racy || was.Hash != "" || c.watch.plan.has(name)) {
		f = c.r.known(ctx, d, f, nil)
	}
	c.note(f, false)
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
		c.note(session.FileState{Path: g.dir.Path}, true)
	} else {
		defer d.close()
		c.noteFolder(d, *g.dir)
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
	if d == nil {
		return c.gone(e), nil
	}
	_, base := split(e.Path)
	st, err := d.lstat(base)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && st.directory():
		return c.gone(e), nil
	case err != nil:
		return nil, failure(e.Path, "looking at it", err)
	case st.matches(*e) && (!e.Racy || e.Hash == ""):
		return nil, nil
	}
	c.noteFile(ctx, d, e.Path, st, *e)
	now := session.ChangedFile{Path: e.Path, Kind: session.FileModified, Old: e.Hash, Size: st.size, MTimeNS: st.mtime, CTimeNS: st.ctime}
	if e.Hash == "" && e.Size > maxHashed && st.regular() && st.size == e.Size {
		now.Kind = session.FileUnsure
	}
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

// gone tells of a file that is no more. When it vanished is not known; the directory that held it, or
// the next one above that is left, changed then or later.
func (c *comparison) gone(e *session.FileState) *session.ChangedFile {
	c.note(session.FileState{Path: e.Path}, false)
	change := &session.ChangedFile{Path: e.Path, Kind: session.FileDeleted, Old: e.Hash}
	for dir := path.Dir(e.Path); ; dir = path.Dir(dir) {
		if d, err := c.r.folder(dir); err == nil {
			change.CTimeNS = d.st.mtime
			d.close()
			return change
		}
		if dir == "." {
			return change
		}
	}
}

// newNames lists what lies in a directory and not in the manifest, if anything came or
// went there.
func (c *comparison) newNames(d *folder, g group) (fresh []found) {
	if d == nil || d.st.matches(*g.dir) && !g.dir.Racy || inGit(g.dir.Path) {
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
		if e.IsDir() {
			ok = c.dirs[name]
		}
		if !ok && e.Name() != ".git" {
			fresh = append(fresh, found{name, e.IsDir()})
		}
	}
	return fresh
}

// inGit reports whether dir belongs to a repository itself: a remaining step names a file in it.
func inGit(dir string) bool { return slices.Contains(strings.Split(dir, "/"), ".git") }

// created turns new names into created files, level by level, without what git ignores.
// It gives the names that it had no time for.
func (c *comparison) created(ctx context.Context) (unchecked []string) {
	for level := c.fresh; len(level) > 0; {
		if ctx.Err() != nil {
			for _, f := range level {
				unchecked = append(unchecked, f.name)
			}
			return unchecked
		}
		if c.old.Git {
			level = c.r.repository().notIgnored(ctx, level)
		}
		var below []found
		for _, f := range level {
			if f.dir {
				below = append(below, c.below(f.name)...)
			} else {
				c.add(ctx, f.name)
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

func (c *comparison) add(ctx context.Context, name string) {
	if temporary(name) {
		return
	}
	d, err := c.r.folder(path.Dir(name))
	if err != nil {
		return
	}
	defer d.close()
	st, err := d.lstat(path.Base(name))
	if err != nil || c.old.Git && !st.regular() && !st.link() { // which git never lists: it may have been there
		return
	}
	c.noteFile(ctx, d, name, st, session.FileState{})
	c.noteAbove(name)
	c.changed = append(c.changed, session.ChangedFile{Path: name, Kind: session.FileCreated, Size: st.size, MTimeNS: st.mtime, CTimeNS: st.ctime})
}
