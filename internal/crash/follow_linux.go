package crash

import (
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// step applies one call to the model. It reports whether the call changed the possible
// states after a power cut.
func (m *model) step(c Call) (changed bool, err error) {
	effect := m.effectOf(c.Kind)
	if effect == nil || c.Ending == Prevented || c.Ending == Returned && c.Ret < 0 {
		return false, nil
	}
	// The program ended before the sync returned, so nothing was promised.
	if c.Ending == Interrupted && (c.Kind == KindSync || c.Kind == KindSyncAll) {
		return false, nil
	}
	if c.Ending == Interrupted {
		return false, fmt.Errorf("model: the effect of this call is unknown: %v", c)
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

// effectOf returns the method for a kind of call, or nil if the kind changes nothing.
func (m *model) effectOf(k Kind) func(Call, []string) error {
	return map[Kind]func(Call, []string) error{
		KindOpen: m.open, KindWrite: m.write, KindCopy: m.write, KindTruncate: m.truncate,
		KindAllocate: m.allocate, KindSync: m.syncOne, KindSyncAll: m.syncAll, KindRename: m.rename,
		KindLink: m.link, KindUnlink: m.unlink, KindRmdir: m.unlink, KindSymlink: m.create,
		KindMkdir: m.create, KindChmod: m.chmod,
	}[k]
}

// file finds the node of a call on a file.
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
	// An overlapping call created the file; its record follows.
	if known == nil && m.byInode[c.Inode] == nil {
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

// create makes a file, directory or link. It replaces a node with the same inode number,
// whose file no longer exists.
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

// name adds a name to a node.
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
	// O_SYNC contains O_DSYNC.
	if c.Flags&unix.O_DSYNC != 0 {
		m.persist(func(p *change) bool { return p == done || p.on == n && p.ended < c.Begin })
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
	m.persist(func(p *change) bool { return p.ended < c.Begin })
	return nil
}

// rename is one step within a directory. Between two directories the new name may exist
// while the old one is still there, but never the reverse.
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
	// POSIX does nothing if both names are of one file.
	if m.now[to].entries[base] == n {
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
