package local

import "golang.org/x/sys/unix"

// networkFS names the file system of path and says whether another machine or a program
// serves it.
func networkFS(path string) (name string, remote bool, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return "", false, err
	}
	name, remote = networkMagic(uint32(st.Type))
	return name, remote, nil
}

// inMemory reports whether the file system of path loses everything when the machine goes down.
func inMemory(path string) bool {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil {
		return false
	}
	const ramfs = 0x858458f6
	return uint32(st.Type) == unix.TMPFS_MAGIC || uint32(st.Type) == ramfs
}

func networkMagic(magic uint32) (string, bool) {
	switch magic {
	case 0x6969:
		return "NFS", true
	case 0x517b, 0xff534d42, 0xfe534d42:
		return "SMB", true
	case 0x01021997:
		return "9p", true
	case 0x65735546:
		return "FUSE", true
	case 0x00c36400:
		return "Ceph", true
	case 0x5346414f, 0x6b414653:
		return "AFS", true
	case 0x0bd00bd0:
		return "Lustre", true
	case 0x47504653:
		return "GPFS", true
	case 0x19830326:
		return "BeeGFS", true
	case 0x01161970:
		return "GFS2", true
	case 0x7461636f:
		return "OCFS2", true
	case 0x20030528:
		return "OrangeFS", true
	case 0xaad7aaea:
		return "PanFS", true
	case 0x73757245:
		return "Coda", true
	case 0x786f4256:
		return "vboxsf", true
	case 0xbacbacbc:
		return "vmhgfs", true
	}
	return "local", false
}
