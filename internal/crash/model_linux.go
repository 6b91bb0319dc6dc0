package crash

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
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
	what  effect
	on    *node
	ended uint64 // tick at which the call had returned
	label string
	name  string // entry that appears; of a drop, that goes
	from  string // entry that goes when name appears, in one step
	child *node  // what name then stands for
	off   int64
	size  int64 // new length, or the number of zeros
	data  []byte
	mode  fs.FileMode
	needs *change // a rename's entry elsewhere: without it this one cannot be there
}

// effect says what a change does.
type effect int

const (
	effectPut effect = iota + 1
	effectDrop
	effectWrite
	effectSize // set the length
	effectZero // put zeros at off; size of them
	effectGrow // make the length at least size
	effectMode
)

// onEntries reports whether the change belongs to a directory, whose changes become durable
// in order.
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
	tree    Tree // names and root of the beginning
	root    *node
	nodes   int
	byInode map[Inode]*node
	now     map[*node]*content
	durable map[*node]content
	pending []*change // in the order in which their calls ended
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

// settle makes the pending changes that match durable, and with them the entries that they
// need, which appear with everything that was done to their directory before.
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

// step follows one call. It reports whether the call changed what a power cut can leave.
func (m *model) step(c Call) (changed bool, err error) {
	effect := m.effectOf(c.Kind)
	if effect == nil || c.Ending == Prevented || c.Ending == Returned && c.Ret < 0 {
		return false, nil
	}
	if c.Ending == Interrupted {
		return false, fmt.Errorf("model: nobody knows what this did: %v", c)
	}
	names := []string{c.Path}
	if c.NewPath != "" {
		names = append(names, c.NewPath)
	}
	inside := 0
	for i, abs := range names {
		rel, ok := m.tree.relative(abs)
		names[i] = rel
		if ok {
			inside++
		}
	}
	switch {
	case inside == 0 && c.Kind != KindSyncAll:
		return false, nil
	case inside == 1 && c.Kind == KindRename:
		return false, fmt.Errorf("model: renamed over the border of %s: %v", m.tree.Root, c)
	}
	if err := effect(c, names); err != nil {
		return false, fmt.Errorf("%w (%v)", err, c)
	}
	return true, nil
}

// effectOf gives the method that follows a kind of call; nil when it changes nothing.
func (m *model) effectOf(k Kind) func(Call, []string) error {
	return map[Kind]func(Call, []string) error{
		KindOpen: m.open, KindWrite: m.write, KindCopy: m.write, KindTruncate: m.truncate,
		KindAllocate: m.allocate, KindSync: m.syncOne, KindSyncAll: m.syncAll, KindRename: m.rename,
		KindLink: m.link, KindUnlink: m.unlink, KindRmdir: m.unlink, KindSymlink: m.create,
		KindMkdir: m.create, KindChmod: m.chmod,
	}[k]
}

// file finds the node of a call that works on a file.
func (m *model) file(c Call, name string) (*node, error) {
	if n := m.byInode[c.Inode]; n != nil {
		return n, nil
	}
	if n := m.lookup(name); n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("model: no file for %s", name)
}

func (m *model) open(c Call, names []string) error {
	known := m.lookup(names[0])
	if c.Created && (known == nil || known != m.byInode[c.Inode]) {
		return m.create(c, names)
	}
	if known == nil && m.byInode[c.Inode] == nil { // made by an overlapping call, whose record follows
		return m.create(c, names)
	}
	if c.Flags&unix.O_TRUNC == 0 {
		return nil
	}
	n, err := m.file(c, names[0])
	if err == nil {
		m.do(&change{what: effectSize, on: n, ended: c.End, label: "truncate " + names[0]})
	}
	return err
}

// create makes a file, directory or link. Its inode is taken anew: the file that had the
// number before is gone.
func (m *model) create(c Call, names []string) error {
	mode := fs.FileMode(c.Mode).Perm()
	switch c.Kind {
	case KindMkdir:
		mode |= fs.ModeDir
	case KindSymlink:
		mode = fs.ModeSymlink | 0o777
	}
	n := m.add(c.Inode, mode)
	n.target = c.Target
	if c.Kind == KindOpen && c.Flags&openTMPFILE != 0 {
		return nil
	}
	return m.name(c, names[0], n)
}

