package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/session"
)

// Apply carries out what Prepare worked out under key and gives the files as they are
// then, one a transition. When it returns nil, they and the directories that name them
// are durable (W4). It returns ErrFileChanged, with nothing changed, when a path is no
// longer what was hashed; any other failure is undone as well before it returns, and the
// files that were put back are given as they are now: their content is the old one, their
// times are not. Where case does not count, two paths that are one new file are found
// only now: ErrFileStep. It returns ErrStoreIO when it could not undo one, or could not
// look at what it had done: then the step has not failed, and Inspect says how far it
// got.
//
// In order: missing directories, temporary files with their content, mode and fsync, a
// last look at every path, renames and unlinks, one fsync per distinct directory. So a
// write or edit costs two fsyncs, a delete one, a move one per directory, a group one per
// written file and one per directory; each new directory costs one more, of its parent. A
// written file is a new one with the given content and mode: other owners and extended
// attributes are not carried over.
func (r *Root) Apply(ctx context.Context, key string) ([]session.FileState, error) {
	r.mu.Lock()
	p := r.prepared[key]
	r.mu.Unlock()
	if p == nil {
		return nil, fmt.Errorf("apply %s: it was not prepared", key)
	}
	a := &applying{r: r, p: p, key: key, nodes: p.effective()}
	if err := a.run(ctx); err != nil {
		err = a.undo(ctx, err)
		return a.back(ctx), err
	}
	return a.states()
}

// applying is one Apply under way.
type applying struct {
	r     *Root
	p     *prepared
	key   string
	nodes []*node
	// directories, outermost first
	made []string
	// whose path has changed, the last one perhaps
	done []*node
}

func (a *applying) run(ctx context.Context) error {
	for _, n := range a.nodes {
		if err := a.parents(n); err != nil {
			return failure(n.path, "making its directory", err)
		}
	}
	for i, n := range a.nodes {
		if err := a.stage(ctx, i, n); err != nil {
			return failedAt(ctx, n.path, "writing", err)
		}
	}
	for _, n := range a.nodes {
		if err := a.r.unchanged(ctx, n); err != nil {
			return err
		}
	}
	for _, n := range a.nodes {
		if err := a.commit(n); err != nil {
			return failure(n.path, "changing it", err)
		}
	}
	return a.sync()
}

// parents makes the directories that n lacks.
func (a *applying) parents(n *node) (err error) {
	if n.dir != nil || n.cur == nil {
		return nil
	}
	dir := path.Dir(n.path)
	if n.dir = a.p.folders[dir]; n.dir != nil {
		return nil
	}
	made, err := a.r.makeFolders(dir)
	a.made = append(a.made, made...)
	if err != nil {
		return err
	}
	n.dir, err = a.r.folder(dir)
	if err == nil {
		a.p.folders[dir] = n.dir
	}
	return err
}

// sync makes the names in d durable.
func (r *Root) sync(d *folder) error {
	err := r.effect("fsync " + d.name)
	if err == nil {
		err = d.f.Sync()
	}
	return failure(d.name, "making the directory durable", err)
}

// stage writes the temporary file of n, unless a rename or nothing at all gives it its
// content.
func (a *applying) stage(ctx context.Context, i int, n *node) error {
	if n.cur == nil || n.from() != nil || n.cur.origin == n {
		return nil
	}
	n.temp = tempName(a.key, i)
	var err error
	n.out, err = a.r.writeTemp(ctx, n.dir, n.temp, n.cur.reader(), n.cur.image.Mode)
	return err
}

// unchanged checks that n's path still is what was hashed (FILE-001): the same directory,
// the same file, the same times. Times that could hide a change are not trusted: it is
// read again.
func (r *Root) unchanged(ctx context.Context, n *node) error {
	if n.dir == nil {
		return nil
	}
	if !r.current(n.dir) {
		return fileChanged(n.path, "its directory was replaced")
	}
	if err := r.still(n); err != nil || !n.racy {
		return err
	}
	_, err := io.Copy(io.Discard, &section{ctx: ctx, r: n.reader()})
	return failed(ctx, n.path, err)
}

