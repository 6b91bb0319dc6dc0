package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acode-dev/acode/local"
	"golang.org/x/sys/unix"
)

// A new session in a store in memory gets one warning. Its resumes get none.
func TestStoreInMemoryWarns(t *testing.T) {
	const memory = "/dev/shm"
	for _, parent := range []string{memory, t.TempDir()} {
		var st unix.Statfs_t
		must(t, unix.Statfs(parent, &st))
		want := 0
		if st.Type == unix.TMPFS_MAGIC {
			want = 1
		} else if parent == memory {
			t.Fatalf("%s is no tmpfs", memory)
		}
		dir, err := os.MkdirTemp(parent, "acode-")
		must(t, err)
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		o := options(t)
		o.Home = filepath.Join(dir, "home")
		s := open(t, o)
		w := create(t, s, 1)
		if got := w.Report().Warnings; len(got) != want || want == 1 && !strings.Contains(got[0], "tmpfs") {
			t.Errorf("a new session in %s: warnings: got %q, want %d", parent, got, want)
		}
		if got := load(t, s, w.Session().ID).Report().Warnings; len(got) != 0 {
			t.Errorf("its resume: warnings: got %q", got)
		}
	}
}

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
