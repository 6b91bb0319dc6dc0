package workspace

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/acode-dev/acode/session"
)

// Inspect returns how far an earlier process got with ts under key. foreign lists the
// current state of the paths that are neither the pre-image nor the post-image. Another
// mode counts as different. Inspect first makes durable the work of the process that
// died (W4). Before it returns Applied, it syncs the directories. Otherwise it syncs
// the directories that lead to new files, because the next attempt finds them made. It
// changes no byte.
func (r *Root) Inspect(ctx context.Context, key string, ts []session.Transition) (session.Progress, []session.FileState, error) {
	v, err := r.survey(ctx, key, ts)
	defer v.close()
	if err != nil {
		return "", nil, err
	}
	var foreign []session.FileState
	pre, post := true, true
	for _, p := range v.places {
		pre, post = pre && p.isPre(), post && p.isPost()
		if p.foreign() {
			foreign = append(foreign, p.state)
		}
	}
	if !post {
		if err := v.anchor(); err != nil {
			return "", nil, err
		}
	}
	switch {
	case len(foreign) > 0:
		return session.Foreign, foreign, nil
	case len(v.leftover) > 0 || !pre && !post:
		return session.Partial, nil, nil
	case post:
		return session.Applied, nil, v.sync(true)
	}
	return session.NotApplied, nil, nil
}

// Reached returns the paths of ts that an earlier process changed under key, and the
// paths that are not their post-image. It changes nothing.
func (r *Root) Reached(ctx context.Context, key string, ts []session.Transition) (changed, not []string, err error) {
	v, err := r.survey(ctx, key, ts)
	defer v.close()
	for _, p := range v.places {
		switch {
		case err != nil:
		case !p.isPost():
			not = append(not, p.t.Path)
		case !p.isPre():
			changed = append(changed, p.t.Path)
		}
	}
	return changed, not, err
}

// anchor makes the directories durable that lead to new files. Apply syncs only the
// parents of the directories that it makes itself.
func (v *survey) anchor() error {
	done := map[string]bool{}
	for _, p := range v.places {
		if !p.t.Pre.Absent() {
			continue
		}
		for dir := path.Dir(path.Clean(p.t.Path)); dir != "." && !done[dir]; dir = path.Dir(dir) {
			done[dir] = true
			err := v.r.syncFolder(path.Dir(dir))
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
				return failure(path.Dir(dir), "making the directory durable", err)
			}
		}
	}
	return nil
}

// place is the file at the path of one transition.
type place struct {
	t session.Transition
	// dir is nil if the directory is missing.
	dir  *folder
	base string
	// state has an empty Hash if the path is absent.
	state session.FileState
	st    stat
	// target is the place that this one's file was moved to, or nil.
	target *place
	// temp is the name of the staged file.
	temp string
	// moves says that the place gets its file back by a rename of target.
	moves bool
}

func (p *place) is(i session.Image) bool {
	if i.Absent() || p.state.Hash == "" {
		return i.Absent() && p.state.Hash == ""
	}
	return i.Hash == p.state.Hash && i.Mode == p.state.Mode
}

func (p *place) isPre() bool { return p.is(p.t.Pre) }

func (p *place) isPost() bool { return p.is(p.t.Post) }

func (p *place) foreign() bool { return !p.isPre() && !p.isPost() }

// survey is the state of the files that Inspect and Rollback work on.
type survey struct {
	r        *Root
	key      string
	places   []*place
	folders  map[string]*folder
	leftover []leftover
}

type leftover struct {
	dir  *folder
	name string
}

func (v *survey) close() {
	for _, d := range v.folders {
		d.close()
	}
}

// survey examines every path of ts and finds temporary files of key beside them.
func (r *Root) survey(ctx context.Context, key string, ts []session.Transition) (*survey, error) {
	v := &survey{r: r, key: key, folders: map[string]*folder{}}
	for _, t := range ts {
		c, err := cleanFile(t.Path)
		if err != nil {
			return v, err
		}
		p := &place{t: t, base: path.Base(c)}
		if p.dir, err = v.folder(path.Dir(c)); err != nil {
			return v, failure(c, "opening its directory", err)
		}
		v.places = append(v.places, p)
	}
	v.pair()
	names := v.names()
	for _, p := range v.places {
		if err := v.look(ctx, p, names); err != nil {
			return v, failed(ctx, p.t.Path, err)
		}
	}
	return v, nil
}

// folder opens a directory once and finds the leftovers in it.
func (v *survey) folder(name string) (*folder, error) {
	if d, ok := v.folders[name]; ok {
		return d, nil
	}
	d, err := v.r.folder(name)
	if errors.Is(err, fs.ErrNotExist) {
		v.folders[name] = nil
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v.folders[name] = d
	names, err := d.f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if strings.HasPrefix(n, tempPrefix(v.key)) && strings.HasSuffix(n, ".tmp") {
			v.leftover = append(v.leftover, leftover{d, n})
		}
	}
	return d, nil
}

// pair finds the target of each file that was moved.
func (v *survey) pair() {
	for _, p := range v.places {
		for _, q := range v.places {
			if p.t.From != "" && q.t.Path == p.t.From {
				q.target = p
			}
		}
	}
}

// names counts the names of each file that an interrupted rename or rollback can have
// left: both ends of a move and temporary files. A file with more names belongs to
// another program too.
func (v *survey) names() map[[2]uint64]uint64 {
	seen := map[[2]uint64]uint64{}
	count := func(d *folder, base string) {
		if d == nil {
			return
		}
		if st, err := d.lstat(base); err == nil {
			seen[[2]uint64{st.dev, st.ino}]++
		}
	}
	for _, p := range v.places {
		if p.target != nil || p.t.From != "" {
			count(p.dir, p.base)
		}
	}
	for _, l := range v.leftover {
		count(l.dir, l.name)
	}
	return seen
}

// look hashes the file at p.
func (v *survey) look(ctx context.Context, p *place, names map[[2]uint64]uint64) error {
	p.state = session.FileState{Path: p.t.Path}
	if p.dir == nil {
		return nil
	}
	st, err := p.dir.lstat(p.base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	f, _, err := p.dir.open(p.base, max(1, names[[2]uint64{st.dev, st.ino}]))
	if err != nil {
		return err
	}
	defer f.Close()
	p.state, p.st, err = v.r.hash(ctx, f, p.t.Path)
	return err
}
