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

// slow is a file that returns no data until the test lets it. A process that reads it
// stays in the kernel until then, even when it is killed.
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

// A holder that was killed keeps its lock while the kernel is still busy with its
// system call. It executes nothing any more, so it does not count as a holder. The next
// process waits for its end.
func TestHolderThatIsDying(t *testing.T) {
	path, dir := lockPath(t), t.TempDir()
	file := &slow{asked: make(chan struct{}), give: make(chan struct{})}
	server, err := fs.Mount(dir, &folder{file: file}, &fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true}})
	if err != nil {
		t.Skipf("this system does not allow FUSE file systems: %v", err)
	}
	released := make(chan struct{})
	// the test gives up after a minute
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
	// longer than persist waits for a holder without a name
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
			t.Fatalf("waited too long for %s", what)
		}
	}
}
