package workspace

import (
	"context"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/session"
)

const (
	// mostWalked is how many directories are searched for protected names, those nearest
	// to the root first. The protected directories themselves are always read.
	mostWalked = 4096
	// mostFollowed is how many links one path may lead through.
	mostFollowed = 40
)

// guard remembers the last search for protected paths.
type guard struct {
	mu sync.Mutex
	// the directories that were searched, by path
	listings map[string]listing
	// the protected files, by path
	files map[string]session.FileState
	// paths to which protected links lead; nil before the first search
	targets map[string]bool
}

// listing holds the names in a directory that matter for the search.
type listing struct {
	st stat
	// directories to search, and names that begin a protected path
	dirs, hits []string
}

// Guarded returns the present state of all protected paths, sorted by path. A directory
// that disappears meanwhile, or that may not be read, is left out.
func (r *Root) Guarded(ctx context.Context) ([]session.Guarded, error) {
	r.guard.mu.Lock()
	defer r.guard.mu.Unlock()
	return r.guarded(ctx, nil)
}

// guarded is Guarded after a command. was is the state before it, nil for none: links
// that were not there then are not followed.
func (r *Root) guarded(ctx context.Context, was map[string]session.Guarded) ([]session.Guarded, error) {
	top, err := r.folder(".")
	if err != nil {
		return nil, failure(".", "looking at the protected paths", err)
	}
	defer top.close()
	s := &search{r: r, ctx: ctx, top: top, was: was, found: map[string]session.Guarded{}, listings: map[string]listing{}, files: map[string]session.FileState{}, targets: map[string]bool{}}
	s.walk()
	s.again()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r.guard.listings, r.guard.files, r.guard.targets = s.listings, s.files, s.targets
	out := make([]session.Guarded, 0, len(s.found))
	for _, g := range s.found {
		out = append(out, g)
	}
	slices.SortFunc(out, byGuarded)
	return out, nil
}

func byGuarded(a, b session.Guarded) int { return strings.Compare(a.Path, b.Path) }

// GuardedAt returns the present states of paths, in their order. A path that a link leads
// to is absent.
func (r *Root) GuardedAt(ctx context.Context, paths []string) []session.Guarded {
	r.guard.mu.Lock()
	defer r.guard.mu.Unlock()
	s := &search{r: r, ctx: ctx, found: map[string]session.Guarded{}, files: map[string]session.FileState{}}
	out := make([]session.Guarded, len(paths))
	for i, name := range paths {
		out[i] = session.Guarded{Path: name, Kind: session.GuardAbsent}
		if !r.isDirectory(path.Dir(name)) {
			continue
		}
		if st, err := r.lstat(name); err == nil {
			s.add(name, st, "")
			out[i] = s.found[name]
		}
	}
	return out
}

// search is one search for protected paths.
type search struct {
	r   *Root
	ctx context.Context
	top *folder
	was map[string]session.Guarded
	// directories to search, nearest to the root first
	queue []string
	found map[string]session.Guarded

	listings map[string]listing
	files    map[string]session.FileState
	targets  map[string]bool
}

func (s *search) walk() {
	for s.queue = []string{"."}; len(s.queue) > 0 && s.ctx.Err() == nil; s.queue = s.queue[1:] {
		dir := s.queue[0]
		if len(s.listings) >= mostWalked {
			s.found["."] = session.Guarded{Path: ".", Kind: session.GuardUnchecked}
			return
		}
		l, ok := s.list(dir)
		if !ok {
			continue
		}
		for _, name := range l.hits {
			s.enter(path.Join(dir, name), begin(protectedNames(), folded(name)), dir)
		}
		for _, name := range l.dirs {
			s.queue = append(s.queue, path.Join(dir, name))
		}
	}
}

// again looks at the paths that were protected before. A link that led to one may lead
// elsewhere now.
func (s *search) again() {
	for name, g := range s.was {
		if _, found := s.found[name]; found || s.ctx.Err() != nil {
			continue
		}
		st, err := s.lstat(name)
		if real, rerr := s.r.resolve(path.Dir(name)); err == nil && rerr == nil && real == path.Dir(name) {
			s.add(name, st, g.Under)
		}
	}
}

