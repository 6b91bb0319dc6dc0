package crash

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// node is a file, directory or symbolic link of the model, whatever its names.
type node struct {
	id     int
	kind   fs.FileMode
	target string
}

// content is the state of a node: bytes of a file, or entries of a directory.
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
	// tick at which the call had returned
	ended uint64
	label string
	// entry that appears; of a drop, that goes
	name string
	// entry that goes when name appears, in one step
	from string
	// what name then stands for
	child *node
	off   int64
	// new length, or the number of zeros
	size int64
	data []byte
	mode fs.FileMode
	// a rename's entry elsewhere: without it this one cannot be there
	needs *change
}

// effect says what a change does.
type effect int

const (
	effectPut effect = iota + 1
	effectDrop
	effectWrite
	// set the length
	effectSize
	// put zeros at off; size of them
	effectZero
	// make the length at least size
	effectGrow
	effectMode
)

// onEntries reports whether the change belongs to a directory, whose changes become
// durable in order.
func (c *change) onEntries() bool { return c.what == effectPut || c.what == effectDrop }

// apply does a change to a state that the caller owns.
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
		return b[:n:n] // bytes beyond a cut must come back as zeros
	}
	return append(b, make([]byte, n-int64(len(b)))...)
}

// model follows calls and keeps apart what programs see and what a power cut leaves for
// certain. The contents in durable are never changed in place, so that a snapshot of the
// map stays what it is.
type model struct {
	// names and root of the beginning
	tree    Tree
	root    *node
	nodes   int
	byInode map[Inode]*node
	now     map[*node]*content
	durable map[*node]content
	// in the order in which their calls ended
	pending []*change
}

// newModel begins with a tree that is wholly durable.
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

// add makes a node that has no name yet.
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

// lookup finds a node by its name; nil when there is none.
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

// do makes a change visible, and pending.
func (m *model) do(c *change) *change {
	c.apply(m.now[c.on])
	m.pending = append(m.pending, c)
	return c
}

// sync makes durable what had been done to n before a tick.
func (m *model) sync(n *node, before uint64) {
	m.settle(func(c *change) bool { return c.on == n && c.ended < before })
}

// settle makes the pending changes that match durable, and with them the entries that
// they need, which appear with everything that was done to their directory before.
func (m *model) settle(match func(*change) bool) {
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
