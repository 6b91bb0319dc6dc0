package workspace

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncAll makes all file systems durable: there is no call for one.
func syncAll(*os.File) error {
	unix.Sync()
	return nil
}

// native reports whether the file system of an open directory keeps what makes a file one of Unix: the mode that it
// is given, and its number. Those of other systems may show others.
func native(fd int) bool {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return true
	}
	switch unix.ByteSliceToString(st.Fstypename[:]) {
	case "apfs", "hfs", "nfs":
		return true
	}
	return false
}