// list returns what matters in a directory. It reads the directory only if that changed.
func (s *search) list(dir string) (listing, bool) {
	st, err := s.lstat(dir)
	if err != nil || !st.directory() {
		return listing{}, false
	}
	if known, ok := s.r.guard.listings[dir]; ok && known.st == st {
		s.listings[dir] = known
		return known, true
	}
	l := listing{st: st}
	for _, e := range s.children(dir) {
		name := e.Name()
		rests := begin(protectedNames(), folded(name))
		if len(rests) > 0 {
			l.hits = append(l.hits, name)
		}
		if e.IsDir() && !whole(rests) && folded(name) != gitName && name != "node_modules" {
			l.dirs = append(l.dirs, name)
		}
	}
	if st.racy(s.r.now()) {
		st = stat{}
	}
	s.listings[dir] = listing{st, l.dirs, l.hits}
	return l, true
}

// lstat examines a path without opening the directories above it. A link among them can
// lead outside, but then the result differs from that of an earlier search.
func (s *search) lstat(name string) (stat, error) {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstatat(s.top.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return fromUnix(&st), err
}

// children lists a directory, sorted by name.
func (s *search) children(dir string) []fs.DirEntry {
	d, err := s.r.folder(dir)
	if err != nil {
		return nil // it has just disappeared, or may not be read
	}
	defer d.close()
	entries, _ := d.f.ReadDir(-1) // the same
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return temporary(e.Name()) })
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries
}

// enter looks at a path that begins patterns, whose rests are given.
func (s *search) enter(name string, rests [][]string, under string) {
	st, err := s.lstat(name)
	switch {
	case err != nil:
	case whole(rests):
		s.collect(name, under)
	case !st.directory():
		// it takes the place of a directory above protected paths
		s.add(name, st, under)
		if to := s.leads(name, st); to != "" {
			s.enter(to, rests, path.Dir(to))
		}
	default:
		for _, e := range s.children(name) {
			if more := begin(rests, folded(e.Name())); len(more) > 0 {
				s.enter(path.Join(name, e.Name()), more, under)
			}
		}
		if folded(path.Base(name)) == gitName {
			s.repositories(name, rests)
		}
	}
}

// repositories looks at the git directories of submodules and at those of work trees in a
// git directory.
func (s *search) repositories(dir string, rests [][]string) {
	for _, e := range s.children(dir) {
		name := path.Join(dir, e.Name())
		switch folded(e.Name()) {
		case modulesName:
			s.modules(name, rests)
		case worktreesName:
			for _, tree := range s.children(name) {
				s.enter(path.Join(name, tree.Name()), rests, path.Join(name, tree.Name()))
			}
		}
	}
}

// modules looks at the git directories below dir. Each has a file HEAD.
func (s *search) modules(dir string, rests [][]string) {
	for _, e := range s.children(dir) {
		name := path.Join(dir, e.Name())
		if !e.IsDir() {
			continue
		}
		if _, err := s.lstat(path.Join(name, headName)); err != nil {
			s.modules(name, rests)
			continue
		}
		s.enter(name, rests, name)
		s.repositories(name, rests)
	}
}

// collect adds a protected path with everything in it, and what it leads to.
func (s *search) collect(name, under string) {
	st, err := s.lstat(name)
	if _, known := s.found[name]; err != nil || known {
		return
	}
	s.add(name, st, under)
	if to := s.leads(name, st); to != "" {
		s.collect(to, path.Dir(to))
	}
	if !st.directory() {
		return
	}
	for _, e := range s.children(name) {
		child := path.Join(name, e.Name())
		switch {
		case exempt(name, e.Name()):
		case e.IsDir() && folded(path.Base(name)) == claudeName && folded(e.Name()) == worktreesName:
			s.queue = append(s.queue, child)
		default:
			s.collect(child, under)
		}
	}
}

// leads returns the path inside the workspace to which a link leads. It returns "" if
// name is no link, or leads elsewhere.
func (s *search) leads(name string, st stat) string {
	if !st.symlink() || s.was != nil && s.was[name].Target != s.found[name].Target {
		return ""
	}
	to, err := s.r.resolve(name)
	if err != nil || to == "." {
		return ""
	}
	s.targets[to] = true
	return to
}

