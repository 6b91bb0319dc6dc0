package crash

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// roots are the directories below which a file counts.
type roots []string

// newRoots resolves the directories to the names that the kernel reports.
func newRoots(dirs []string) roots {
	var r roots
	for _, d := range dirs {
		if abs, err := filepath.Abs(d); err == nil {
			d = abs
		}
		if real, err := filepath.EvalSymlinks(d); err == nil {
			d = real
		}
		r = append(r, d)
	}
	return r
}

// hold reports whether path is a root or below one, and is kept by a disk.
func (r roots) hold(path string) bool {
	if strings.HasSuffix(path, sharedMemorySuffix) {
		return false
	}
	for _, d := range r {
		if path == d || strings.HasPrefix(path, strings.TrimSuffix(d, "/")+"/") {
			return true
		}
	}
	return false
}

// describe predicts the effect of the call at its entry. ok is false for a call that is
// not durable: it changes nothing below the roots, and is no lock, start, request or
// output.
func (r roots) describe(t tracee, sh shape, regs [6]uint64) (c Call, ok bool) {
	a := sh.args(regs)
	c = Call{TID: int(t), Kind: sh.kind, Name: sh.name, FD: a.fd, Flags: a.flags, Mode: a.mode,
		Offset: a.offset, Length: int64(a.length)}
	switch sh.kind {
	case KindOpen:
		return r.describeOpen(t, a, c)
	case KindWrite, KindCopy:
		return r.describeWrite(t, a, c)
	case KindSend:
		return describeSend(t, a, c)
	case KindExec:
		c.Path, c.Data = t.resolve(a.dir, t.text(a.path), true), t.argv(a.buf)
		return c, true
	}
	if a.path != 0 {
		return r.describeNames(t, a, c)
	}
	// This is sync.
	if a.fd < 0 {
		return c, true
	}
	path, st, open := t.file(a.fd)
	c.Path, c.Inode = path, inodeOf(st)
	return c, open && r.hold(path)
}

func inodeOf(st unix.Stat_t) Inode { return Inode{Dev: uint64(st.Dev), Ino: st.Ino} }

// named returns the file at a path. It does not follow a symbolic link there.
func named(path string) (Inode, bool) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	return inodeOf(st), err == nil
}

func (r roots) describeOpen(t tracee, a arguments, c Call) (Call, bool) {
	// openat2 keeps flags and mode in memory.
	if a.buf != 0 {
		c.Flags, c.Mode = int(t.word(a.buf)), uint32(t.word(a.buf+8))
	}
	if c.Flags&openMask == 0 {
		return c, false
	}
	const exact = unix.O_NOFOLLOW | unix.O_EXCL
	c.Path = t.resolve(a.dir, t.text(a.path), c.Flags&exact == 0)
	if c.Flags&openTMPFILE != 0 {
		c.Created = true
		return c, r.hold(c.Path)
	}
	inode, there := named(c.Path)
	c.Inode, c.Created = inode, !there && c.Flags&unix.O_CREAT != 0
	return c, r.hold(c.Path)
}

func (r roots) describeWrite(t tracee, a arguments, c Call) (Call, bool) {
	link, err := os.Readlink(t.fdLink(a.fd))
	if err != nil {
		return c, false
	}
	if !r.hold(link) {
		return describeOutput(t, a, c, link)
	}
	path, st, open := t.file(a.fd)
	if !open || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return c, false
	}
	c.Path, c.Inode = path, inodeOf(st)
	pos, flags := t.position(a.fd)
	c.Flags = flags
	switch {
	case flags&unix.O_APPEND != 0 && c.Name != "pwrite64":
		c.Offset = st.Size
	case a.here:
		c.Offset = pos
	case c.Name == "copy_file_range":
		c.Offset = int64(t.word(a.buf))
	}
	if c.Kind == KindWrite {
		c.Data = payload(t, a)
		c.Length = int64(len(c.Data))
	}
	return c, true
}

// describeOutput describes a write to a file outside the roots: a request over a unix
// socket, or output for the user.
func describeOutput(t tracee, a arguments, c Call, link string) (Call, bool) {
	if name, ok := t.unixSocket(link); ok {
		c.Kind, c.Path, c.Data = KindSend, name, payload(t, a)
		return c, true
	}
	if (a.fd != 1 && a.fd != 2) || link == os.DevNull {
		return c, false
	}
	c.Kind, c.Path, c.Data = KindAck, link, payload(t, a)
	return c, true
}

