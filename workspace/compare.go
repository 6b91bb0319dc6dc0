package workspace

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/session"
)

// compare returns the differences from old, in the form of With. These are files that
// changed and, where a directory changed, new files. compare looks at the files that
// plan names wherever they are. unchecked lists the files that could not be examined,
// or that ctx left no time for.
func (r *Root) compare(ctx context.Context, old *Manifest, plan named) (diff *Manifest, unchecked []string, err error) {
	diff, unchecked, news := r.examine(ctx, old, plan)
	names := plan.files()
	if len(news) > 0 {
		listed, _, err := r.list(ctx, old.Git, news)
		if err != nil && ctx.Err() == nil {
			return nil, nil, err
		}
		names = append(names, listed...)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return old.entry(name) != nil })
	if len(names) == 0 {
		return diff, unchecked, nil
	}
	more, rest, _ := r.examine(ctx, newManifest(names, old.Git), plan)
	diff.Entries = append(diff.Entries, more.Entries...)
	slices.SortFunc(diff.Entries, byFolder)
	diff.Dirs = append(diff.Dirs, slices.DeleteFunc(more.Dirs, func(d session.FileState) bool { return old.hasDir(d.Path) })...)
	slices.SortFunc(diff.Dirs, byPath)
	return diff, append(unchecked, rest...), nil
}

// change describes how now differs from was. A nil was means that the file did not
// exist. ok is false if the content and the mode are known to be the same.
func (r *Root) change(was *session.FileState, now session.FileState) (c session.ChangedFile, ok bool) {
	c = session.ChangedFile{Path: now.Path, Kind: session.FileModified, Size: now.Size, MTimeNS: now.MTimeNS, CTimeNS: now.CTimeNS}
	if was == nil {
		c.Kind = session.FileCreated
		return c, true
	}
	c.Old = was.Hash
	switch {
	case now.Inode == 0:
		c.Kind, c.CTimeNS = session.FileDeleted, r.changedAbove(now.Path)
	case was.Hash == "" && was.Size > maxHashed && now.Size == was.Size:
		c.Kind = session.FileUnsure
	case was.Hash != "":
		c.New = now.Hash
	}
	return c, was.Hash == "" || now.Hash != was.Hash || now.Mode != was.Mode
}

// changedAbove returns the time, in nanoseconds, when the directory that held a file
// changed. If that directory is gone, it is the time of the next one above. The file
// disappeared at that time or earlier.
func (r *Root) changedAbove(name string) int64 {
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		if info, err := r.root.Stat(dir); err == nil {
			return info.ModTime().UnixNano()
		}
		if dir == "." {
			return 0
		}
	}
}

// examined is the result for one directory.
type examined struct {
	done bool
	// dirs and files have changed; those without an inode are gone.
	dirs, files []session.FileState
	// failed lists the files that could not be examined.
	failed []string
	// news lists the names in the directory that m does not have.
	news []string
}

// examine returns the directories and files of m that differ from m. unchecked lists
// the files that could not be examined. news lists the names in changed directories
// that m does not have.
func (r *Root) examine(ctx context.Context, m *Manifest, plan named) (diff *Manifest, unchecked, news []string) {
	groups := m.groups()
	found := make([]examined, len(groups))
	inParallel(ctx, len(groups), func(i int) { found[i] = r.examineFolder(ctx, m, groups[i], plan) })
	diff = &Manifest{Git: m.Git}
	for i, l := range found {
		if !l.done {
			for _, f := range m.Entries[groups[i].from:groups[i].upto] {
				unchecked = append(unchecked, f.Path)
			}
			continue
		}
		diff.Dirs = append(diff.Dirs, l.dirs...)
		diff.Entries = append(diff.Entries, l.files...)
		unchecked = append(unchecked, l.failed...)
		news = append(news, l.news...)
	}
	return diff, unchecked, news
}

// examineFolder looks at one directory of m and its files. done is false if ctx ended
// first or the directory may not be read.
func (r *Root) examineFolder(ctx context.Context, m *Manifest, g group, plan named) (l examined) {
	now := session.FileState{Path: g.dir.Path}
	d, err := r.folder(g.dir.Path)
	switch {
	case err == nil:
		defer d.close()
		now = d.st.state(now.Path, "", r.now())
	case !passedOver(err) && !errors.Is(err, unix.ENOTDIR):
		return examined{}
	}
	if now != *g.dir {
		l.dirs = append(l.dirs, now)
	}
	for i, was := range m.Entries[g.from:g.upto] {
		if i%64 == 0 && ctx.Err() != nil {
			return examined{}
		}
		f := session.FileState{Path: was.Path}
		if d != nil {
			f, err = r.refresh(ctx, d, was, plan)
		}
		switch {
		case d != nil && err != nil:
			l.failed = append(l.failed, was.Path)
		case f != was:
			l.files = append(l.files, f)
		}
	}
	if d != nil && g.dir.Inode != 0 && (now.Racy || now != *g.dir) {
		l.news = m.lacks(d)
	}
	l.done = ctx.Err() == nil
	return l
}

