package local

import "golang.org/x/sys/unix"

// whereIs tells which file path names. It asks for no times: the kernel gives a file
// whose times somebody has asked for new ones at its next write, and the sync after that
// has to write them.
func whereIs(path string) (fileID, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO, &st); err != nil {
		return fileID{}, err
	}
	return fileID{dev: unix.Mkdev(st.Dev_major, st.Dev_minor), ino: st.Ino}, nil
}
