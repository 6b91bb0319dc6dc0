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
	// bytes of a file that an edit loads
	maxEdit = 64 << 20
	// bytes that an edit may make of it
	maxResult = 256 << 20
	// of a file that is new and whose mode nobody gave
	newMode = 0o644
)

// prepared is what Prepare worked out for one key, with all that it opened.
type prepared struct {
	// in the order of first mention
	nodes   []*node
	byPath  map[string]*node
	folders map[string]*folder
}

// node is one path of a group of changes: what it held, and what it will hold.
type node struct {
	path string
	// nil while the directory does not exist
	dir *folder
	// what was hashed; nil when the path was absent
	f *os.File
	// of f
	st   stat
	racy bool
	pre  session.Image
	// nil: absent
	cur *content
	// name of the temporary file, while there is one
	temp string
	// the file that Apply put there
	out *os.File
}

// content is what a path holds in the overlay: bytes, or the untouched file of some node,
// so that large files are never loaded.
type content struct {
	data []byte
	// when not nil, the bytes are those of its file
	origin *node
	image  session.Image
}

func (n *node) post() session.Image {
	if n.cur == nil {
		return session.Image{Kind: "absent"}
	}
	return n.cur.image
}

// from is the node whose file becomes n's by a rename: it disappears under its own name.
// A file that is overwritten in the same group, as in a swap, is copied instead, so that
// no path is ever something that is neither its pre- nor its post-image.
func (n *node) from() *node {
	if n.cur == nil || n.cur.origin == nil || n.cur.origin == n || n.cur.origin.cur != nil {
		return nil
	}
	return n.cur.origin
}

// moved reports whether n's file goes on living under another name, by a rename.
func (p *prepared) moved(n *node) bool {
	return slices.ContainsFunc(p.nodes, func(m *node) bool { return m.from() == n })
}

// Prepare works out what changes would do now, one Transition a path in the order of
// first mention, and keeps open what it hashed until Apply or Discard. Several changes
// may concern one path: each is judged on what the ones before it leave, and only the sum
// is applied.
//
// A move of an untouched file becomes a rename (Transition.From), whatever its size; it
// replaces what lies at its target. A write with mode 0 keeps the file's mode, or gives
// 0644. It returns ErrFileStep when an edit does not match exactly once (or at all, with
// All), a file to edit, delete or move is missing, or a path is also a directory of
// another, or a file of somebody else is set-user-ID; ErrEscape for a target that is a
// symbolic link, irregular or has further links.
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

// harmless refuses to put a new file, now or in a rollback, in the place of one that is
// set-user-ID of somebody else: it would have its mode and content, and run as this
// process.
func (p *prepared) harmless() error {
	for _, n := range p.effective() {
		stays := n.cur != nil && n.cur.origin == n || p.moved(n)
		if n.f != nil && !stays && n.st.lends(uint32(os.Geteuid()), uint32(os.Getegid())) {
			return stepError(n.path, "the file is set-user-ID or set-group-ID and another's")
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
		return stepError(name, fmt.Sprintf("%q is no change of files", c.Op))
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

// node finds the overlay's entry of name, or opens and hashes what lies there.
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

// below refuses name where another path of the group is a directory of it.
func (p *prepared) below(name string) error {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if p.byPath[dir] != nil {
			return stepError(name, dir+" is changed as a file and used as a directory")
		}
	}
	return nil
}

// parent opens the directory of name once; it is nil when it does not exist.
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

// creatable checks that the missing directory dir could be made: that no part of its path
// is something else, like a symbolic link to nowhere.
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

// openNode opens and hashes what lies at n, if anything does.
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

// unambiguous refuses groups in which a path is also a directory of another path, or two
// paths are two names of one place.
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

// transitions gives the sum of the changes. A path that was absent and is again says
// nothing.
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

// effective lists the nodes that a transition stands for.
func (p *prepared) effective() (nodes []*node) {
	for _, n := range p.nodes {
		if n.f != nil || n.cur != nil {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// Image reads the content with this hash that Prepare found at path or worked out for it:
// what it found from the same handle. The reader ends with ErrFileChanged if a file no
// longer has that content.
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
	return nil, fmt.Errorf("read the content of %q before or after its change: it was not prepared, or is another", name)
}

// reader reads the content from its start.
func (c *content) reader() io.Reader {
	if c.origin != nil {
		return c.origin.reader()
	}
	return bytes.NewReader(c.data)
}

// reader reads what was hashed at n from its start, whatever else reads it.
func (n *node) reader() io.Reader {
	return &verified{r: io.NewSectionReader(n.f, 0, n.pre.Size+1), sum: sha256.New(), want: n.pre.Hash, name: n.path}
}

// Discard gives up what Prepare opened for key; unknown keys are ignored.
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
			_ = f.Close() // what was written has been synced before
		}
	}
	n.f, n.out = nil, nil
}
