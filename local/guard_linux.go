package local

import "golang.org/x/sys/unix"

// networkFS returns the name of the file system of path. remote is true if another
// machine or a program serves the file system.
func networkFS(path string) (name string, remote bool, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return "", false, err
	}
	name, remote = networkMagic(uint32(st.Type))
	return name, remote, nil
}

// inMemory reports whether the file system of path is lost when the machine stops.
func inMemory(path string) bool {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil {
		return false
	}
	const ramfs = 0x858458f6
	return uint32(st.Type) == unix.TMPFS_MAGIC || uint32(st.Type) == ramfs
}

func networkMagic(magic uint32) (string, bool) {
	names := map[uint32]string{
		0x6969: "NFS", 0x517b: "SMB", 0xff534d42: "SMB", 0xfe534d42: "SMB", 0x01021997: "9p", 0x65735546: "FUSE",
		0x00c36400: "Ceph", 0x5346414f: "AFS", 0x6b414653: "AFS", 0x0bd00bd0: "Lustre", 0x47504653: "GPFS",
		0x19830326: "BeeGFS", 0x01161970: "GFS2", 0x7461636f: "OCFS2", 0x20030528: "OrangeFS", 0xaad7aaea: "PanFS",
		0x73757245: "Coda", 0x786f4256: "vboxsf", 0xbacbacbc: "vmhgfs",
	}
	return names[magic], names[magic] != ""
}
