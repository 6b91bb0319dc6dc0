package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Kind is a type of file system.
type Kind struct {
	Name string
	// Size is the size of the smallest disk used with it, in bytes.
	Size int64

	mkfs []string
}

// Kinds returns the file systems that a disk can have.
func Kinds() []Kind {
	return []Kind{
		{"ext4", 96 << 20, []string{"mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"}},
		{"xfs", 320 << 20, []string{"mkfs.xfs", "-q", "-f", "-K"}},
		{"btrfs", 192 << 20, []string{"mkfs.btrfs", "-q", "-f", "-K"}},
	}
}

// Possible returns nil, or the missing requirement for disks of the kind.
func (k Kind) Possible() error {
	if os.Geteuid() != 0 {
		return errors.New("only root can mount")
	}
	for _, device := range []string{"/dev/fuse", "/dev/loop-control"} {
		f, err := os.OpenFile(device, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		// The file was only opened.
		_ = f.Close()
	}
	if _, err := exec.LookPath(k.mkfs[0]); err != nil {
		return err
	}
	return k.known()
}

// known returns nil if the kernel knows the file system, now or after loading its module.
func (k Kind) known() error {
	for _, load := range []bool{false, true} {
		if load {
			// The kernel may have no modules.
			_ = exec.Command("modprobe", "-q", k.Name).Run()
		}
		all, err := os.ReadFile("/proc/filesystems")
		if err != nil || slices.Contains(strings.Fields(string(all)), k.Name) {
			return err
		}
	}
	return fmt.Errorf("the kernel has no %s", k.Name)
}

// Format returns a disk with an empty file system. It works below dir, which must exist.
func (k Kind) Format(ctx context.Context, dir string) (*Disk, error) {
	d := New(k.Size)
	m, err := attach(d, dir)
	if err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, k.mkfs[0], append(k.mkfs[1:len(k.mkfs):len(k.mkfs)], m.device)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", k.mkfs[0], err, out)
	}
	return d.Fork(), errors.Join(err, m.Close())
}

// Mounted is a disk with a mounted file system.
type Mounted struct {
	server *fuse.Server
	device string
	loop   *os.File
	// at is the mount point, or "" if there is none.
	at string
}

// Mount serves d below dir, which must exist, and mounts its file system at dir/mount.
// The recovery of the file system writes to d.
func (k Kind) Mount(d *Disk, dir string) (*Mounted, error) {
	m, err := attach(d, dir)
	if err != nil {
		return nil, err
	}
	at := filepath.Join(dir, "mount")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	if err := unix.Mount(m.device, at, k.Name, 0, ""); err != nil {
		return nil, errors.Join(fmt.Errorf("mount %s at %s: %w", k.Name, at, err), m.Close())
	}
	m.at = at
	return m, nil
}

// Dir returns the mount point.
func (m *Mounted) Dir() string { return m.at }

// attach serves d below dir and connects it to a loop device.
func attach(d *Disk, dir string) (*Mounted, error) {
	at := filepath.Join(dir, "served")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return nil, err
	}
	server, err := serve(d, at)
	if err != nil {
		return nil, err
	}
	m := &Mounted{server: server}
	if err := m.bind(filepath.Join(at, fileName)); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// bind connects the file to the next free loop device. Another process may take that
// device first.
func (m *Mounted) bind(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer control.Close()
	for {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return fmt.Errorf("find a loop device: %w", err)
		}
		m.device = fmt.Sprintf("/dev/loop%d", n)
		if m.loop, err = os.OpenFile(m.device, os.O_RDWR, 0); err != nil {
			return err
		}
		err = unix.IoctlLoopConfigure(int(m.loop.Fd()), &unix.LoopConfig{Fd: uint32(f.Fd()), Size: blockSize})
		if err == nil {
			return nil
		}
		_ = m.loop.Close()
		if m.loop = nil; !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("use %s: %w", m.device, err)
		}
	}
}

// Close unmounts everything.
func (m *Mounted) Close() error {
	var errs []error
	if m.at != "" {
		errs = append(errs, patiently(func() error { return unix.Unmount(m.at, 0) }))
	}
	if m.loop != nil {
		errs = append(errs, unix.IoctlSetInt(int(m.loop.Fd()), unix.LOOP_CLR_FD, 0), m.loop.Close())
	}
	errs = append(errs, patiently(m.server.Unmount))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("unmount: %w", err)
	}
	return nil
}

// tries is the number of tries of patiently, every 10 ms. Users of a file system release
// it soon.
const tries = 500

// patiently retries while a resource is busy.
func patiently(try func() error) (err error) {
	for range tries {
		if err = try(); err == nil {
			return nil
		}
		<-time.After(10 * time.Millisecond)
	}
	return err
}