func payload(t tracee, a arguments) []byte {
	if a.vector {
		return t.vector(a.buf, a.length)
	}
	return t.read(a.buf, a.length)
}

// describeSend describes a call that applies only to sockets. Only unix sockets count.
func describeSend(t tracee, a arguments, c Call) (Call, bool) {
	// connect and bind carry an address.
	if a.path != 0 {
		b := t.read(a.path, a.length)
		if len(b) < 2 || binary.NativeEndian.Uint16(b) != unix.AF_UNIX {
			return c, false
		}
		c.Path = strings.Trim(string(b[2:]), "\x00")
		return c, true
	}
	link, err := os.Readlink(t.fdLink(a.fd))
	if err != nil {
		return c, false
	}
	name, ok := t.unixSocket(link)
	c.Path = name
	if c.Name == "sendmsg" {
		// These are offsets in struct msghdr.
		const iov, iovLen = 16, 24
		c.Data = t.vector(t.word(a.buf+iov), t.word(a.buf+iovLen))
	} else {
		c.Data = t.read(a.buf, a.length)
	}
	return c, ok
}

// describeNames describes a call that changes names, or changes a file by its name.
func (r roots) describeNames(t tracee, a arguments, c Call) (Call, bool) {
	raw := t.text(a.path)
	follow := c.Kind == KindChmod || c.Kind == KindTruncate
	c.Path = t.resolve(a.dir, raw, follow)
	switch c.Kind {
	case KindUnlink:
		if c.Flags&unix.AT_REMOVEDIR != 0 {
			c.Kind = KindRmdir
		}
	case KindSymlink:
		c.Target = t.text(a.buf)
	case KindLink:
		if ok := linkByDescriptor(t, a, raw, &c); ok {
			c.NewPath = t.resolve(a.dir2, t.text(a.path2), false)
			return c, r.hold(c.NewPath)
		}
	}
	inode, there := named(c.Path)
	c.Inode = inode
	if c.Kind == KindSymlink || c.Kind == KindMkdir {
		c.Created = !there
	}
	if a.path2 != 0 {
		c.NewPath = t.resolve(a.dir2, t.text(a.path2), false)
	}
	return c, r.hold(c.Path) || c.NewPath != "" && r.hold(c.NewPath)
}

// linkByDescriptor recognizes the two ways to give an open unnamed file its first name:
// an empty path, and the path of the descriptor in /proc.
func linkByDescriptor(t tracee, a arguments, raw string, c *Call) bool {
	link := ""
	switch name, own := strings.CutPrefix(raw, "/proc/self/fd/"); {
	case own:
		link = t.proc("fd", name)
	case raw == "" && a.flags&unix.AT_EMPTY_PATH != 0:
		link = t.fdLink(a.dir)
	default:
		return false
	}
	var st unix.Stat_t
	if unix.Stat(link, &st) != nil {
		return false
	}
	c.Inode = inodeOf(st)
	return true
}

// complete fills in the fields that depend on the result of a call.
func complete(c *Call) error {
	if c.Ret < 0 {
		return nil
	}
	switch c.Kind {
	case KindOpen:
		c.FD = int(c.Ret)
		if _, st, ok := tracee(c.TID).file(c.FD); ok {
			c.made(st)
		}
	case KindMkdir, KindSymlink:
		var st unix.Stat_t
		if unix.Lstat(c.Path, &st) == nil {
			c.made(st)
		}
	case KindCopy:
		data, err := tracee(c.TID).written(c.FD, c.Offset, c.Ret)
		if err != nil {
			return err
		}
		c.Data = data
	case KindWrite:
		c.Data = c.Data[:min(int64(len(c.Data)), c.Ret)]
	}
	return nil
}

// made sets the inode of a file. For a new file it also sets the permissions left by the
// umask.
func (c *Call) made(st unix.Stat_t) {
	c.Inode = inodeOf(st)
	if c.Created {
		c.Mode = st.Mode & 0o7777
	}
}
