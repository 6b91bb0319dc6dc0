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

// Read hashes the regular files that a glob matches, sorted by path; ** crosses
// directories and .git is not entered. Files that a pattern meets and that are irregular,
// have further links, lead outside or have a name that is not UTF-8, which the journal
// cannot hold, are passed over; named literally they are ErrEscape.
// It returns ErrFileStep for a literal path that is not there and for more than 10,000
// matches.
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

// failed keeps the end of the context apart from failures of the file.
func failed(ctx context.Context, name string, err error) error {
	return failedAt(ctx, name, "reading", err)
}

func failedAt(ctx context.Context, name, doing string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return failure(name, doing, err)
}

// passedOver reports whether what a walk met simply does not count: it vanished
// meanwhile, is no plain file, or leads outside.
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

// Content opens a file as it is now, to keep it before it is overwritten. The size is
// that of this moment. The caller closes it.
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

// Size gives the length of a file in bytes; 0 for one that is not there, or out of reach.
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

// Stat gives the state of these paths now, in their order. A path whose stat equals what
// is given, and was not racy, is taken as unchanged without reading it; any other is
// hashed. Hash is empty when the path is absent, or is no longer a regular file with one
// link inside the workspace, or may not be read; then the inode is set.
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
		r.settle(f)
		out = append(out, f)
	}
	return out, nil
}

// settle remembers a file that was hashed when its times could hide nothing any more, so
// that one which the session knows by a racy stat is not hashed again and again.
func (r *Root) settle(f session.FileState) {
	if f.Hash == "" || f.Racy {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calm[f.Path] = f
}

// settled gives what was remembered of the very content that k knows, else k.
func (r *Root) settled(k session.FileState) session.FileState {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.calm[k.Path]; ok && k.Racy && c.Hash == k.Hash && c.Mode == k.Mode {
		c.Wrote = k.Wrote
		return c
	}
	return k
}

// glance keeps the directory of the last path open: known files lie side by side.
type glance struct{ d *folder }

func (g *glance) close() { g.d.close() }

// unmoved reports whether one lstat is enough to know that k is as it was.
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
	case errors.Is(err, fs.ErrPermission) && k.Hash == "" && k.Inode != 0: // as it was
		return r.hidden(k), nil
	case passedOver(err), errors.Is(err, unix.ENOTDIR):
		return r.bare(k), nil
	}
	return session.FileState{}, err
}

// bare describes what lies at k's path without its content; the zero inode says that
// nothing does.
func (r *Root) bare(k session.FileState) session.FileState {
	now := session.FileState{}
	if st, err := r.lstat(k.Path); err == nil {
		now = st.state(k.Path, "", r.now())
	}
	now.Path, now.Wrote = k.Path, k.Wrote
	return now
}

// hidden describes a file that may not be read, as far as it can be looked at; else it is
// the file that k was.
func (r *Root) hidden(k session.FileState) session.FileState {
	now := r.bare(k)
	now.Inode = cmp.Or(now.Inode, k.Inode)
	return now
}
