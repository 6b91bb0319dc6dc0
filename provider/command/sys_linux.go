package command

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

const (
	seekData = unix.SEEK_DATA
	seekHole = unix.SEEK_HOLE

	getTermios = unix.TCGETS
	setTermios = unix.TCSETS
)

func datasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }

// renameNew renames a file, and fails if there is a file with the new name.
func renameNew(from, to string) error {
	return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
}

// syncFS makes everything on the file system of dir durable.
func syncFS(dir *os.File) error { return unix.Syncfs(int(dir.Fd())) }

// punch frees the bytes of f from off to end without changing its size.
func punch(f *os.File, off, end int64) error {
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, end-off)
}

// KeepDescriptors marks all descriptors from 3 up as close-on-exec, so that no program
// that this one starts inherits those of this program's own starter. A supervisor would
// otherwise keep a pipe open while another process waits for its end. Kernels before 5.11
// cannot do it.
func KeepDescriptors() { _ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) }

// adopt makes orphans of this process's descendants its children.
func adopt() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// pathOf returns a path to an open directory that stays valid if the directory moves.
func pathOf(dir *os.File, _ string) string { return fmt.Sprintf("/proc/self/fd/%d", dir.Fd()) }

// socketPath returns a path to the socket of dir that fits into a socket address. The
// path is valid until done is called.
func socketPath(dir string) (path string, done func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/s", d.Fd()), func() { _ = d.Close() }, nil
}

// checkPeer returns an error unless the other end of c belongs to the same user.
func checkPeer(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if credErr != nil {
		return credErr
	}
	if int(cred.Uid) != os.Geteuid() {
		return errors.New("the other end of the supervisor's socket belongs to another user")
	}
	return nil
}
