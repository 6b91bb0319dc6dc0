//go:build !linux

package local

import "golang.org/x/sys/unix"

// whereIs identifies the file that path names.
func whereIs(path string) (f fileID, err error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return f, err
	}
	return fileID{dev: uint64(st.Dev), ino: uint64(st.Ino)}, nil
}

// writingVFS returns the name of the VFS of connections that write; empty means SQLite's
// own. These systems have no call that syncs only the data, or none that reaches the
// disk.
func writingVFS() string { return "" }
