//go:build !linux

package local

import "golang.org/x/sys/unix"

// whereIs tells which file path names.
func whereIs(path string) (f fileID, err error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return f, err
	}
	return fileID{dev: uint64(st.Dev), ino: uint64(st.Ino)}, nil
}

// writingVFS names the VFS of connections that write; empty: SQLite's own. Other systems
// have no call that syncs the data alone, or none that reaches the disk.
func writingVFS() string { return "" }
