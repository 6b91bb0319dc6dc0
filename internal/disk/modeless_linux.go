package disk

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// Modeless shows what is below back at dir, which exist, as file systems do that are not of Unix, or serve the disk
// of another system: every file has all permissions, whatever it is given, and another number with each mount, times are
// whole seconds, and a directory cannot be synced.
func Modeless(back, dir string) (unmount func() error, err error) {
	data := &fs.LoopbackRoot{Path: back, Dev: rand.Uint64()} // from which it makes the numbers
	root := &modeless{fs.LoopbackNode{RootData: data}}
	data.RootNode = root
	s, err := fs.Mount(dir, root, &fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: "modeless", Name: "acode-modeless"}})
	if err != nil {
		return nil, fmt.Errorf("mount at %s: %w", dir, err)
	}
	return func() error { return patiently(s.Unmount) }, nil
}

// Lose names the file beside back that has one rename or removal of a file carried out, and its answer lost: it holds
// how many come before that one.
func Lose(back string) string { return back + ".lose" }

// Trouble names the file beside back that holds how many calls of a thousand fail, carried out or not.
func Trouble(back string) string { return back + ".trouble" }

// modeless is a file or directory below back.
type modeless struct{ fs.LoopbackNode }

var _ interface {
	fs.NodeLookuper
	fs.NodeGetattrer
	fs.NodeSetattrer
	fs.NodeOpener
	fs.NodeCreater
	fs.NodeMkdirer
	fs.NodeRenamer
	fs.NodeUnlinker
	fs.NodeOpendirHandler
	fs.NodeWrapChilder
} = (*modeless)(nil)

// WrapChild makes what lies below m like it.
func (m *modeless) WrapChild(context.Context, fs.InodeEmbedder) fs.InodeEmbedder {
	return &modeless{fs.LoopbackNode{RootData: m.RootData}}
}

// coarsen makes attributes what such a file system tells.
func coarsen(a *fuse.Attr) {
	a.Mode |= 0o777
	a.Atimensec, a.Mtimensec, a.Ctimensec = 0, 0, 0
}

// trouble is how a call fails; 0: it does not.
func (m *modeless) trouble() syscall.Errno {
	b, err := os.ReadFile(Trouble(m.RootData.Path))
	if err != nil {
		return 0
	}
	if n, err := strconv.Atoi(string(b)); err != nil || rand.IntN(1000) >= n {
		return 0
	}
	all := []syscall.Errno{syscall.EIO, syscall.ESTALE, syscall.ETIMEDOUT, syscall.ENOSPC, syscall.EACCES, syscall.EAGAIN, syscall.EINTR}
	return all[rand.IntN(len(all))]
}

// answer gives errno, or what whoever waits in vain for an answer gets.
func (m *modeless) answer(errno syscall.Errno) syscall.Errno {
	if errno != 0 {
		return errno
	}
	if m.lost() {
		return syscall.ETIMEDOUT
	}
	for range 5 { // there are few of these calls
		errno = cmp.Or(errno, m.trouble())
	}
	return errno
}

// lost says whether it is this answer that is lost.
func (m *modeless) lost() bool {
	name := Lose(m.RootData.Path)
	b, err := os.ReadFile(name)
	if err != nil {
		return false
	}
	n, err := strconv.Atoi(string(b))
	if err != nil || n == 0 {
		return os.Remove(name) == nil
	}
	return os.WriteFile(name, []byte(strconv.Itoa(n-1)), 0o600) != nil
}

func (m *modeless) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if errno := m.trouble(); errno != 0 {
		return nil, errno
	}
	inode, errno := m.LoopbackNode.Lookup(ctx, name, out)
	coarsen(&out.Attr)
	return inode, errno
}

func (m *modeless) Getattr(ctx context.Context, f fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	if errno := m.trouble(); errno != 0 {
		return errno
	}
	errno := m.LoopbackNode.Getattr(ctx, f, out)
	coarsen(&out.Attr)
	return errno
}

// Setattr refuses modes, as some do; others only forget them.
func (m *modeless) Setattr(ctx context.Context, f fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if in.Valid&fuse.FATTR_MODE != 0 {
		return syscall.EPERM
	}
	errno := m.LoopbackNode.Setattr(ctx, f, in, out)
	coarsen(&out.Attr)
	return errno
}

func (m *modeless) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if errno := m.trouble(); errno != 0 {
		return nil, 0, errno
	}
	return m.LoopbackNode.Open(ctx, flags)
}

func (m *modeless) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	if errno := m.trouble(); errno != 0 {
		return nil, nil, 0, errno
	}
	inode, f, fuseFlags, errno := m.LoopbackNode.Create(ctx, name, flags, mode, out)
	coarsen(&out.Attr)
	return inode, f, fuseFlags, errno
}

func (m *modeless) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if errno := m.trouble(); errno != 0 {
		return nil, errno
	}
	inode, errno := m.LoopbackNode.Mkdir(ctx, name, mode, out)
	coarsen(&out.Attr)
	return inode, errno
}

func (m *modeless) Rename(ctx context.Context, name string, parent fs.InodeEmbedder, as string, flags uint32) syscall.Errno {
	if errno := m.trouble(); errno != 0 {
		return errno
	}
	return m.answer(m.LoopbackNode.Rename(ctx, name, parent, as, flags))
}

func (m *modeless) Unlink(ctx context.Context, name string) syscall.Errno {
	if errno := m.trouble(); errno != 0 {
		return errno
	}
	return m.answer(m.LoopbackNode.Unlink(ctx, name))
}

// OpendirHandle opens a directory that cannot be synced.
func (m *modeless) OpendirHandle(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if errno := m.trouble(); errno != 0 {
		return nil, 0, errno
	}
	h, fuseFlags, errno := m.LoopbackNode.OpendirHandle(ctx, flags)
	if errno != 0 {
		return nil, 0, errno
	}
	return unsynced{h.(opened)}, fuseFlags, 0
}

// opened is what a directory that was opened can do besides.
type opened interface {
	fs.FileReaddirenter
	fs.FileReleasedirer
	fs.FileSeekdirer
}

type unsynced struct{ opened }

// Fsyncdir knows of no directories, as in the shared folders of virtual machines.
func (unsynced) Fsyncdir(context.Context, uint32) syscall.Errno { return syscall.EINVAL }
