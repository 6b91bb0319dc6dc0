package local_test

import (
	"testing"

	"github.com/acode-dev/acode/local"
)

func TestNetworkFileSystemsAreKnown(t *testing.T) {
	for magic, want := range map[uint32]string{0x6969: "NFS", 0xff534d42: "SMB", 0x01021997: "9p", 0x65735546: "FUSE", 0x00c36400: "Ceph", 0x5346414f: "AFS"} {
		if name, remote := local.NetworkMagic(magic); name != want || !remote {
			t.Errorf("%x: got %s, %v", magic, name, remote)
		}
	}
	if name, remote := local.NetworkMagic(0xef53); remote {
		t.Errorf("ext4: taken for %s", name)
	}
}
