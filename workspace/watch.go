package workspace

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/acode-dev/acode/session"
)

// Watch follows a workspace from one look to the next, so that what a command changed is known
// when it ends. Its methods are called from one goroutine at a time.
type Watch struct {
	r    *Root
	plan named
	now  *Manifest         // the workspace as it was at the last look
	news map[string]update // since the last difference that Look gave, by path; a directory's ends in a slash
}

// update is one path as a look found it.
type update struct {
	session.FileState // Inode is 0: nothing is there any more
	dir               bool
}

// Watch begins with m, the workspace as it is now, of which Scan knew the planned paths.
func (r *Root) Watch(m *Manifest, planned []string) *Watch {
	return &Watch{r: r, plan: newNamed(planned), now: m, news: map[string]update{}}
}

// Look compares the workspace with the last look and gives the difference, to be kept beside the
// manifest that the Watch began with and the differences before this one; nil: no file differs.
// It costs a stat a file. A failure leaves the Watch where it was.
func (w *Watch) Look(ctx context.Context) (*Manifest, error) {
	c := newComparison(w.r, w.now)
	c.watch = w
	if _, _, err := c.run(ctx); err != nil || ctx.Err() != nil {
		return nil, cmp.Or(err, context.Cause(ctx))
	}
	if len(c.news) == 0 {
		return nil, nil
	}
	for _, u := range c.news {
		if u.dir { // which may have become a file
			w.news[u.Path+"/"] = u
		} else {
			w.news[u.Path] = u
		}
	}
	files := false
	diff := &Manifest{Git: w.now.Git}
	for _, u := range w.news {
		if u.dir {
			diff.Dirs = append(diff.Dirs, u.FileState)
		} else {
			diff.Entries = append(diff.Entries, u.FileState)
			files = true
		}
	}
	slices.SortFunc(diff.Dirs, byPath)
	diff.sort()
	w.now = w.now.With(diff)
	if !files {
		return nil, nil
	}
	clear(w.news)
	return diff, nil
}

// State is the workspace as it was at the last look.
func (w *Watch) State() *Manifest { return w.now }

// With gives m as it is after diff, which Look gave.
func (m *Manifest) With(diff *Manifest) *Manifest {
	return &Manifest{Git: diff.Git, Entries: overlay(m.Entries, diff.Entries, byFolder), Dirs: overlay(m.Dirs, diff.Dirs, byPath)}
}

// overlay puts later over earlier states; both are sorted. A later one without inode is no more.
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
