package disk

import (
	"context"
	"fmt"
	"io"
	"log"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// fileName is the name of the served file.
const fileName = "disk"

// file serves a disk as a file. Each write and flush of its only user, the loop device,
// arrives here at once.
type file struct {
	fs.Inode
	disk *Disk
}

var _ interface {
	fs.NodeOpener
	fs.NodeGetattrer
	fs.NodeReader
	fs.NodeWriter
	fs.NodeFsyncer
	fs.NodeAllocater
} = (*file)(nil)

func (f *file) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

func (f *file) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size, out.Blksize = syscall.S_IFREG|0o600, uint64(f.disk.size), blockSize
	return 0
}

func (f *file) Read(_ context.Context, _ fs.FileHandle, to []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	to = to[:min(int64(len(to)), max(0, f.disk.size-at))]
	f.disk.read(to, at)
	return fuse.ReadResultData(to), 0
}

func (f *file) Write(_ context.Context, _ fs.FileHandle, data []byte, at int64) (uint32, syscall.Errno) {
	if at+int64(len(data)) > f.disk.size {
		return 0, syscall.ENOSPC
	}
	if !f.disk.write(data, at) {
		return 0, syscall.EIO
	}
	return uint32(len(data)), 0
}

func (f *file) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	if !f.disk.flush() {
		return syscall.EIO
	}
	return 0
}

// Allocate reports that the disk cannot discard blocks.
func (f *file) Allocate(context.Context, fs.FileHandle, uint64, uint64, uint32) syscall.Errno {
	return syscall.EOPNOTSUPP
}

// root is the directory that holds the file.
type root struct {
	fs.Inode
	disk *Disk
}

var _ fs.NodeOnAdder = (*root)(nil)

func (r *root) OnAdd(ctx context.Context) {
	r.AddChild(fileName, r.NewPersistentInode(ctx, &file{disk: r.disk}, fs.StableAttr{Mode: syscall.S_IFREG}), false)
}

// serve serves the disk as a file of dir until the server is unmounted.
func serve(d *Disk, dir string) (*fuse.Server, error) {
	s, err := fs.Mount(dir, &root{disk: d}, &fs.Options{MountOptions: fuse.MountOptions{
		DirectMountStrict: true, MaxWrite: 512 << 10, FsName: "disk", Name: "acode-disk",
		// The server would log the end of each connection.
		Logger: log.New(io.Discard, "", 0)}})
	if err != nil {
		return nil, fmt.Errorf("serve disk at %s: %w", dir, err)
	}
	return s, nil
}
