package disk

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// Foreign serves the files below back at dir; both must exist. The served file system
// treats names that differ only in case as equal, as on macOS, and its calls can fail.
func Foreign(back, dir string) (unmount func() error, err error) {
	// The numbers of inodes derive from this value.
	data := &fs.LoopbackRoot{Path: back, Dev: rand.Uint64()}
	root := &foreign{fs.LoopbackNode{RootData: data}}
	data.RootNode = root
	s, err := fs.Mount(dir, root, &fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: "foreign", Name: "acode-foreign"}})
	if err != nil {
		return nil, fmt.Errorf("mount at %s: %w", dir, err)
	}
	return func() error { return patiently(s.Unmount) }, nil
}

// Lose returns the name of the control file beside back. With it, one rename or removal
// of a file happens and its answer is lost. The file holds the number of such calls
// before that one.
func Lose(back string) string { return back + ".lose" }

// Trouble returns the name of the file beside back that holds how many of a thousand
// calls fail, with or without an effect.
func Trouble(back string) string { return back + ".trouble" }

// foreign is a file or directory below back.
type foreign struct{ fs.LoopbackNode }

var _ interface {
	fs.NodeLookuper
	fs.NodeGetattrer
	fs.NodeOpener
	fs.NodeCreater
	fs.NodeMkdirer
	fs.NodeRenamer
	fs.NodeUnlinker
	fs.NodeOpendirHandler
	fs.NodeWrapChilder
} = (*foreign)(nil)

// WrapChild makes the nodes below n foreign too.
func (n *foreign) WrapChild(context.Context, fs.InodeEmbedder) fs.InodeEmbedder {
	return &foreign{fs.LoopbackNode{RootData: n.RootData}}
}

// trouble returns the error of a failing call, or 0.
func (n *foreign) trouble() syscall.Errno {
	b, err := os.ReadFile(Trouble(n.RootData.Path))
	if err != nil {
		return 0
	}
	if often, err := strconv.Atoi(string(b)); err != nil || rand.IntN(1000) >= often {
		return 0
	}
	all := []syscall.Errno{syscall.EIO, syscall.ESTALE, syscall.ETIMEDOUT, syscall.ENOSPC, syscall.EACCES, syscall.EAGAIN, syscall.EINTR}
	return all[rand.IntN(len(all))]
}

// begin starts a call: it corrects the name of n, and may return an error.
func (n *foreign) begin() syscall.Errno {
	n.correctNames(n.EmbeddedInode())
	return n.trouble()
}

// correctNames renames an inode and its parents from the names used in calls to their
// real names.
func (n *foreign) correctNames(i *fs.Inode) {
	name, parent := i.Parent()
	if parent == nil {
		return
	}
	n.correctNames(parent)
	if has := parent.Operations().(*foreign).actual(name); has != name {
		parent.AddChild(has, i, true)
		parent.RmChild(name)
	}
}

// answer returns errno, or the error of a lost answer.
func (n *foreign) answer(errno syscall.Errno) syscall.Errno {
	if errno != 0 {
		return errno
	}
	if n.lost() {
		return syscall.ETIMEDOUT
	}
	// There are few of these calls.
	for range 5 {
		errno = cmp.Or(errno, n.trouble())
	}
	return errno
}

// lost reports whether this answer is the lost one.
func (n *foreign) lost() bool {
	name := Lose(n.RootData.Path)
	b, err := os.ReadFile(name)
	if err != nil {
		return false
	}
	before, err := strconv.Atoi(string(b))
	if err != nil || before == 0 {
		return os.Remove(name) == nil
	}
	return os.WriteFile(name, []byte(strconv.Itoa(before-1)), 0o600) != nil
}

// actual returns the real name of the file that a call refers to by name.
func (n *foreign) actual(name string) string {
	dir := filepath.Join(n.RootData.Path, n.Path(n.Root()))
	if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
		return name
	}
	// An unreadable directory has no other name.
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.EqualFold(e.Name(), name) {
			return e.Name()
		}
	}
	return name
}

func (n *foreign) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if errno := n.begin(); errno != 0 {
		return nil, errno
	}
	return n.LoopbackNode.Lookup(ctx, n.actual(name), out)
}

func (n *foreign) Getattr(ctx context.Context, f fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	if errno := n.begin(); errno != 0 {
		return errno
	}
	return n.LoopbackNode.Getattr(ctx, f, out)
}

func (n *foreign) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if errno := n.begin(); errno != 0 {
		return nil, 0, errno
	}
	return n.LoopbackNode.Open(ctx, flags)
}

func (n *foreign) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	if errno := n.begin(); errno != 0 {
		return nil, nil, 0, errno
	}
	return n.LoopbackNode.Create(ctx, n.actual(name), flags, mode, out)
}

func (n *foreign) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if errno := n.begin(); errno != 0 {
		return nil, errno
	}
	return n.LoopbackNode.Mkdir(ctx, n.actual(name), mode, out)
}

func (n *foreign) Rename(ctx context.Context, name string, parent fs.InodeEmbedder, as string, flags uint32) syscall.Errno {
	if errno := n.begin(); errno != 0 {
		return errno
	}
	return n.answer(n.LoopbackNode.Rename(ctx, n.actual(name), parent, parent.(*foreign).actual(as), flags))
}

func (n *foreign) Unlink(ctx context.Context, name string) syscall.Errno {
	if errno := n.begin(); errno != 0 {
		return errno
	}
	return n.answer(n.LoopbackNode.Unlink(ctx, n.actual(name)))
}

// OpendirHandle implements fs.NodeOpendirHandler.
func (n *foreign) OpendirHandle(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if errno := n.begin(); errno != 0 {
		return nil, 0, errno
	}
	return n.LoopbackNode.OpendirHandle(ctx, flags)
}
