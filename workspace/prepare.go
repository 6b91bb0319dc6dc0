package workspace

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/acode-dev/acode/session"
)

const (
	// maxEdit is the size in bytes of the largest file that an edit loads.
	maxEdit = 64 << 20
	// maxResult is the size in bytes of the largest result of an edit.
	maxResult = 256 << 20
	// newMode is the mode of a new file if the step gives none.
	newMode = 0o644
)

// prepared is the result of Prepare for one key, with everything that it opened.
type prepared struct {
	// nodes are in the order of first mention.
	nodes   []*node
	byPath  map[string]*node
	folders map[string]*folder
}

// node is one path of a group of changes: its file before them, and its content after
// them.
type node struct {
	path string
	// dir is nil while the directory does not exist.
	dir *folder
	// f is the file that was hashed, or nil if the path was absent.
	f *os.File
	// st and racy are of f.
	st   stat
	racy bool
	pre  session.Image
	// cur is nil if the path is to be absent.
	cur *content
	// temp is the name of the temporary file while there is one.
	temp string
	// out is the file that Apply put there.
	out *os.File
}

// content is the content of a path in the overlay: bytes, or the untouched file of a
// node, so that large files are never loaded.
type content struct {
	data []byte
	// If origin is not nil, the bytes are those of its file.
	origin *node
	image  session.Image
}

func (n *node) post() session.Image {
	if n.cur == nil {
		return session.Image{Kind: "absent"}
	}
	return n.cur.image
}

// from returns the node whose file becomes n's by a rename, or nil. The file disappears
// from its own path. A file that is overwritten in the same group, as in a swap, is
// copied instead. So every path always holds its pre-image or its post-image.
func (n *node) from() *node {
	if n.cur == nil || n.cur.origin == nil || n.cur.origin == n || n.cur.origin.cur != nil {
		return nil
	}
	return n.cur.origin
}

// moved reports whether n's file gets another name by a rename.
func (p *prepared) moved(n *node) bool {
	return slices.ContainsFunc(p.nodes, func(m *node) bool { return m.from() == n })
}

// Prepare works out the effect of changes and returns one Transition for each path, in
// the order of first mention. It keeps the files that it hashed open until Apply or
// Discard. Several changes may name one path. Each is checked against the result of
// those before it, and only the sum is applied.
//
// A move of an untouched file of any size becomes a rename (Transition.From). It
// replaces the file at its target. A write with mode 0 keeps the file's mode, or uses
// 0644. Prepare returns
//
//   - ErrFileStep if an edit does not match exactly once, or with All does not match at
//     all; if a file to edit, delete or move is missing; if a path is also a directory
//     of another path; or if a file of another user is set-user-ID,
//   - ErrEscape if a target is a symbolic link, is not a regular file or has more links.
func (r *Root) Prepare(ctx context.Context, key string, changes []session.Change) ([]session.Transition, error) {
	r.Discard(key)
	p := &prepared{byPath: map[string]*node{}, folders: map[string]*folder{}}
	if err := r.prepare(ctx, p, changes); err != nil {
		p.close()
		return nil, err
	}
	r.mu.Lock()
	r.prepared[key] = p
	r.mu.Unlock()
	return p.transitions(), nil
}

func (r *Root) prepare(ctx context.Context, p *prepared, changes []session.Change) error {
	for _, c := range changes {
		if err := r.plan(ctx, p, c); err != nil {
			return err
		}
	}
	if err := p.unambiguous(); err != nil {
		return err
	}
	return p.harmless()
}

// harmless returns an error if a new file, now or in a rollback, would replace a
// set-user-ID file of another user. The new file would have its mode and content, and
// run as the user of this process.
func (p *prepared) harmless() error {
	for _, n := range p.effective() {
		stays := n.cur != nil && n.cur.origin == n || p.moved(n)
		if n.f != nil && !stays && n.st.lends(uint32(os.Geteuid()), uint32(os.Getegid())) {
			return stepError(n.path, "the file is set-user-ID or set-group-ID and belongs to another user or group")
		}
	}
	return nil
}

// plan adds one change to the overlay.
func (r *Root) plan(ctx context.Context, p *prepared, c session.Change) error {
	name := c.Path
	if c.Op == session.KindMove {
		name = c.From
	}
	n, err := r.node(ctx, p, name)
	if err != nil {
		return err
	}
	if n.cur == nil && c.Op != session.KindWrite {
		return stepError(name, "no such file to "+string(c.Op))
	}
	switch c.Op {
	case session.KindWrite:
		n.cur = newContent([]byte(c.Content), n.mode(c.Mode))
	case session.KindEdit:
		return n.edit(ctx, c)
	case session.KindDelete:
		n.cur = nil
	case session.KindMove:
		to, err := r.node(ctx, p, c.To)
		if err != nil {
			return err
		}
		if to == n {
			return stepError(name, "the file would be moved to itself")
		}
		n.cur, to.cur = nil, n.cur
	default:
		return stepError(name, fmt.Sprintf("%q is not a file operation", c.Op))
	}
	return nil
}

func (n *node) mode(wanted uint32) uint32 {
	if wanted == 0 && n.cur != nil {
		return n.cur.image.Mode
	}
	return cmp.Or(wanted&permissionBits, newMode)
}

func newContent(data []byte, mode uint32) *content {
	sum := sha256.Sum256(data)
	return &content{data: data, image: session.Image{Kind: "file", Hash: hex.EncodeToString(sum[:]), Size: int64(len(data)), Mode: mode}}
}

