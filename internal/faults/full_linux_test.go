package faults_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// sizes is the number of disk sizes to try.
const sizes = 20

// enoughBytes is room for the whole session.
const enoughBytes = 64 << 20

// fullDisk returns a site on its own file system of a given size. Without mounts, files
// are limited to a share of that size instead.
func fullDisk(t testing.TB, bytes int64) site {
	t.Helper()
	root := scratch(t)
	disk := filepath.Join(root, "disk")
	must(t, os.MkdirAll(disk, 0o755))
	if !canMount() {
		s := newSite(t, root, disk)
		s.limit = bytes
		return s
	}
	must(t, unix.Mount("none", disk, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0755", bytes)))
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	return newSite(t, root, disk)
}

// giveRoom makes the disk large enough.
func (s *site) giveRoom(t testing.TB) {
	t.Helper()
	s.limit = 0
	if canMount() {
		must(t, unix.Mount("none", s.disk, "tmpfs", unix.MS_REMOUNT, fmt.Sprintf("size=%d", enoughBytes)))
	}
}

// used returns the bytes that a site uses on its disk. Without a mount it is the size of
// the largest file.
func (s site) used(t testing.TB) int64 {
	t.Helper()
	if canMount() {
		var st unix.Statfs_t
		must(t, unix.Statfs(s.disk, &st))
		return int64(st.Blocks-st.Bfree) * st.Bsize
	}
	var most int64
	must(t, filepath.Walk(s.disk, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			most = max(most, info.Size())
		}
		return err
	}))
	return most
}

// diskSizes returns the sizes to try. A quarter of them is below the size of an empty
// store, and the others are between that and the size of the whole session.
func diskSizes(t testing.TB) []int64 {
	t.Helper()
	s := fullDisk(t, enoughBytes)
	if e := s.acode(t, "resume", "nobody"); e.exit != 14 {
		t.Fatal(e)
	}
	made := s.used(t)
	if e := s.acode(t, "run", "--plan", s.plan()); e.exit != 0 {
		t.Fatal(e)
	}
	whole := s.used(t)
	const early = sizes / 4
	var all []int64
	for i := range int64(early) {
		all = append(all, made*(i+1)/(early+1))
	}
	for i := range int64(sizes - early) {
		all = append(all, made+(whole-made)*i/(sizes-early-1))
	}
	for i := range all {
		// A size is in whole pages.
		all[i] &^= 4095
	}
	return all
}

// B1, B3–B5: the disk runs full at twenty sizes, then it gets room. Nothing is lost,
// nothing happens twice, and status answers on the full disk.
func TestFullDisk(t *testing.T) {
	var table []string
	var sum result
	full := 0
	for _, bytes := range diskSizes(t) {
		t.Run(fmt.Sprintf("%d_KiB", bytes>>10), func(t *testing.T) {
			s := fullDisk(t, bytes)
			e := s.acode(t, "run", "--plan", s.plan())
			if e.exit != 0 {
				full++
				checkFull(t, e)
				s.checkUnmade(t)
			}
			told := len(e.told())
			s.checkTold(t, e)
			s.checkStatus(t)
			s.giveRoom(t)
			r := s.finish(t)
			sum.lost, sum.repeated = sum.lost+r.lost, sum.repeated+r.repeated
			table = append(table, fmt.Sprintf("%8d KiB  exit %2d  %-16s %2d steps reported  %d lost  %d repeated", bytes>>10, e.exit, e.code(), told, r.lost, r.repeated))
		})
	}
	t.Logf("disk full at %d of %d sizes: %d lost, %d repeated\n%s", full, len(table), sum.lost, sum.repeated, strings.Join(table, "\n"))
	if full < sizes/2 {
		t.Errorf("the disk was full at %d sizes of %d, which shows little", full, sizes)
	}
}

// checkFull checks B3. A session that could still be paused reports its completed steps.
func checkFull(t *testing.T, e ended) {
	t.Helper()
	codes := []string{"ACODE-STORE-005"}
	// SQLite does not report a file at its size limit as a full disk.
	if !canMount() {
		codes = append(codes, "ACODE-STORE-004")
	}
	if e.exit != 1 || !slices.Contains(codes, e.code()) || !says(e.stdout+e.stderr, "kept") && !says(e.stdout, "paused (disk_full): ", " done, ") {
		t.Errorf("got %v, want exit 1, %v and the kept data", e, codes)
	}
}

// checkUnmade checks that a store whose creation failed leaves no files.
func (s site) checkUnmade(t *testing.T) {
	t.Helper()
	if _, err := os.Lstat(s.database()); err == nil {
		// The store was created.
		return
	}
	if left, err := os.ReadDir(s.store()); err == nil {
		t.Errorf("a store that was not made left %v", left)
	}
}

// A file system without free inodes counts as full. A store whose creation failed there
// leaves no files, and a session that stopped for lack of an inode continues.
func TestNoInodes(t *testing.T) {
	if !canMount() {
		t.Skip("nothing may be mounted here")
	}
	full := 0
	// The workspace takes two inodes.
	for inodes := 3; ; inodes++ {
		disk := scratch(t)
		must(t, unix.Mount("none", disk, "tmpfs", 0, fmt.Sprintf("nr_inodes=%d,mode=0755", inodes)))
		t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
		s := newSite(t, scratch(t), disk)
		e := s.acode(t, "run", "--plan", s.plan())
		if e.exit == 0 {
			break
		}
		if full++; full > 60 {
			t.Fatal(e)
		}
		if s.checkUnmade(t); e.exit != 1 && e.exit != 22 || !strings.Contains(e.stdout+e.stderr, "inodes") && e.code() != "ACODE-STORE-005" {
			t.Errorf("%d inodes: got %v, want ACODE-STORE-005", inodes, e)
		}
		must(t, unix.Mount("none", disk, "tmpfs", unix.MS_REMOUNT, "nr_inodes=1000"))
		s.finish(t)
	}
	if full < 10 {
		t.Errorf("the disk was full at %d numbers of inodes, which shows little", full)
	}
}
