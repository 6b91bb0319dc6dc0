package local

import "golang.org/x/sys/unix"

// networkFS returns the name of the file system of path. remote is true if the system
// does not call the file system local.
func networkFS(path string) (name string, remote bool, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return "", false, err
	}
	return unix.ByteSliceToString(st.Fstypename[:]), st.Flags&unix.MNT_LOCAL == 0, nil
}

// inMemory reports whether the file system of path is lost when the machine stops. macOS
// does not show this, so it returns false.
func inMemory(string) bool { return false }
