package workspace

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncAll makes all of the file system durable that f lies on.
func syncAll(f *os.File) error { return unix.Syncfs(int(f.Fd())) }

// native reports whether the file system of an open directory keeps what makes a file one of Unix: the mode that it
// is given, and its number. Those of other systems, and what serves their disks (WSL, virtual machines, FUSE), may
// show others.
func native(fd int) bool {
	const ntfs, ntfs3, vboxsf, vmhgfs = 0x5346544e, 0x7366746e, 0x786f4256, 0xbacbacbc
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return true
	}
	switch uint32(st.Type) {
	case unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC, ntfs, ntfs3, unix.UDF_SUPER_MAGIC,
		unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC,
		unix.V9FS_MAGIC, unix.FUSE_SUPER_MAGIC, vboxsf, vmhgfs:
		return false
	}
	return true
}
