package disk

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
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

// modeless is a file or directory below back.
type modeless struct{ fs.LoopbackNode }

var _ interface {
	fs.NodeLookuper
	fs.NodeGetattrer
	fs.NodeSetattrer
	fs.NodeCreater
	fs.NodeMkdirer
	fs.NodeOpendirHandler
	fs.NodeRenamer
	fs.NodeUnlinker
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

func (m *modeless) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	inode, errno := m.LoopbackNode.Lookup(ctx, name, out)
	coarsen(&out.Attr)
	return inode, errno
}

func (m *modeless) Getattr(ctx context.Context, f fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
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

func (m *modeless) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	inode, f, fuseFlags, errno := m.LoopbackNode.Create(ctx, name, flags, mode, out)
	coarsen(&out.Attr)
	return inode, f, fuseFlags, errno
}

func (m *modeless) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	inode, errno := m.LoopbackNode.Mkdir(ctx, name, mode, out)
	coarsen(&out.Attr)
	return inode, errno
}

// OpendirHandle opens a directory that cannot be synced.
func (m *modeless) OpendirHandle(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
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

// Lose names the file beside back that has the next rename or removal of a file carried out, and its answer lost.
func Lose(back string) string { return back + ".lose" }

// answer gives errno, or what whoever waits in vain for an answer gets.
func (m *modeless) answer(errno syscall.Errno) syscall.Errno {
	if errno == 0 && os.Remove(Lose(m.RootData.Path)) == nil {
		return syscall.ETIMEDOUT
	}
	return errno
}

func (m *modeless) Rename(ctx context.Context, name string, parent fs.InodeEmbedder, as string, flags uint32) syscall.Errno {
	return m.answer(m.LoopbackNode.Rename(ctx, name, parent, as, flags))
}

func (m *modeless) Unlink(ctx context.Context, name string) syscall.Errno {
	return m.answer(m.LoopbackNode.Unlink(ctx, name))
}