// add records the state of a path.
func (s *search) add(name string, st stat, under string) {
	g := session.Guarded{Path: name, Kind: session.GuardOther, Mode: st.perm(), Under: under}
	switch {
	case st.directory():
		g.Kind = session.GuardDirectory
	case st.symlink():
		g.Kind, g.Mode = session.GuardLink, 0
		g.Target, _ = s.r.root.Readlink(name) // a link that has just changed has no target
	case st.regular():
		f := s.file(name, st)
		g.Kind, g.Size, g.Mode, g.Hash = session.GuardFile, f.Size, f.Mode, f.Hash
	}
	s.found[name] = g
}

// file returns the state of a protected file. It reads the file only if that changed. The
// file may have several names.
func (s *search) file(name string, st stat) session.FileState {
	was, known := s.r.guard.files[name]
	if known && !was.Racy && st.matches(was) {
		s.files[name] = was
		return was
	}
	now := st.state(name, "", s.r.now())
	f, err := s.r.protectedFile(name)
	if err != nil {
		return now
	}
	defer f.Close()
	if state, _, err := s.r.hash(s.ctx, f, name); err == nil {
		now = state
		s.files[name] = now
	}
	return now
}

// protectedFile opens a regular file that may have several names.
func (r *Root) protectedFile(name string) (*os.File, error) {
	d, err := r.folder(path.Dir(name))
	if err != nil {
		return nil, err
	}
	defer d.close()
	f, _, err := d.open(path.Base(name), ^uint64(0))
	return f, err
}

// resolve returns the path of name without links. Parts that do not exist stay as they
// are. It returns ErrEscape for a path that leads outside.
func (r *Root) resolve(name string) (string, error) {
	at, rest := ".", strings.Split(name, "/")
	for follows := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		if part == ".." && at == "." {
			return "", escape(name, "the path leads out of the workspace")
		}
		next := path.Join(at, part)
		target, err := r.root.Readlink(next)
		if err != nil { // it is no link
			at = next
			continue
		}
		if follows++; follows > mostFollowed {
			return "", escape(name, "the path leads through too many links")
		}
		if path.IsAbs(target) {
			if target, err = below(r.dir, target); err != nil {
				return "", escape(name, "the path leads out of the workspace")
			}
			at = "."
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return at, nil
}

// below returns an absolute path relative to dir.
func below(dir, name string) (string, error) {
	name = path.Clean(name)
	if name == dir {
		return ".", nil
	}
	if rel, ok := strings.CutPrefix(name, strings.TrimSuffix(dir, "/")+"/"); ok {
		return rel, nil
	}
	return "", fs.ErrInvalid
}

// CheckProtected returns ErrDenied if an attempt that Prepare worked out would change a
// protected path. It returns ErrFileChanged if the path of a directory has changed since.
func (r *Root) CheckProtected(ctx context.Context, key string) error {
	r.mu.Lock()
	p := r.prepared[key]
	r.mu.Unlock()
	r.guard.mu.Lock()
	defer r.guard.mu.Unlock()
	if r.guard.targets == nil {
		if _, err := r.guarded(ctx, nil); err != nil {
			return err
		}
	}
	for _, n := range p.nodes {
		if err := r.checkProtected(n); err != nil {
			return err
		}
	}
	return nil
}

func (r *Root) checkProtected(n *node) error {
	dir, err := r.resolve(path.Dir(n.path))
	if err != nil {
		return err
	}
	if n.dir != nil {
		real, err := r.folder(dir)
		if err != nil {
			return failure(n.path, "looking at its directory", err)
		}
		defer real.close()
		if !real.st.sameFile(n.dir.st) {
			return fileChanged(n.path, "its directory was replaced")
		}
	}
	name := path.Join(dir, path.Base(n.path))
	led := r.guard.targets[name]
	for at := dir; at != "." && !led; at = path.Dir(at) {
		led = r.guard.targets[at]
	}
	if !led && !protects(name) {
		return nil
	}
	return &session.Error{Code: session.ErrDenied, Place: n.path, Message: "other programs execute or trust this path, so an agent may not change it; nothing was changed",
		Next: session.Words("leave it as it is; a person can make this change")}
}