// name gives a node one more name.
func (m *model) name(c Call, name string, n *node) error {
	dir, base, err := m.parent(name)
	if err == nil {
		m.do(&change{what: effectPut, on: dir, ended: c.End, label: c.Name + " " + name, name: base, child: n})
	}
	return err
}

func (m *model) write(c Call, names []string) error {
	n, err := m.file(c, names[0])
	if err != nil {
		return err
	}
	label := fmt.Sprintf("%s %s [%d+%d]", c.Name, names[0], c.Offset, len(c.Data))
	done := m.do(&change{what: effectWrite, on: n, ended: c.End, label: label, off: c.Offset, data: c.Data})
	if c.Flags&unix.O_DSYNC != 0 { // O_SYNC contains it
		m.settle(func(p *change) bool { return p == done || p.on == n && p.ended < c.Begin })
	}
	return nil
}

func (m *model) truncate(c Call, names []string) error {
	n, err := m.file(c, names[0])
	if err == nil {
		label := fmt.Sprintf("%s %s to %d", c.Name, names[0], c.Offset)
		m.do(&change{what: effectSize, on: n, ended: c.End, label: label, size: c.Offset})
	}
	return err
}

func (m *model) allocate(c Call, names []string) error {
	n, err := m.file(c, names[0])
	if err != nil {
		return err
	}
	ch := &change{what: effectGrow, on: n, ended: c.End, label: c.Name + " " + names[0], off: c.Offset}
	switch c.Flags {
	case 0:
		ch.size = c.Offset + c.Length
	case unix.FALLOC_FL_KEEP_SIZE:
	case unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE, unix.FALLOC_FL_ZERO_RANGE | unix.FALLOC_FL_KEEP_SIZE:
		ch.what, ch.size = effectZero, c.Length
	default:
		return fmt.Errorf("model: mode %#x of fallocate is unknown", c.Flags)
	}
	m.do(ch)
	return nil
}

func (m *model) syncOne(c Call, names []string) error {
	n, err := m.file(c, names[0])
	if err == nil {
		m.sync(n, c.Begin)
	}
	return err
}

func (m *model) syncAll(c Call, _ []string) error {
	m.settle(func(p *change) bool { return p.ended < c.Begin })
	return nil
}

// rename is one step within a directory. Between two directories the new name may be there
// without the old one being gone, but never the reverse.
func (m *model) rename(c Call, names []string) error {
	from, old, err := m.parent(names[0])
	if err != nil {
		return err
	}
	to, base, err := m.parent(names[1])
	if err != nil {
		return err
	}
	n := m.now[from].entries[old]
	if n == nil || c.Flags&unix.RENAME_EXCHANGE != 0 {
		return fmt.Errorf("model: cannot rename %s", names[0])
	}
	if m.now[to].entries[base] == n { // two names of one file: POSIX does nothing
		return nil
	}
	label := fmt.Sprintf("%s %s -> %s", c.Name, names[0], names[1])
	put := &change{what: effectPut, on: to, ended: c.End, label: label, name: base, child: n}
	if from == to {
		put.from = old
		m.do(put)
		return nil
	}
	m.do(put)
	m.do(&change{what: effectDrop, on: from, ended: c.End, label: label + " (old name)", name: old, needs: put})
	return nil
}

func (m *model) link(c Call, names []string) error {
	n, err := m.file(c, names[0])
	if err != nil {
		return err
	}
	return m.name(c, names[1], n)
}

func (m *model) unlink(c Call, names []string) error {
	dir, base, err := m.parent(names[0])
	if err == nil {
		m.do(&change{what: effectDrop, on: dir, ended: c.End, label: c.Name + " " + names[0], name: base})
	}
	return err
}

func (m *model) chmod(c Call, names []string) error {
	n, err := m.file(c, names[0])
	if err == nil {
		mode := fs.FileMode(c.Mode).Perm()
		m.do(&change{what: effectMode, on: n, ended: c.End, label: c.Name + " " + names[0], mode: mode})
	}
	return err
}
