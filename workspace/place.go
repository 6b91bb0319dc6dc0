package workspace

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/session"
)

// HeldChanges compares the protected paths with an earlier state. Place puts the changes
// back if it gets want. A directory that was made or removed is no change by itself. If
// the directory that held a protected name is gone, then its own end is no change.
func (r *Root) HeldChanges(ctx context.Context, was []session.Guarded) (changes []session.HeldChange, want []session.Guarded, err error) {
	before, now := map[string]session.Guarded{}, map[string]session.Guarded{}
	for _, g := range was {
		before[g.Path] = g
	}
	r.guard.mu.Lock()
	defer r.guard.mu.Unlock()
	list, err := r.guarded(ctx, before)
	if err != nil {
		return nil, nil, err
	}
	for _, g := range list {
		now[g.Path] = g
		old, known := before[g.Path]
		switch {
		case !known:
			if g.Kind != session.GuardUnchecked {
				want = append(want, session.Guarded{Path: g.Path, Kind: session.GuardAbsent, Under: g.Under})
			}
			if g.Kind != session.GuardDirectory {
				changes = append(changes, session.HeldChange{Guarded: g, Change: session.FileCreated})
			}
		case !old.Same(g):
			want = append(want, old)
			changes = append(changes, session.HeldChange{Guarded: g, Change: session.FileModified})
		}
	}
	for _, g := range was {
		if _, still := now[g.Path]; still || g.Kind == session.GuardUnchecked || !r.isDirectory(g.Under) {
			continue
		}
		want = append(want, g)
		if g.Kind != session.GuardDirectory {
			gone := session.Guarded{Path: g.Path, Kind: session.GuardAbsent, Under: g.Under}
			changes = append(changes, session.HeldChange{Guarded: gone, Change: session.FileDeleted})
		}
	}
	slices.SortFunc(want, byGuarded)
	slices.SortFunc(changes, func(a, b session.HeldChange) int { return byGuarded(a.Guarded, b.Guarded) })
	return changes, want, nil
}

// isDirectory reports whether name is a directory, without a link in its path.
func (r *Root) isDirectory(name string) bool {
	if real, err := r.resolve(name); err != nil || real != name {
		return false
	}
	info, err := r.root.Lstat(name)
	return err == nil && info.IsDir()
}

// GuardedContent opens a protected file that Guarded found. Reading it to the end returns
// ErrFileChanged if it no longer has that content. The caller closes it.
func (r *Root) GuardedContent(g session.Guarded) (io.ReadCloser, error) {
	f, err := r.protectedFile(g.Path)
	if absent(err) {
		return nil, fileChanged(g.Path, "the file disappeared after it was hashed")
	}
	if err != nil {
		return nil, failure(g.Path, "reading it", err)
	}
	return struct {
		io.Reader
		io.Closer
	}{&verified{r: f, sum: sha256.New(), want: g.Hash, name: g.Path}, f}, nil
}

