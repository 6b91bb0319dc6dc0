package workspace

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/acode-dev/acode/session"
)

// Watch follows a workspace from one look to the next, so that what a command changed is known
// when it ends. Its methods are called from one goroutine at a time.
type Watch struct {
	r    *Root
	plan named
	now  *Manifest                    // the workspace as it was at the last look
	dirs map[string]session.FileState // directories that differ since the last difference that Look gave
}

// Watch begins with m, the workspace as it is now, of which Scan knew the planned paths.
func (r *Root) Watch(m *Manifest, planned []string) *Watch {
	return &Watch{r: r, plan: newNamed(planned), now: m, dirs: map[string]session.FileState{}}
}

// Look compares the workspace with the last look and gives the difference, to be kept beside the
// manifest that the Watch began with and the differences before this one; nil: no file differs.
// It costs a stat a file. A failure leaves the Watch where it was.
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
