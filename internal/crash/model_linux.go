package crash

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// node is a file, directory or symbolic link of the model, with any number of names.
type node struct {
	id     int
	kind   fs.FileMode
	target string
}

// content is the state of a node: the bytes of a file or the entries of a directory.
type content struct {
	mode    fs.FileMode
	data    []byte
	entries map[string]*node
}

func (c content) clone() content {
	return content{mode: c.mode, data: slices.Clone(c.data), entries: maps.Clone(c.entries)}
}

// change is the effect of a call on one node that is not durable yet.
type change struct {
	what effect
	on   *node
	// ended is the tick at which the call returned.
	ended uint64
	label string
	// name is the entry that appears or, for a drop, disappears.
	name string
	// from is the entry that disappears in the same step when name appears.
	from string
	// child is the node that name then refers to.
	child *node
	off   int64
	// size is the new length, or the number of zeros.
	size int64
	data []byte
	mode fs.FileMode
	// needs is the other half of a rename: without it this change cannot survive.
	needs *change
}

// effect is the kind of a change.
type effect int

const (
	effectPut effect = iota + 1
	effectDrop
	effectWrite
	// effectSize sets the length.
	effectSize
	// effectZero puts size zeros at off.
	effectZero
	// effectGrow makes the length at least size.
	effectGrow
	effectMode
)

// onEntries reports whether the change belongs to a directory. The changes of a directory
// become durable in order.
func (c *change) onEntries() bool { return c.what == effectPut || c.what == effectDrop }

// apply applies a change to a state that the caller owns.
func (c *change) apply(to *content) {
	switch c.what {
	case effectPut:
		if c.from != "" {
			delete(to.entries, c.from)
		}
		to.entries[c.name] = c.child
	case effectDrop:
		delete(to.entries, c.name)
	case effectWrite:
		to.data = overwrite(to.data, c.off, c.data)
	case effectSize:
		to.data = resized(to.data, c.size)
	case effectZero:
		if end := min(c.off+c.size, int64(len(to.data))); c.off < end {
			clear(to.data[c.off:end])
		}
	case effectGrow:
		to.data = resized(to.data, max(c.size, int64(len(to.data))))
	case effectMode:
		to.mode = c.mode
	}
}

func overwrite(b []byte, off int64, data []byte) []byte {
	b = resized(b, max(int64(len(b)), off+int64(len(data))))
	copy(b[off:], data)
	return b
}

func resized(b []byte, n int64) []byte {
	if n <= int64(len(b)) {
		// Bytes beyond a cut must return as zeros.
		return b[:n:n]
	}
	return append(b, make([]byte, n-int64(len(b)))...)
}

// model applies calls. It separates the state that programs see from the state that
// surely survives a power cut. The contents in durable are never changed in place, so a
// copy of the map stays valid.
type model struct {
	// tree holds the initial names and root.
	tree    Tree
	root    *node
	nodes   int
	byInode map[Inode]*node
	now     map[*node]*content
	durable map[*node]content
	// pending is in the order in which the calls ended.
	pending []*change
}

// newModel starts with a tree that is wholly durable.
func newModel(initial Tree) (*model, error) {
	m := &model{tree: initial, byInode: map[Inode]*node{}, now: map[*node]*content{}, durable: map[*node]content{}}
	for _, name := range slices.Sorted(maps.Keys(initial.Files)) {
		f := initial.Files[name]
		n := m.byInode[f.Inode]
		if n == nil {
			n = m.add(f.Inode, f.Mode)
			n.target = f.Target
			m.now[n].data = slices.Clone(f.Data)
		}
		if name == "." {
			m.root = n
			continue
		}
		dir, base, err := m.parent(name)
		if err != nil {
			return nil, err
		}
		m.now[dir].entries[base] = n
	}
	if m.root == nil || m.root.kind != fs.ModeDir {
		return nil, fmt.Errorf("model %s: the tree has no root directory", initial.Root)
	}
	for n, c := range m.now {
		m.durable[n] = c.clone()
	}
	return m, nil
}

// add makes a node without a name.
func (m *model) add(i Inode, mode fs.FileMode) *node {
	m.nodes++
	n := &node{id: m.nodes, kind: mode.Type()}
	c := content{mode: mode.Perm()}
	if n.kind == fs.ModeDir {
		c.entries = map[string]*node{}
	}
	m.byInode[i], m.now[n], m.durable[n] = n, &c, c.clone()
	return n
}

// parent finds the directory that holds a name.
func (m *model) parent(name string) (*node, string, error) {
	dir, base := path.Split(name)
	n := m.root
	for elem := range strings.SplitSeq(strings.TrimSuffix(dir, "/"), "/") {
		if elem != "" && n != nil {
			n = m.now[n].entries[elem]
		}
	}
	if n == nil || n.kind != fs.ModeDir {
		return nil, "", fmt.Errorf("model: no directory for %s", name)
	}
	return n, base, nil
}

// lookup finds a node by its name, or returns nil.
func (m *model) lookup(name string) *node {
	if name == "." {
		return m.root
	}
	dir, base, err := m.parent(name)
	if err != nil {
		return nil
	}
	return m.now[dir].entries[base]
}

// do applies a change and makes it pending.
func (m *model) do(c *change) *change {
	c.apply(m.now[c.on])
	m.pending = append(m.pending, c)
	return c
}

// sync makes the changes to n from before a tick durable.
func (m *model) sync(n *node, before uint64) {
	m.persist(func(c *change) bool { return c.on == n && c.ended < before })
}

// persist makes the pending changes that match durable, and the entries that they need.
// Such an entry becomes durable with all earlier changes of its directory.
func (m *model) persist(match func(*change) bool) {
	chosen := map[*change]bool{}
	for i := len(m.pending) - 1; i >= 0; i-- {
		c := m.pending[i]
		if !match(c) && !chosen[c] {
			continue
		}
		chosen[c] = true
		if c.needs == nil {
			continue
		}
		for _, earlier := range m.pending[:i] {
			if earlier.on == c.needs.on {
				chosen[earlier] = true
			}
			if earlier == c.needs {
				break
			}
		}
	}
	owned := map[*node]*content{}
	var rest []*change
	for _, c := range m.pending {
		if !chosen[c] {
			rest = append(rest, c)
			continue
		}
		if owned[c.on] == nil {
			copied := m.durable[c.on].clone()
			owned[c.on] = &copied
		}
		c.apply(owned[c.on])
	}
	for n, c := range owned {
		m.durable[n] = *c
	}
	m.pending = rest
}
