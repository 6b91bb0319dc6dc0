package workspace

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/session"
)

// Inspect says how far an earlier process got with ts under key; foreign lists the paths that
// are neither pre- nor post-image, as they are now. A mode that differs counts as different.
// Before it says Applied it makes the directories durable, since the process that renamed may
// have died before it could (W4). It changes no byte.
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

// Rollback puts the pre-images back for paths that equal their post-image, removes leftover
// temporary files, and makes that durable. Paths in overwrite are put back whatever they
// hold; any other foreign path is ErrFileChanged, before anything is changed. pre gives kept
// content; of files that were moved, what lies at their new name is used. Directories that
// Apply made stay. Killed anywhere, it can be called again with the same arguments.
func (r *Root) Rollback(ctx context.Context, key string, ts []session.Transition, overwrite []string, pre func(hash string) (io.ReadCloser, error)) error {
	return r.rollback(ctx, key, ts, overwrite, pre)
}

func (r *Root) rollback(ctx context.Context, key string, ts []session.Transition, overwrite []string, pre func(hash string) (io.ReadCloser, error)) error {
	v, err := r.survey(ctx, key, ts)
	defer v.close()
	if err != nil {
		return err
	}
	for _, p := range v.places {
		if p.foreign() && !slices.Contains(overwrite, p.t.Path) {
			return fileChanged(p.t.Path, "the file is neither what the step found nor what it made")
		}
	}
	if err := v.removeLeftover(); err != nil {
		return err
	}
	for i, p := range v.places {
		if err := v.stage(ctx, i, p, pre); err != nil {
			return errors.Join(failed(ctx, p.t.Path, err), v.removeStaged())
		}
	}
	if err := v.commit(); err != nil {
		return err
	}
	return v.sync(false)
}

// place is what lies at the path of one transition.
type place struct {
	t      session.Transition
	dir    *folder // nil when the directory is missing
	base   string
	state  session.FileState // Hash is empty when the path is absent
	st     stat
	target *place // the place that this one's file was moved to; nil when it was not
	temp   string // staged
	same   bool   // only the mode differs
	moves  bool   // gets its file back by a rename of target
}

func (p *place) is(i session.Image) bool {
	if i.Absent() || p.state.Hash == "" {
		return i.Absent() && p.state.Hash == ""
	}
	return i.Hash == p.state.Hash && i.Mode == p.state.Mode
}

func (p *place) isPre() bool   { return p.is(p.t.Pre) }
func (p *place) isPost() bool  { return p.is(p.t.Post) }
func (p *place) foreign() bool { return !p.isPre() && !p.isPost() }

// survey is what Inspect and Rollback see.
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
		if d != nil {
			d.close()
		}
	}
}

// survey looks at every path of ts and for temporary files of key beside them.
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

// pair finds for each file that was moved where it went.
func (v *survey) pair() {
	for _, p := range v.places {
		for _, q := range v.places {
			if p.t.From != "" && q.t.Path == p.t.From {
				q.target = p
			}
		}
	}
}

// names counts, file by file, the names that a rename or a rollback cut short can have left:
// both ends of a move and temporary files. A file with more is somebody else's too.
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

// look hashes what lies at p.
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

func (v *survey) removeLeftover() error {
	for _, l := range v.leftover {
		if err := v.unlink(l.dir, l.name); err != nil {
			return failure(path.Join(l.dir.name, l.name), "removing a temporary file", err)
		}
	}
	return nil
}

