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

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/session"
)

// Rollback puts the pre-images back for paths that equal their post-image, removes
// leftover temporary files, and makes that durable. Paths that hold what overwrite says
// of them, which was kept, are put back as well; any other foreign path is ErrFileChanged,
// before anything is changed. pre gives kept content; of files that were moved, what lies at their new name
// is used. Directories that Apply made stay. Killed anywhere, it can be called again with
// the same arguments.
func (r *Root) Rollback(ctx context.Context, key string, ts []session.Transition, overwrite []session.FileState, pre func(hash string) (io.ReadCloser, error)) error {
	v, err := r.survey(ctx, key, ts)
	defer v.close()
	if err != nil {
		return err
	}
	for _, p := range v.places {
		known := func(f session.FileState) bool { return f.Path == p.t.Path && f.Hash == p.state.Hash }
		if p.foreign() && !slices.ContainsFunc(overwrite, known) {
			return fileChanged(p.t.Path, "the file is neither what the step found nor what it made")
		}
	}
	if err := v.removeLeftover(); err != nil {
		return err
	}
	for i, p := range v.places {
		if err := v.stage(ctx, i, p, pre); err != nil {
			return errors.Join(failedAt(ctx, p.t.Path, "writing", err), v.removeStaged())
		}
	}
	if err := v.commit(); err != nil {
		return err
	}
	return v.sync(false)
}

// Tidy removes the temporary files that an attempt left behind, makes that durable, and
// changes nothing else.
func (r *Root) Tidy(ctx context.Context, key string, ts []session.Transition) error {
	v, err := r.survey(ctx, key, ts)
	defer v.close()
	if err != nil || len(v.leftover) == 0 {
		return err
	}
	if err := v.removeLeftover(); err != nil {
		return err
	}
	return v.sync(false)
}

func (v *survey) removeLeftover() error {
	for _, l := range v.leftover {
		if err := v.r.unlink(l.dir, l.name); err != nil {
			return failure(path.Join(l.dir.name, l.name), "removing a temporary file", err)
		}
	}
	return nil
}

// unlink removes base from d, where it may be gone already.
func (r *Root) unlink(d *folder, base string) error {
	if err := r.effect("unlink " + path.Join(d.name, base)); err != nil {
		return err
	}
	err := retry(func() error { return unix.Unlinkat(d.fd(), base, 0) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// stage gets the pre-image of p ready beside it, so that what can fail fails before a
// path changes. What restore does then depends on what lies there, and where the pre-image is:
//
//	what lies there               the pre-image is          restore
//	the pre-image                 in place                  nothing
//	anything, nothing did before  nothing                   unlinks it
//	its content, another mode     in place                  changes the mode
//	its content, moved here       there, and goes back too  renames a copy over it
//	anything                      at its new name           renames it back, or a second name
//	                                                        of it where that name gets a file back as well
//	anything                      kept                      renames a copy over it
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
	case p.state.Hash == p.t.Pre.Hash && p.t.From == "":
		p.same = true
		return nil
	case p.state.Hash == p.t.Pre.Hash: // the very file that goes back to where it was moved from
		p.temp = name
		return v.duplicate(ctx, p, p, name)
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

// link gives the moved file of p a second name, for its new one will be replaced; where it will
// not, since that held the same before, or the file system has no links, a copy.
func (v *survey) link(ctx context.Context, p *place, name string) error {
	if p.target.isPre() {
		return v.duplicate(ctx, p, p.target, name)
	}
	err := v.r.effect("link " + path.Join(p.dir.name, name))
	if err == nil {
		err = retry(func() error { return unix.Linkat(p.target.dir.fd(), p.target.base, p.dir.fd(), name, 0) })
	}
	if err == nil {
		return nil
	}
	return v.duplicate(ctx, p, p.target, name)
}

// duplicate copies what lies at from, which has the content that p gets back.
func (v *survey) duplicate(ctx context.Context, p, from *place, name string) error {
	f, _, err := from.dir.open(from.base, from.st.links+1) // the link that was just made
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
		if err := v.r.unlink(p.dir, p.temp); err != nil {
			return fmt.Errorf("remove a temporary file: %w", err)
		}
	}
	return nil
}

// commit puts the pre-images back: files that were moved first and durably, for their
// content is nowhere else, and only then what came into their place.
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
		return v.r.unlink(p.dir, p.base)
	}
	return nil
}

// steady checks that p's path is what the survey saw, or that it has been emptied since,
// which is what putting a moved file back does.
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
	if err := setMode(f, p.t.Pre.Mode); err != nil {
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