// commit gives n's path its post-image. A path that a rename empties is done with its
// target.
func (a *applying) commit(n *node) error {
	base := path.Base(n.path)
	from := n.from()
	switch {
	case n.cur == nil && (n.f == nil || a.p.moved(n)), n.cur != nil && n.cur.origin == n:
		return nil
	case n.cur == nil:
		return a.step("unlink", n, func() error { return unix.Unlinkat(n.dir.fd(), base, 0) })
	case from != nil:
		return a.step("rename", n, func() error {
			return unix.Renameat(from.dir.fd(), path.Base(from.path), n.dir.fd(), base)
		})
	}
	err := a.step("rename", n, func() error { return unix.Renameat(n.dir.fd(), n.temp, n.dir.fd(), base) })
	if err == nil {
		n.temp = ""
	}
	return err
}

// step looks at n once more, and at the file that it gets, and then changes its path.
// What fails may have been done all the same, where the answer was lost on its way: undo
// looks.
func (a *applying) step(op string, n *node, change func() error) error {
	if err := a.r.effect(op + " " + n.path); err != nil {
		return err
	}
	if from := n.from(); from != nil {
		if err := a.r.still(from); err != nil {
			return err
		}
	}
	if err := a.r.still(n); err != nil {
		return cmp.Or(a.twice(n), err)
	}
	a.done = append(a.done, n)
	return retry(change)
}

// twice is the error for a path at which there was nothing and now is a file that a.done
// put there, by another name: those of a file system for which case does not count.
// Before, nothing tells.
func (a *applying) twice(n *node) error {
	st, err := n.dir.lstat(path.Base(n.path))
	if err != nil || n.f != nil {
		return nil
	}
	for _, d := range a.done {
		if f := d.file(); f != nil {
			if its, err := fstat(f); err == nil && its.sameFile(st) {
				return sameFile(n, d)
			}
		}
	}
	return nil
}

// still is the cheap half of unchanged, for the instant before a change.
func (r *Root) still(n *node) error {
	st, err := n.dir.lstat(path.Base(n.path))
	absent := errors.Is(err, fs.ErrNotExist)
	switch {
	case err != nil && !absent:
		return failure(n.path, "looking at it", err)
	case absent && n.f != nil:
		return fileChanged(n.path, "the file disappeared after it was hashed")
	case !absent && n.f == nil:
		return fileChanged(n.path, "the file appeared after it was looked at")
	case !absent && st != n.st:
		return fileChanged(n.path, "the file was modified after it was hashed")
	}
	return nil
}

// sync makes the directories durable, those that received a file before those that lost
// one.
func (a *applying) sync() error {
	var dirs []*folder
	add := func(d *folder) {
		if !slices.ContainsFunc(dirs, func(o *folder) bool { return o.st.sameFile(d.st) }) {
			dirs = append(dirs, d)
		}
	}
	for _, n := range a.done {
		if n.cur != nil {
			add(n.dir)
		}
	}
	for _, n := range a.done {
		add(n.dir)
		if from := n.from(); from != nil {
			add(from.dir)
		}
	}
	for _, d := range dirs {
		if err := a.r.sync(d); err != nil {
			return err
		}
	}
	return nil
}

// undo puts everything back after cause and gives the error to return.
func (a *applying) undo(ctx context.Context, cause error) error {
	err := a.discard()
	if len(a.done) > 0 {
		back := a.r.Rollback(ctx, a.key, a.undoing(), nil, a.held)
		if errors.Is(back, session.ErrFileChanged) {
			return fmt.Errorf("undo a half-applied group: %w", errors.Join(back, cause))
		}
		err = errors.Join(err, back)
	}
	if err = errors.Join(err, a.unmake()); err != nil {
		return unsettled("a change failed, and what it had done before could not all be undone; pre-images are kept", errors.Join(cause, err))
	}
	return cause
}

