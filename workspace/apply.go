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

// Apply carries out the changes that Prepare worked out under key. It returns the files
// as they are then, one for each transition. When it returns nil, the files and the
// directories that name them are durable (W4).
//
// Apply returns ErrFileChanged, with nothing changed, if a path no longer holds the
// file that was hashed. It undoes any other failure before it returns, and returns the
// files that it put back as they are now: with their old content and new times. On a
// file system that ignores case, two paths may turn out to be one new file, which is
// ErrFileStep. Apply returns ErrStoreIO if it could not undo a change, or could not
// check its own work. The step has not failed then, and Inspect says how far it got.
//
// Apply works in this order: missing directories; temporary files with their content,
// mode and fsync; a last check of every path; renames and unlinks; one fsync for each
// directory. So a write or edit costs two fsyncs, a delete one, and a move one for each
// directory. A group costs one for each written file and one for each directory. Each
// new directory costs one more, of its parent. A written file is a new file with the
// given content and mode. It does not keep another owner or extended attributes.
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
	// made lists the new directories, outermost first.
	made []string
	// done lists the nodes whose path has changed. The change of the last one may have
	// failed.
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

// parents makes the missing directories above n.
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

// stage writes the temporary file of n. It does nothing if n gets its content by a
// rename or keeps it.
func (a *applying) stage(ctx context.Context, i int, n *node) error {
	if n.cur == nil || n.from() != nil || n.cur.origin == n {
		return nil
	}
	n.temp = tempName(a.key, i)
	var err error
	n.out, err = a.r.writeTemp(ctx, n.dir, n.temp, n.cur.reader(), n.cur.image.Mode)
	return err
}

// unchanged checks that n's path still is the file that was hashed (FILE-001): in the
// same directory, with the same times. If the times could hide a change, it reads the
// file again.
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

// commit gives n's path its post-image. A path that a rename empties changes with the
// rename's target.
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

// step checks n again, and the file that n gets, and then changes n's path. A change
// that returns an error may have been made nevertheless, because the answer can get
// lost. So undo looks at the path.
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

// twice returns the error for a path that was empty and now holds a file that a.done
// put there under another name. This happens on a file system that ignores case, and
// cannot be detected earlier.
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

// still is the cheap half of unchanged, for the moment before a change.
func (r *Root) still(n *node) error {
	st, err := n.dir.lstat(path.Base(n.path))
	absent := errors.Is(err, fs.ErrNotExist)
	switch {
	case err != nil && !absent:
		return failure(n.path, "looking at it", err)
	case absent && n.f != nil:
		return fileChanged(n.path, "the file disappeared after it was hashed")
	case !absent && n.f == nil:
		return fileChanged(n.path, "the file appeared after the path was checked")
	case !absent && st != n.st:
		return fileChanged(n.path, "the file was modified after it was hashed")
	}
	return nil
}

// sync makes the directories durable. Directories that received a file come before
// those that lost one.
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

// undo puts everything back after cause and returns the error for Apply.
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
		return unsettled("a change failed, and the changes before it could not all be undone; pre-images are kept", errors.Join(cause, err))
	}
	return cause
}

// discard removes the temporary files and makes the removal durable. The next attempt
// uses other names for its own, so it would not find a file that a power cut brings
// back.
func (a *applying) discard() error {
	var dirs []*folder
	var errs []error
	for _, n := range a.nodes {
		if n.temp == "" {
			continue
		}
		if err := unix.Unlinkat(n.dir.fd(), n.temp, 0); err != nil {
			// A read-only file system refuses the call even if there is no file to
			// remove.
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

// unmake removes the directories that were made, unless another process has put
// something into them. It makes the removal durable.
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

// back returns the state of the files that undo put back. It returns nil if they cannot
// be examined.
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

// undoing returns the transitions that have happened, including the sources of renames.
// The last one may have failed.
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

// held returns pre-images from the handles that Prepare left open.
func (a *applying) held(hash string) (io.ReadCloser, error) {
	for _, n := range a.nodes {
		if n.f != nil && n.pre.Hash == hash {
			return io.NopCloser(n.reader()), nil
		}
	}
	return nil, fs.ErrNotExist
}

// states returns the state of the files after Apply, from the handles of these files.
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
			return nil, unsettled("the files were changed as planned, but could not be checked afterwards", failure(n.path, "looking at it", err))
		}
		s := st.state(n.path, n.cur.image.Hash, now)
		s.Wrote = true
		states = append(states, s)
	}
	return states, nil
}

// file returns the file that Apply put at n's path, or nil for none.
func (n *node) file() *os.File {
	switch {
	case n.cur == nil:
		return nil
	case n.out == nil:
		return n.cur.origin.f
	}
	return n.out
}

// unsettled returns the error for a failure after which only Inspect can say how far a
// step got. No step fails with its code.
func unsettled(message string, cause error) error {
	next := "check the disk, then resume"
	if errors.Is(cause, fs.ErrPermission) {
		next = "find out why files cannot be removed or renamed there (permissions, chattr), then resume"
	}
	return &session.Error{Code: session.ErrStoreIO, Message: message, Cause: cause, Next: session.Words(next)}
}
