//go:build !linux

package command

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Values of lseek on Darwin.
const (
	seekHole = 3
	seekData = 4
)

const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETA
)

func datasync(f *os.File) error { return f.Sync() }

// renameNew renames a file, and fails if there is a file with the new name.
func renameNew(from, to string) error { return unix.RenamexNp(from, to, unix.RENAME_EXCL) }

// syncFS schedules all data to be written: this system cannot wait for one file system.
func syncFS(*os.File) error {
	unix.Sync()
	return nil
}

// punch frees nothing: this system has no portable way to.
func punch(*os.File, int64, int64) error { return nil }

// KeepDescriptors does nothing: this system has no such call.
func KeepDescriptors() {}

// adopt does nothing: this system has no subreapers.
func adopt() error { return nil }

func pathOf(_ *os.File, path string) string { return path }

// socketPath returns the path of the socket of dir in a directory that only this user can
// open.
func socketPath(dir string) (path string, done func(), err error) {
	parent := filepath.Join(os.TempDir(), fmt.Sprintf("acode-%d", os.Geteuid()))
	if err := os.Mkdir(parent, 0o700); err != nil && !os.IsExist(err) {
		return "", nil, err
	}
	info, err := os.Lstat(parent)
	if err != nil {
		return "", nil, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || info.Mode().Perm() != 0o700 || int(st.Uid) != os.Geteuid() {
		return "", nil, fmt.Errorf("%s is not a directory of ours with mode 0700", parent)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", nil, err
	}
	sum := sha256.Sum256([]byte(abs))
	return filepath.Join(parent, hex.EncodeToString(sum[:8])+".s"), func() {}, nil
}

// checkPeer relies on the mode of the directory that the socket lies in.
func checkPeer(*net.UnixConn) error { return nil }
