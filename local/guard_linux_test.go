package local_test

import (
	"testing"

	"github.com/acode-dev/acode/local"
)

func TestNetworkFileSystemsAreKnown(t *testing.T) {
	for magic, want := range map[uint32]string{0x6969: "NFS", 0xff534d42: "SMB", 0x01021997: "9p", 0x65735546: "FUSE", 0x00c36400: "Ceph", 0x5346414f: "AFS",
		0x6b414653: "AFS", 0x0bd00bd0: "Lustre", 0x47504653: "GPFS", 0x19830326: "BeeGFS", 0x01161970: "GFS2", 0x7461636f: "OCFS2", 0x20030528: "OrangeFS",
		0xaad7aaea: "PanFS", 0x73757245: "Coda", 0x786f4256: "vboxsf", 0xbacbacbc: "vmhgfs"} {
		if name, remote := local.NetworkMagic(magic); name != want || !remote {
			t.Errorf("%x: got %s, %v", magic, name, remote)
		}
	}
	if name, remote := local.NetworkMagic(0xef53); remote {
		t.Errorf("ext4: taken for %s", name)
	}
}
