package workspace

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/acode-dev/acode/session"
)

// Changes returns, sorted by path, the differences from the state that the session knew
// (FR-039 to FR-045). It looks at the files that the session read or wrote, at the
// paths that its remaining steps name, and at the other tracked files of the manifest.
// plannedPaths has patterns as Read takes them, which Scan must have known too.
// manifest may be nil.
//
// A changed or missing file of the first two kinds asks. A file with only another mode
// or other times does not ask, and no other file does. The content of a file above 64
// MiB that a step names is not known. Another size of it asks, and other times ask as
// session.FileUnsure.
//
// If ctx ends by its deadline, unchecked lists the paths that were not examined,
// sorted, and the error is nil. Files that cannot be read are in unchecked as well.
func (r *Root) Changes(ctx context.Context, files []session.FileState, plannedPaths []string, manifest *Manifest) (changed []session.ChangedFile, unchecked []string, err error) {
	own := make(map[string]bool, len(files))
	plan := newNamed(plannedPaths)
	needed := sync.OnceValue(func() map[string]bool { return plan.folders(files) })
	var last glance
	defer last.close()
	for _, f := range files {
		own[f.Path] = true
		// its mode cannot have changed either, so it can still be read
		if r.unmoved(&last, f) {
			continue
		}
		c, err := r.changedSince(ctx, f, needed)
		switch {
		case err != nil:
			unchecked = append(unchecked, f.Path)
		case c != nil:
			changed = append(changed, *c)
		}
	}
	if manifest != nil {
		diff, rest, err := r.compare(ctx, manifest, plan)
		if err != nil {
			return nil, nil, err
		}
		unchecked = append(unchecked, slices.DeleteFunc(rest, func(p string) bool { return own[p] })...)
		for _, f := range diff.Entries {
			c, differs := r.change(manifest.entry(f.Path), f)
			if own[f.Path] || !differs {
				continue
			}
			if plan.has(c.Path) {
				c.Session, c.Asks = session.FilePlanned, c.Old == "" || c.Old != c.New
			}
			c.Path = strings.ToValidUTF8(c.Path, "�")
			changed = append(changed, c)
		}
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, nil, context.Cause(ctx)
	}
	slices.SortFunc(changed, func(a, b session.ChangedFile) int { return cmp.Compare(a.Path, b.Path) })
	slices.Sort(unchecked)
	return changed, unchecked, nil
}

// changedSince compares one file that the session read or wrote. needed gives the
// changedSince compares one file that the session read or wrote. needed returns the
// directories that the session's other files and its remaining steps need.
func (r *Root) changedSince(ctx context.Context, f session.FileState, needed func() map[string]bool) (*session.ChangedFile, error) {
	now, err := r.stat(ctx, f)
	if err != nil {
		return nil, err
	}
	c := session.ChangedFile{Path: f.Path, Kind: session.FileModified, Old: f.Hash, New: now.Hash,
		Size: now.Size, MTimeNS: now.MTimeNS, CTimeNS: now.CTimeNS, Session: session.FileRead, Asks: now.Hash != f.Hash}
	if f.Wrote {
		c.Session = session.FileWrote
	}
	switch {
	case now.Hash == "" && now.Inode != 0:
		if f.Hash == "" && r.knownIrregular(f, needed()[f.Path]) {
			return nil, nil
		}
		// the path holds something that is not a regular file
		c.Asks = true
	case now.Hash == f.Hash && (now.Mode == f.Mode || f.Hash == ""):
		return nil, nil
	case now.Hash == "":
		c.Kind = session.FileDeleted
	case f.Hash == "":
		c.Kind = session.FileCreated
	}
	return &c, nil
}

// knownIrregular reports whether the path of f still holds the irregular file that f
// describes. If f describes an absent file, knownIrregular is true for a needed
// directory: a step that writes below it has made it, and no receipt names directories.
// The files below a directory have paths of their own. The result is false for a
// regular file that cannot be read, because its content is not known.
func (r *Root) knownIrregular(f session.FileState, needed bool) bool {
	needed = needed && f.Inode == 0
	if f.Inode == 0 && !needed {
		return false
	}
	st, err := r.lstat(f.Path)
	if err != nil || st.refusal(1) == "" {
		return false
	}
	return st.matches(f) || st.directory() && (needed || st.ino == f.Inode)
}

// named holds the paths and globs that remaining steps name.
type named struct {
	literal map[string]bool
	globs   []pattern
}

func newNamed(paths []string) named {
	n := named{literal: map[string]bool{}}
	for _, name := range paths {
		p, err := parsePattern(name)
		plain, ok := p.plain()
		switch {
		case err != nil:
			n.literal[name] = true
		case ok:
			n.literal[plain] = true
		default:
			n.globs = append(n.globs, p)
		}
	}
	return n
}

// files returns the literal paths that a file can have.
func (n named) files() (names []string) {
	for name := range n.literal {
		if c, err := cleanFile(name); err == nil && c == name {
			names = append(names, name)
		}
	}
	return names
}

func (n named) has(name string) bool {
	return n.literal[name] || slices.ContainsFunc(n.globs, func(p pattern) bool { return p.match(name) })
}

// folders returns the directories above the named files and above files.
func (n named) folders(files []session.FileState) map[string]bool {
	above := map[string]bool{}
	add := func(name string) {
		for d := path.Dir(name); d != "." && !above[d]; d = path.Dir(d) {
			above[d] = true
		}
	}
	for name := range n.literal {
		add(name)
	}
	for _, f := range files {
		add(f.Path)
	}
	return above
}
