package workspace

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/session"
)

// Read hashes the regular files that a glob matches, sorted by path. ** crosses
// directories, and .git is not entered. A pattern skips files that are irregular, have
// more links, lead outside, or have a name that is not UTF-8, which the journal cannot
// hold. A literal path to such a file is ErrEscape. Read returns ErrFileStep for a
// literal path that does not exist and for more than 10,000 matches.
func (r *Root) Read(ctx context.Context, read session.Read) ([]session.FileState, error) {
	p, err := parsePattern(read.Path)
	if err != nil {
		return nil, err
	}
	if p.literal() {
		f, err := r.look(ctx, path.Join(p...))
		return []session.FileState{f}, failure(read.Path, "reading", err)
	}
	names, err := r.files(ctx, maxRead, p.base(), p)
	if err != nil {
		return nil, failed(ctx, read.Path, err)
	}
	states := make([]session.FileState, 0, len(names))
	for _, name := range names {
		f, err := r.look(ctx, name)
		if passedOver(err) || !utf8.ValidString(name) {
			continue
		}
		if err != nil {
			return nil, failed(ctx, name, err)
		}
		states = append(states, f)
	}
	return states, nil
}

// failed returns the cause of ctx if ctx has ended, and the failure of the file
// otherwise.
func failed(ctx context.Context, name string, err error) error {
	return failedAt(ctx, name, "reading", err)
}

func failedAt(ctx context.Context, name, doing string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return failure(name, doing, err)
}

// passedOver reports whether a file that a walk found does not count. It disappeared
// meanwhile, is not a regular file, or leads outside.
func passedOver(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(failure("", "", err), session.ErrEscape)
}

// look hashes one file.
func (r *Root) look(ctx context.Context, name string) (session.FileState, error) {
	f, _, err := r.follow(name)
	if err != nil {
		return session.FileState{}, err
	}
	defer f.Close()
	state, _, err := r.hash(ctx, f, name)
	return state, err
}

// Content opens a file in its current state, so that the caller can keep it before it
// is overwritten. The size is that of this moment. The caller closes the file.
func (r *Root) Content(name string) (io.ReadCloser, int64, error) {
	c, err := cleanFile(name)
	if err != nil {
		return nil, 0, err
	}
	d, err := r.folder(path.Dir(c))
	if err != nil {
		return nil, 0, failure(c, "reading", err)
	}
	defer d.close()
	f, st, err := d.open(path.Base(c), 1)
	if err != nil {
		return nil, 0, failure(c, "reading", err)
	}
	return f, st.size, nil
}

// Size returns the length of a file in bytes, or 0 for a file that does not exist or
// cannot be reached.
func (r *Root) Size(name string) int64 {
	c, err := cleanFile(name)
	if err != nil {
		return 0
	}
	info, err := r.root.Lstat(c)
	if err != nil {
		return 0
	}
	return info.Size()
}

// Stat returns the current state of these paths, in their order. If the stat of a path
// equals the known one, which was not racy, the file counts as unchanged and is not
// read. Any other file is hashed. Hash is empty if the path is absent, is no longer a
// regular file with one link inside the workspace, or may not be read. In the last two
// cases the inode is set.
func (r *Root) Stat(ctx context.Context, known []session.FileState) ([]session.FileState, error) {
	out := make([]session.FileState, 0, len(known))
	var last glance
	defer last.close()
	for _, k := range known {
		if r.unmoved(&last, r.settled(k)) {
			out = append(out, r.settled(k))
			continue
		}
		f, err := r.stat(ctx, k)
		if errors.Is(err, fs.ErrPermission) {
			f, err = r.hidden(k), nil
		}
		if err != nil {
			return nil, failed(ctx, k.Path, err)
		}
		r.remember(f)
		out = append(out, f)
	}
	return out, nil
}

// remember keeps the state of a file that was hashed when its times could not hide a
// change. A file that the session knows by a racy stat is then not hashed each time.
func (r *Root) remember(f session.FileState) {
	if f.Hash == "" || f.Racy {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calm[f.Path] = f
}

// settled returns the remembered state if it has the same content and mode as k, and k
// otherwise.
func (r *Root) settled(k session.FileState) session.FileState {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.calm[k.Path]; ok && k.Racy && c.Hash == k.Hash && c.Mode == k.Mode {
		c.Wrote = k.Wrote
		return c
	}
	return k
}

// glance keeps the directory of the last path open, because known files are often in
// one directory.
type glance struct{ d *folder }

func (g *glance) close() { g.d.close() }

// unmoved reports whether one lstat is enough to know that k has not changed.
func (r *Root) unmoved(g *glance, k session.FileState) bool {
	name, err := cleanFile(k.Path)
	if err != nil || k.Hash == "" || k.Racy {
		return false
	}
	if dir := path.Dir(name); g.d == nil || g.d.name != dir {
		g.close()
		if g.d, err = r.folder(dir); err != nil {
			return false
		}
	}
	st, err := g.d.lstat(path.Base(name))
	return err == nil && st.refusal(1) == "" && st.matches(k)
}

func (r *Root) stat(ctx context.Context, k session.FileState) (session.FileState, error) {
	if err := ctx.Err(); err != nil {
		return session.FileState{}, err
	}
	name, err := cleanFile(k.Path)
	if err != nil {
		return session.FileState{}, err
	}
	f, st, err := r.follow(name)
	switch {
	case err == nil:
		defer f.Close()
		if k.Hash != "" && !k.Racy && st.matches(k) {
			return k, nil
		}
		now, _, err := r.hash(ctx, f, name)
		now.Path, now.Wrote = k.Path, k.Wrote
		return now, err
	// it could not be read before either
	case errors.Is(err, fs.ErrPermission) && k.Hash == "" && k.Inode != 0:
		return r.hidden(k), nil
	case passedOver(err), errors.Is(err, unix.ENOTDIR):
		return r.bare(k), nil
	}
	return session.FileState{}, err
}

// bare describes the file at k's path without its content. An inode of zero means that
// there is none.
func (r *Root) bare(k session.FileState) session.FileState {
	now := session.FileState{}
	if st, err := r.lstat(k.Path); err == nil {
		now = st.state(k.Path, "", r.now())
	}
	now.Path, now.Wrote = k.Path, k.Wrote
	return now
}

// hidden describes a file that may not be read. If the file cannot be examined either,
// it has the inode of k.
func (r *Root) hidden(k session.FileState) session.FileState {
	now := r.bare(k)
	now.Inode = cmp.Or(now.Inode, k.Inode)
	return now
}