// lacks returns the names in d that m does not have. It returns none inside .git, whose
// files change all the time.
func (m *Manifest) lacks(d *folder) (names []string) {
	if slices.Contains(strings.Split(d.name, "/"), ".git") {
		return nil
	}
	// a directory that cannot be listed has no news
	entries, _ := d.f.ReadDir(-1)
	for _, e := range entries {
		name := path.Join(d.name, e.Name())
		known := m.entry(name) != nil
		if e.IsDir() {
			known = m.hasDir(name)
		}
		if !known && e.Name() != ".git" {
			names = append(names, name)
		}
	}
	return names
}

// refresh returns the current state of a file. It hashes the file if its content must
// be known later. It does not if the hash of was still holds, the file is too large, or
// it cannot be read.
func (r *Root) refresh(ctx context.Context, d *folder, was session.FileState, plan named) (session.FileState, error) {
	_, base := split(was.Path)
	st, err := d.lstat(base)
	switch {
	// a submodule has a history of its own
	case errors.Is(err, fs.ErrNotExist), err == nil && st.directory():
		return session.FileState{Path: was.Path}, nil
	case err != nil:
		return was, err
	case st.matches(was) && (!was.Racy || was.Hash == ""):
		return was, nil
	}
	now := st.state(was.Path, "", r.now())
	if !st.regular() || st.size > maxHashed || !now.Racy && was.Hash == "" && !plan.has(was.Path) {
		return now, nil
	}
	// the file is examined even if it has more hard links
	f, _, err := d.open(base, ^uint64(0))
	if err != nil {
		return now, nil
	}
	defer f.Close()
	if state, _, err := r.hash(ctx, f, was.Path); err == nil {
		now = state
	}
	return now, ctx.Err()
}

// Watch follows a workspace from one look to the next, so that the changes of a command
// are known when it ends. Its methods are called from one goroutine at a time.
type Watch struct {
	r    *Root
	plan named
	// now is the workspace at the last look.
	now *Manifest
	// dirs holds the directories that changed since Look last returned a difference.
	dirs map[string]session.FileState
}

// Watch returns a Watch that starts with m, the current state of the workspace. m was
// made by a Scan with the same planned paths.
func (r *Root) Watch(m *Manifest, planned []string) *Watch {
	return &Watch{r: r, plan: newNamed(planned), now: m, dirs: map[string]session.FileState{}}
}

// Look compares the workspace with the last look and returns the difference, or nil if
// no file differs. The caller keeps it with the Watch's first manifest and the
// differences before this one. Look costs one stat for each file. After a failure the
// Watch is unchanged.
func (w *Watch) Look(ctx context.Context) (*Manifest, error) {
	diff, _, err := w.r.compare(ctx, w.now, w.plan)
	if err != nil || ctx.Err() != nil {
		return nil, cmp.Or(err, context.Cause(ctx))
	}
	w.now = w.now.With(diff)
	for _, d := range diff.Dirs {
		w.dirs[d.Path] = d
	}
	if len(diff.Entries) == 0 {
		return nil, nil
	}
	diff.Dirs = slices.SortedFunc(maps.Values(w.dirs), byPath)
	clear(w.dirs)
	return diff, nil
}

// State returns the workspace as it was at the last look.
func (w *Watch) State() *Manifest { return w.now }

// With returns m changed by diff, which Look returned.
func (m *Manifest) With(diff *Manifest) *Manifest {
	return &Manifest{Git: diff.Git, Entries: overlay(m.Entries, diff.Entries, byFolder), Dirs: overlay(m.Dirs, diff.Dirs, byPath)}
}

// overlay replaces earlier states by later ones. Both lists are sorted. A later state
// without an inode removes the earlier one.
func overlay(earlier, later []session.FileState, order func(a, b session.FileState) int) []session.FileState {
	out := make([]session.FileState, 0, len(earlier)+len(later))
	for _, l := range later {
		n := 0
		for n < len(earlier) && order(earlier[n], l) < 0 {
			n++
		}
		out = append(out, earlier[:n]...)
		if earlier = earlier[n:]; len(earlier) > 0 && order(earlier[0], l) == 0 {
			earlier = earlier[1:]
		}
		if l.Inode != 0 {
			out = append(out, l)
		}
	}
	return append(out, earlier...)
}

func byPath(a, b session.FileState) int { return strings.Compare(a.Path, b.Path) }