// Place makes protected paths as want says, which is sorted by path, and makes that
// durable. content opens the content of a file. Place carries on after an error and
// returns all of them.
func (r *Root) Place(ctx context.Context, want []session.Guarded, content func(session.Guarded) (io.ReadCloser, error)) error {
	p := &placing{r: r, content: content, dirs: map[string]bool{}}
	var errs []error
	for _, g := range want {
		errs = append(errs, p.opens(g))
	}
	for _, g := range slices.Backward(want) {
		if err := p.clears(g); err != nil {
			errs = append(errs, failure(g.Path, "removing it", err))
		}
	}
	for _, g := range want {
		if err := p.puts(ctx, g); err != nil {
			errs = append(errs, failure(g.Path, "putting it back", err))
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(p.dirs)) {
		if err := r.syncFolder(dir); err != nil && !absent(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// placing is one Place under way.
type placing struct {
	r       *Root
	content func(session.Guarded) (io.ReadCloser, error)
	// directories whose names have changed
	dirs map[string]bool
}

// in calls do with the open directory of name, if there is one without a link in its
// path.
func (p *placing) in(name string, do func(d *folder, base string) error) error {
	if !p.r.isDirectory(path.Dir(name)) {
		return nil
	}
	d, err := p.r.folder(path.Dir(name))
	if err != nil {
		return err
	}
	defer d.close()
	return do(d, path.Base(name))
}

// opens gives a directory its mode, so that its files can be put back.
func (p *placing) opens(g session.Guarded) error {
	if g.Kind != session.GuardDirectory {
		return nil
	}
	return p.in(g.Path, func(d *folder, base string) error {
		if st, err := d.lstat(base); err != nil || !st.directory() || st.perm() == g.Mode {
			return nil
		}
		return p.mode(d, base, g.Mode)
	})
}

// mode sets the mode of a file or a directory.
func (p *placing) mode(d *folder, base string, mode uint32) error {
	p.dirs[d.name] = true
	return retry(func() error { return unix.Fchmodat(d.fd(), base, mode, 0) })
}

// clears removes anything in the place of g that is not of the wanted kind.
func (p *placing) clears(g session.Guarded) error {
	return p.in(g.Path, func(d *folder, base string) error {
		st, err := d.lstat(base)
		if absent(err) || err == nil && kindOf(st) == g.Kind {
			return nil
		}
		if err != nil {
			return err
		}
		p.dirs[d.name] = true
		if !st.directory() {
			return unix.Unlinkat(d.fd(), base, 0)
		}
		err = unix.Unlinkat(d.fd(), base, unix.AT_REMOVEDIR)
		if full := errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST); !full {
			return err
		}
		if g.Kind == session.GuardAbsent {
			return nil
		}
		return p.aside(d, base)
	})
}

// aside renames a directory that is in the way and has contents that are not protected.
func (p *placing) aside(d *folder, base string) error {
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s.moved-%d", base, n)
		if _, err := d.lstat(name); errors.Is(err, fs.ErrNotExist) {
			return unix.Renameat(d.fd(), base, d.fd(), name)
		}
	}
}

func kindOf(st stat) string {
	switch {
	case st.directory():
		return session.GuardDirectory
	case st.symlink():
		return session.GuardLink
	case st.regular():
		return session.GuardFile
	}
	return session.GuardOther
}

// puts makes the path of g as g says, after clears.
func (p *placing) puts(ctx context.Context, g session.Guarded) error {
	switch g.Kind {
	case session.GuardDirectory, session.GuardFile, session.GuardLink:
	default:
		return nil
	}
	made, err := p.r.makeFolders(path.Dir(g.Path))
	for _, dir := range made {
		p.dirs[path.Dir(dir)] = true
	}
	if err != nil {
		return err
	}
	return p.in(g.Path, func(d *folder, base string) error {
		p.dirs[d.name] = true
		switch g.Kind {
		case session.GuardDirectory:
			err := unix.Mkdirat(d.fd(), base, 0o700)
			if err == nil || errors.Is(err, fs.ErrExist) {
				err = p.mode(d, base, g.Mode)
			}
			return err
		case session.GuardLink:
			return p.exchange(g, d, base, func(temp string) error { return unix.Symlinkat(g.Target, d.fd(), temp) })
		}
		if g.Blob.Hash == "" {
			return p.unkept(g, d, base)
		}
		return p.exchange(g, d, base, func(temp string) error { return p.write(ctx, g, d, temp) })
	})
}

// exchange makes a temporary file and gives it the name base.
func (p *placing) exchange(g session.Guarded, d *folder, base string, make func(temp string) error) error {
	temp := tempName(g.Path, 0)
	if err := unix.Unlinkat(d.fd(), temp, 0); err != nil && !absent(err) {
		return err
	}
	err := make(temp)
	if err == nil {
		err = unix.Renameat(d.fd(), temp, d.fd(), base)
	}
	if err != nil {
		_ = unix.Unlinkat(d.fd(), temp, 0) // the next attempt removes it
	}
	return err
}

func (p *placing) write(ctx context.Context, g session.Guarded, d *folder, temp string) error {
	r, err := p.content(g)
	if err != nil {
		return err
	}
	defer r.Close()
	f, err := p.r.writeTemp(ctx, d, temp, r, g.Mode)
	if err != nil {
		return err
	}
	return f.Close()
}

// unkept gives a file its mode. Its content must still be there, because none was kept.
func (p *placing) unkept(g session.Guarded, d *folder, base string) error {
	f, _, err := d.open(base, ^uint64(0))
	if err != nil {
		return err
	}
	defer f.Close()
	now, _, err := p.r.hash(context.Background(), f, g.Path)
	if err == nil && now.Hash != g.Hash {
		err = stepError(g.Path, "its content is too large to be kept")
	}
	if err == nil && now.Mode != g.Mode {
		err = retry(func() error { return unix.Fchmod(int(f.Fd()), g.Mode) })
	}
	return err
}
