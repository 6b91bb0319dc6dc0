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
	case 0x5346414f:
		return "AFS", true
	}
	return "local", false
}