func (v *survey) unlink(d *folder, base string) error {
	if err := v.r.effect("unlink " + path.Join(d.name, base)); err != nil {
		return err
	}
	err := retry(func() error { return unix.Unlinkat(d.fd(), base, 0) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// stage gets the pre-image of p ready beside it, so that what can fail fails before a path
// changes.
func (v *survey) stage(ctx context.Context, i int, p *place, pre func(string) (io.ReadCloser, error)) error {
	if p.isPre() || p.t.Pre.Absent() {
		return nil
	}
	if p.dir == nil {
		if err := v.remake(p); err != nil {
			return err
		}
	}
	name := tempName(v.key, i)
	switch {
	case p.state.Hash == p.t.Pre.Hash:
		p.same = true
		return nil
	case p.target != nil && p.target.is(p.t.Pre):
		if p.target.t.Pre.Absent() {
			p.moves = true
			return nil
		}
		p.temp = name
		return v.link(ctx, p, name)
	}
	content, err := pre(p.t.Pre.Hash)
	if err != nil {
		if p.target != nil {
			return fileChanged(p.t.Path, fmt.Sprintf("the file was moved to %s, which no longer holds it", p.target.t.Path))
		}
		return fmt.Errorf("read the pre-image of %s: %w", p.t.Path, err)
	}
	defer content.Close()
	p.temp = name
	return v.copy(ctx, p, name, content)
}

// remake makes the directory that p's file was in.
func (v *survey) remake(p *place) error {
	dir := path.Dir(p.t.Path)
	if v.folders[dir] == nil {
		if _, err := v.r.makeFolders(dir); err != nil {
			return err
		}
		d, err := v.r.folder(dir)
		if err != nil {
			return err
		}
		v.folders[dir] = d
	}
	p.dir = v.folders[dir]
	return nil
}

// link gives the moved file of p a second name; where the file system has no links, a copy.
func (v *survey) link(ctx context.Context, p *place, name string) error {
	err := v.r.effect("link " + path.Join(p.dir.name, name))
	if err == nil {
		err = retry(func() error { return unix.Linkat(p.target.dir.fd(), p.target.base, p.dir.fd(), name, 0) })
	}
	if err == nil {
		return nil
	}
	f, _, err := p.target.dir.open(p.target.base, 1)
	if err != nil {
		return err
	}
	defer f.Close()
	return v.copy(ctx, p, name, f)
}

// copy writes the pre-image of p to a temporary file and holds it against its hash.
func (v *survey) copy(ctx context.Context, p *place, name string, content io.Reader) error {
	checked := &verified{r: content, sum: sha256.New(), want: p.t.Pre.Hash, name: p.t.Path}
	f, err := v.r.writeTemp(ctx, p.dir, name, checked, p.t.Pre.Mode)
	if err != nil {
		return err
	}
	return f.Close()
}

func (v *survey) removeStaged() error {
	for _, p := range v.places {
		if p.temp == "" {
			continue
		}
		if err := v.unlink(p.dir, p.temp); err != nil {
			return fmt.Errorf("remove a temporary file: %w", err)
		}
	}
	return nil
}

// commit puts the pre-images back: files that were moved first and durably, for their content
// is nowhere else, and only then what came into their place.
func (v *survey) commit() error {
	for _, moved := range []bool{true, false} {
		for _, p := range v.places {
			if (p.target != nil) != moved || p.isPre() {
				continue
			}
			if err := v.restore(p); err != nil {
				return failure(p.t.Path, "putting it back", err)
			}
		}
		if err := v.settle(moved); err != nil {
			return err
		}
	}
	return nil
}

// settle makes the names of moved files durable while their new names still stand.
func (v *survey) settle(moved bool) error {
	for _, p := range v.places {
		if !moved || p.target == nil || p.target.isPre() || p.dir == nil {
			continue
		}
		if err := v.r.sync(p.dir); err != nil {
			return failure(p.dir.name, "making the directory durable", err)
		}
	}
	return nil
}

func (v *survey) restore(p *place) error {
	if err := p.steady(); err != nil {
		return err
	}
	switch {
	case p.same:
		return v.chmod(p)
	case p.moves:
		if err := p.target.steady(); err != nil {
			return err
		}
		return v.rename(p.target.dir, p.target.base, p)
	case p.temp != "":
		return v.rename(p.dir, p.temp, p)
	case p.dir != nil:
		return v.unlink(p.dir, p.base)
	}
	return nil
}

// steady checks that p's path is what the survey saw, or that it has been emptied since, which
// is what putting a moved file back does.
func (p *place) steady() error {
	if p.dir == nil {
		return nil
	}
	st, err := p.dir.lstat(p.base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case p.state.Hash == "" || !st.sameFile(p.st) || st.size != p.st.size || st.mtime != p.st.mtime:
		return fileChanged(p.t.Path, "the file changed while it was put back")
	}
	return nil
}

func (v *survey) rename(from *folder, base string, p *place) error {
	if err := v.r.effect("rename " + p.t.Path); err != nil {
		return err
	}
	return retry(func() error { return unix.Renameat(from.fd(), base, p.dir.fd(), p.base) })
}

func (v *survey) chmod(p *place) error {
	f, st, err := p.dir.open(p.base, p.st.links)
	if err != nil {
		return err
	}
	defer f.Close()
	if !st.sameFile(p.st) {
		return fileChanged(p.t.Path, "the file was replaced while it was put back")
	}
	if err := v.r.effect("chmod " + p.t.Path); err != nil {
		return err
	}
	if err := retry(func() error { return unix.Fchmod(int(f.Fd()), p.t.Pre.Mode) }); err != nil {
		return err
	}
	return f.Sync()
}

// sync makes every directory durable and, with files, content that was there all along.
func (v *survey) sync(files bool) error {
	for _, p := range v.places {
		if !files || p.state.Hash == "" || p.t.Pre != p.t.Post {
			continue
		}
		f, _, err := p.dir.open(p.base, 1)
		if err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
		if err != nil {
			return failure(p.t.Path, "making it durable", err)
		}
	}
	for _, d := range v.folders {
		if d == nil {
			continue
		}
		if err := v.r.sync(d); err != nil {
			return failure(d.name, "making the directory durable", err)
		}
	}
	return nil
}
