package workspace

import "golang.org/x/sys/unix"

// keepsModes reports whether the file system of an open directory keeps the mode that a file is given. Those
// of other systems may show one of their own.
func keepsModes(fd int) bool {
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
