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

// Rollback puts the pre-images back for paths that equal their post-image. It removes
// leftover temporary files and makes all this durable. It also puts back foreign paths
// whose content is listed in overwrite, which the caller has kept. Any other foreign
// path is ErrFileChanged, before anything is changed.
//
// pre returns kept content. The content of a moved file is taken from its new name.
// Directories that Apply made stay. If Rollback is killed at any point, it can be
// called again with the same arguments.
func (r *Root) Rollback(ctx context.Context, key string, ts []session.Transition, overwrite []session.FileState, pre func(hash string) (io.ReadCloser, error)) error {
	v, err := r.survey(ctx, key, ts)
	defer v.close()
	if err != nil {
		return err
	}
	for _, p := range v.places {
		known := func(f session.FileState) bool { return f.Path == p.t.Path && f.Hash == p.state.Hash }
		if p.foreign() && !slices.ContainsFunc(overwrite, known) {
			return fileChanged(p.t.Path, "the file is neither the one that the step found nor the one that it made")
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

// unlink removes base from d. base may be gone already.
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

// stage prepares the pre-image of p beside it, so that most failures happen before a
// path changes. The work of restore depends on the file that is there and on the place
// of the pre-image:
//
//	the path holds  the pre-image is               restore
//	the pre-image   in place                       does nothing
//	anything        absent                         unlinks it
//	its content     there, in another mode or      renames a copy over it
//	                moved
//	anything        at its new name                renames it back, or a copy of it if
//	                                               that name gets a file back as well
//	anything        kept                           renames a copy over it
func (v *survey) stage(ctx context.Context, i int, p *place, pre func(string) (io.ReadCloser, error)) error {
	if p.isPre() || p.t.Pre.Absent() {
		return nil
	}
	if p.dir == nil {
		if err := v.remake(p); err != nil {
			return err
		}
	}
	var content io.ReadCloser
	var err error
	switch {
	case p.state.Hash == p.t.Pre.Hash:
		content, _, err = p.dir.open(p.base, p.st.links)
	case p.target != nil && p.target.is(p.t.Pre) && p.target.t.Pre.Absent():
		p.moves = true
		return nil
	case p.target != nil && p.target.is(p.t.Pre):
		content, _, err = p.target.dir.open(p.target.base, p.target.st.links)
	default:
		content, err = pre(p.t.Pre.Hash)
		if err != nil && p.target != nil {
			return fileChanged(p.t.Path, fmt.Sprintf("the file was moved to %s, which no longer holds it", p.target.t.Path))
		}
	}
	if err != nil {
		return fmt.Errorf("read the pre-image of %s: %w", p.t.Path, err)
	}
	defer content.Close()
	p.temp = tempName(v.key, i)
	checked := &verified{r: content, sum: sha256.New(), want: p.t.Pre.Hash, name: p.t.Path}
	f, err := v.r.writeTemp(ctx, p.dir, p.temp, checked, p.t.Pre.Mode)
	if err != nil {
		return err
	}
	return f.Close()
}

// remake makes the directory of p's file.
func (v *survey) remake(p *place) (err error) {
	dir := path.Dir(path.Clean(p.t.Path))
	if v.folders[dir] == nil {
		if _, err = v.r.makeFolders(dir); err == nil {
			v.folders[dir], err = v.r.folder(dir)
		}
	}
	p.dir = v.folders[dir]
	return err
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

// commit puts the pre-images back. Files that were moved come first and are made
// durable, because their content is in no other place. The files that replaced them
// come next.
func (v *survey) commit() error {
	for _, moved := range []bool{true, false} {
		var dirs []*folder
		for _, p := range v.places {
			if (p.target != nil) != moved {
				continue
			}
			// the new name still exists
			if moved && !p.target.isPre() && p.dir != nil {
				dirs = append(dirs, p.dir)
			}
			if p.isPre() {
				continue
			}
			if err := v.restore(p); err != nil {
				return failure(p.t.Path, "putting it back", err)
			}
		}
		for _, d := range dirs {
			if err := v.r.sync(d); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *survey) restore(p *place) error {
	if err := p.steady(); err != nil {
		return err
	}
	switch {
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

// steady checks that p's path is as the survey saw it, or is empty by now. Putting a
// moved file back empties a path.
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

// sync makes every directory durable. With files it also makes content durable that was
// already there.
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
			return err
		}
	}
	return nil
}
