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

// compare gives what differs from old, as With takes it: files that are not as they were,
// and, where a directory changed, those that came; the files that plan names are looked
// at wherever they are. unchecked lists what could not be looked at, or what ctx left no
// time for.
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

// change says how now differs from was, of which nil says that it did not exist; ok is
// false where the content and the mode are known to be the same.
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

// changedAbove is when the directory that held a file changed, or the next one above that
// is left. When the file vanished is not known: it was then or earlier.
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

// examined is what was found in one directory.
type examined struct {
	done bool
	// that are not as they were; without an inode: gone
	dirs, files []session.FileState
	// files that could not be looked at
	failed []string
	// what lies there and m does not have
	news []string
}

// examine gives those directories and files of m that are not as m says. unchecked lists
// the files that could not be looked at, news what lies in directories that changed and m
// does not have.
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

// examineFolder looks at one directory of m and its files. It is not done where ctx ended
// first, or where the directory may not be read.
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

// lacks lists what lies in d and m does not have. A repository's own files come and go.
func (m *Manifest) lacks(d *folder) (names []string) {
	if slices.Contains(strings.Split(d.name, "/"), ".git") {
		return nil
	}
	entries, _ := d.f.ReadDir(-1) // what cannot be listed has no news
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

// refresh gives a file as it is now. It is hashed where its content must be known later,
// unless the hash that was says still holds, the file is too large, or it cannot be read.
func (r *Root) refresh(ctx context.Context, d *folder, was session.FileState, plan named) (session.FileState, error) {
	_, base := split(was.Path)
	st, err := d.lstat(base)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && st.directory(): // a submodule has a history of its own
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
	f, _, err := d.open(base, ^uint64(0)) // further links are no reason not to look
	if err != nil {
		return now, nil
	}
	defer f.Close()
	if state, _, err := r.hash(ctx, f, was.Path); err == nil {
		now = state
	}
	return now, ctx.Err()
}

// Watch follows a workspace from one look to the next, so that what a command changed is
// known when it ends. Its methods are called from one goroutine at a time.
type Watch struct {
	r    *Root
	plan named
	// the workspace as it was at the last look
	now *Manifest
	// directories that differ since the last difference that Look gave
	dirs map[string]session.FileState
}

// Watch begins with m, the workspace as it is now, of which Scan knew the planned paths.
func (r *Root) Watch(m *Manifest, planned []string) *Watch {
	return &Watch{r: r, plan: newNamed(planned), now: m, dirs: map[string]session.FileState{}}
}

// Look compares the workspace with the last look and gives the difference, to be kept
// beside the manifest that the Watch began with and the differences before this one; nil:
// no file differs. It costs a stat a file. A failure leaves the Watch where it was.
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

// State is the workspace as it was at the last look.
func (w *Watch) State() *Manifest { return w.now }

// With gives m as it is after diff, which Look gave.
func (m *Manifest) With(diff *Manifest) *Manifest {
	return &Manifest{Git: diff.Git, Entries: overlay(m.Entries, diff.Entries, byFolder), Dirs: overlay(m.Dirs, diff.Dirs, byPath)}
}

// overlay puts later over earlier states; both are sorted. A later one without inode is
// no more.
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
