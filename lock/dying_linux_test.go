package lock_test

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/acode-dev/acode/lock"
)

// slow is a file that gives nothing before it is told to: who reads it is in the kernel
// until then, killed or not.
type slow struct {
	fs.Inode
	asked chan struct{}
	give  chan struct{}
}

func (f *slow) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

func (f *slow) Read(context.Context, fs.FileHandle, []byte, int64) (fuse.ReadResult, syscall.Errno) {
	close(f.asked)
	<-f.give
	return fuse.ReadResultData(nil), 0
}

type folder struct {
	fs.Inode
	file *slow
}

func (d *folder) OnAdd(ctx context.Context) {
	d.AddChild("slow", d.NewPersistentInode(ctx, d.file, fs.StableAttr{}), false)
}

// A holder that was killed and has not ended yet, as the system is still busy with what
// it asked for, keeps its lock. It executes nothing any more: it counts as no holder, and
// whoever comes next waits for its end.
func TestHolderThatIsDying(t *testing.T) {
	path, dir := lockPath(t), t.TempDir()
	file := &slow{asked: make(chan struct{}), give: make(chan struct{})}
	server, err := fs.Mount(dir, &folder{file: file}, &fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true}})
	if err != nil {
		t.Skipf("this system lets nobody serve a file system: %v", err)
	}
	released := make(chan struct{})
	// at the latest
	release := time.AfterFunc(time.Minute, func() { close(file.give); close(released) })
	t.Cleanup(func() {
		if release.Stop() {
			close(file.give)
		}
		_ = server.Unmount()
	})
	p := start(t, "reader", path, filepath.Join(dir, "slow"))
	<-file.asked
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	h, _, err := lock.Read(path)
	if err != nil || h.PID != p.Process.Pid {
		t.Fatalf("Read: got %+v, %v, want process %d", h, err, p.Process.Pid)
	}
	waitFor(t, "the holder to be dying", h.Dying)
	if _, held, err := lock.Read(path); err != nil || held {
		t.Errorf("Read: got %v, %v of a holder that was killed, want not held", held, err)
	}
	// longer than for a holder that is not named
	release.Reset(1500 * time.Millisecond)
	l, err := lock.Acquire(path, self(t))
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	select {
	case <-released:
	default:
		t.Error("Acquire: got the lock of a process that has not ended")
	}
	keep(t, l)
	if got := l.Killed(); got.PID != p.Process.Pid {
		t.Errorf("Killed: got %v, want process %d", got, p.Process.Pid)
	}
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