// discard removes the temporary files and makes that durable: the next attempt gives its
// own other names, and would not find one that a power cut brings back.
func (a *applying) discard() error {
	var dirs []*folder
	var errs []error
	for _, n := range a.nodes {
		if n.temp == "" {
			continue
		}
		if err := unix.Unlinkat(n.dir.fd(), n.temp, 0); err != nil {
			// A read-only file system refuses also where there is nothing to remove.
			if _, gone := n.dir.lstat(n.temp); !errors.Is(gone, fs.ErrNotExist) {
				errs = append(errs, failure(path.Join(n.dir.name, n.temp), "removing a temporary file", err))
			}
		}
		if !slices.Contains(dirs, n.dir) {
			dirs = append(dirs, n.dir)
		}
	}
	for _, d := range dirs {
		errs = append(errs, a.r.sync(d))
	}
	return errors.Join(errs...)
}

// unmake removes the directories that were made, unless somebody has put something into
// them, and makes that durable.
func (a *applying) unmake() error {
	above := ""
	for _, dir := range slices.Backward(a.made) {
		if a.r.root.Remove(dir) == nil {
			above = path.Dir(dir)
		}
	}
	if above == "" {
		return nil
	}
	return a.r.syncFolder(above)
}

// back describes the files that undo put back, as far as they can be looked at.
func (a *applying) back(ctx context.Context) []session.FileState {
	var known []session.FileState
	for _, t := range a.undoing() {
		known = append(known, session.FileState{Path: t.Path, Wrote: true})
	}
	states, err := a.r.Stat(ctx, known)
	if err != nil {
		return nil
	}
	return states
}

// undoing lists the transitions that have happened, the last one perhaps, sources of
// renames included.
func (a *applying) undoing() (ts []session.Transition) {
	all := a.p.transitions()
	for i, n := range a.nodes {
		moved := slices.ContainsFunc(a.done, func(d *node) bool { return d.from() == n })
		if moved || slices.Contains(a.done, n) {
			ts = append(ts, all[i])
		}
	}
	return ts
}

// held gives pre-images from the handles that Prepare left open.
func (a *applying) held(hash string) (io.ReadCloser, error) {
	for _, n := range a.nodes {
		if n.f != nil && n.pre.Hash == hash {
			return io.NopCloser(n.reader()), nil
		}
	}
	return nil, fs.ErrNotExist
}

// states describes what Apply left, from the handles of what it put there.
func (a *applying) states() ([]session.FileState, error) {
	states := make([]session.FileState, 0, len(a.nodes))
	for _, n := range a.nodes {
		f := n.file()
		if f == nil {
			states = append(states, session.FileState{Path: n.path, Wrote: true})
			continue
		}
		now := a.r.now()
		st, err := fstat(f)
		if err = cmp.Or(a.r.effect("look at "+n.path), err); err != nil {
			return nil, unsettled("the files were changed as planned, but could not be looked at again", failure(n.path, "looking at it", err))
		}
		s := st.state(n.path, n.cur.image.Hash, now)
		s.Wrote = true
		states = append(states, s)
	}
	return states, nil
}

// file is what Apply put at n's path; nil: nothing.
func (n *node) file() *os.File {
	switch {
	case n.cur == nil:
		return nil
	case n.out == nil:
		return n.cur.origin.f
	}
	return n.out
}

// unsettled is a failure after which only Inspect can say what a step did. Its code is
// one that no step fails with.
func unsettled(message string, cause error) error {
	next := "check the disk, then resume"
	if errors.Is(cause, fs.ErrPermission) {
		next = "see what keeps files from being removed or renamed there (who may write, chattr), then resume"
	}
	return &session.Error{Code: session.ErrStoreIO, Message: message, Cause: cause, Next: session.Words(next)}
}