// node returns the overlay's entry of name. If there is none, it opens and hashes the
// file at that path.
func (r *Root) node(ctx context.Context, p *prepared, name string) (*node, error) {
	c, err := cleanFile(name)
	if err != nil {
		return nil, err
	}
	if n := p.byPath[c]; n != nil {
		return n, nil
	}
	if err := p.below(c); err != nil {
		return nil, err
	}
	n := &node{path: c, pre: session.Image{Kind: "absent"}}
	if n.dir, err = r.parent(p, c); err != nil {
		return nil, failure(c, "opening its directory", err)
	}
	if n.dir != nil {
		if err := r.openNode(ctx, n); err != nil {
			n.close()
			return nil, failed(ctx, c, err)
		}
	}
	p.nodes = append(p.nodes, n)
	p.byPath[c] = n
	return n, nil
}

// below returns an error if another path of the group is a directory above name.
func (p *prepared) below(name string) error {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if p.byPath[dir] != nil {
			return stepError(name, dir+" is changed as a file and used as a directory")
		}
	}
	return nil
}

// parent opens the directory of name once. It returns nil if the directory does not
// exist.
func (r *Root) parent(p *prepared, name string) (*folder, error) {
	dir := path.Dir(name)
	if d, ok := p.folders[dir]; ok {
		return d, nil
	}
	d, err := r.folder(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, r.creatable(dir)
	}
	if err != nil {
		return nil, err
	}
	p.folders[dir] = d
	return d, nil
}

// creatable checks that the missing directory dir could be made. No part of its path
// may be something else, such as a symbolic link to nowhere.
func (r *Root) creatable(dir string) error {
	for ; dir != "."; dir = path.Dir(dir) {
		info, err := r.root.Lstat(dir)
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return escape(dir, "the directory is a symbolic link to nowhere")
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// openNode opens and hashes the file at n, if there is one.
func (r *Root) openNode(ctx context.Context, n *node) error {
	f, _, err := n.dir.open(path.Base(n.path), 1)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	n.f = f
	state, st, err := r.hash(ctx, f, n.path)
	if err != nil {
		return err
	}
	n.st, n.racy = st, state.Racy
	n.pre = session.Image{Kind: "file", Hash: state.Hash, Size: state.Size, Mode: state.Mode}
	n.cur = &content{origin: n, image: n.pre}
	return nil
}

// unambiguous returns an error if a path is also a directory above another path, or if
// two paths name one file.
func (p *prepared) unambiguous() error {
	places := map[string]*node{}
	for _, n := range p.nodes {
		if err := p.below(n.path); err != nil {
			return err
		}
		if n.dir == nil {
			continue
		}
		place := fmt.Sprintf("%d/%d/%s", n.dir.st.dev, n.dir.st.ino, path.Base(n.path))
		if n.f != nil {
			place = fmt.Sprintf("%d/%d", n.st.dev, n.st.ino)
		}
		if other := places[place]; other != nil {
			return sameFile(n, other)
		}
		places[place] = n
	}
	return nil
}

func sameFile(n, other *node) error {
	return stepError(n.path, "the path names the same file as "+other.path)
}

// transitions returns the sum of the changes. It leaves out a path that was absent and
// is absent again.
func (p *prepared) transitions() []session.Transition {
	var ts []session.Transition
	for _, n := range p.effective() {
		t := session.Transition{Path: n.path, Pre: n.pre, Post: n.post()}
		if from := n.from(); from != nil {
			t.From = from.path
		}
		ts = append(ts, t)
	}
	return ts
}

// effective returns the nodes that have a transition.
func (p *prepared) effective() (nodes []*node) {
	for _, n := range p.nodes {
		if n.f != nil || n.cur != nil {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// Image reads the content with this hash that Prepare found at path or worked out for
// it. Content that Prepare found comes from the same handle. The reader ends with
// ErrFileChanged if a file no longer has that content.
func (r *Root) Image(name, hash string) (io.Reader, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.prepared {
		n := p.byPath[path.Clean(name)]
		switch {
		case n == nil:
		case n.f != nil && n.pre.Hash == hash:
			return n.reader(), nil
		case n.cur != nil && n.cur.image.Hash == hash:
			return n.cur.reader(), nil
		}
	}
	return nil, fmt.Errorf("read the content of %q before or after its change: it was not prepared, or has another hash", name)
}

// reader reads the content from its start.
func (c *content) reader() io.Reader {
	if c.origin != nil {
		return c.origin.reader()
	}
	return bytes.NewReader(c.data)
}

// reader reads the hashed file of n from its start, independent of other readers.
func (n *node) reader() io.Reader {
	return &verified{r: io.NewSectionReader(n.f, 0, n.pre.Size+1), sum: sha256.New(), want: n.pre.Hash, name: n.path}
}

// Discard closes everything that Prepare opened for key. It ignores unknown keys.
func (r *Root) Discard(key string) {
	r.mu.Lock()
	p := r.prepared[key]
	delete(r.prepared, key)
	r.mu.Unlock()
	if p != nil {
		p.close()
	}
}

func (p *prepared) close() {
	for _, n := range p.nodes {
		n.close()
	}
	for _, d := range p.folders {
		d.close()
	}
}

func (n *node) close() {
	for _, f := range []*os.File{n.f, n.out} {
		if f != nil {
			// its content has been synced before
			_ = f.Close()
		}
	}
	n.f, n.out = nil, nil
}
