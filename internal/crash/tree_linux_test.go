package crash_test

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestSnapshotAndMaterialize(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	l, err := net.Listen("unix", in("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, err := range []error{
		os.Mkdir(in("d"), 0o700), os.WriteFile(in("d/f"), []byte("text"), 0o640), os.Link(in("d/f"), in("hard")),
		os.Symlink("d/f", in("soft")), os.WriteFile(in("x.db-shm"), []byte("memory"), 0o600),
		os.Chmod(in("d"), 0o500),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	// Otherwise the directory could not be removed.
	t.Cleanup(func() { _ = os.Chmod(in("d"), 0o700) })
	tree := snapshot(t, dir)
	var names []string
	for _, name := range []string{".", "d", "d/f", "hard", "soft", "socket", "x.db-shm"} {
		if _, ok := tree.Files[name]; ok {
			names = append(names, name)
		}
	}
	if diff := cmp.Diff([]string{".", "d", "d/f", "hard", "soft"}, names); diff != "" {
		t.Errorf("Snapshot (-want +got):\n%s", diff)
	}
	to := filepath.Join(t.TempDir(), "copy")
	if err := tree.Materialize(to); err != nil {
		t.Fatal(err)
	}
	// The same applies here.
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(to, "d"), 0o700) })
	copied := snapshot(t, to)
	if diff := tree.Differences(copied); len(diff) > 0 {
		t.Errorf("Materialize: differs at %v", diff)
	}
	if copied.Files["hard"].Inode != copied.Files["d/f"].Inode {
		t.Error("Materialize: two names of one file became two files")
	}
}

func TestDifferences(t *testing.T) {
	base := func() map[string]crash.File {
		return map[string]crash.File{"f": {Mode: 0o600, Data: []byte("x")}, "l": {Mode: fs.ModeSymlink, Target: "f"}}
	}
	tests := map[string]struct {
		change func(map[string]crash.File)
		want   []string
	}{
		"equal":       {func(m map[string]crash.File) {}, nil},
		"permissions": {func(m map[string]crash.File) { m["f"] = crash.File{Mode: 0o400, Data: []byte("x")} }, []string{"f"}},
		"data":        {func(m map[string]crash.File) { m["f"] = crash.File{Mode: 0o600} }, []string{"f"}},
		"type":        {func(m map[string]crash.File) { m["f"] = crash.File{Mode: fs.ModeDir | 0o600} }, []string{"f"}},
		"target":      {func(m map[string]crash.File) { m["l"] = crash.File{Mode: fs.ModeSymlink, Target: "g"} }, []string{"l"}},
		"gone":        {func(m map[string]crash.File) { delete(m, "f") }, []string{"f"}},
		"new":         {func(m map[string]crash.File) { m["g"] = crash.File{} }, []string{"g"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			files := base()
			tt.change(files)
			got := crash.Tree{Files: base()}.Differences(crash.Tree{Files: files})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Differences (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTreeFaults(t *testing.T) {
	dir := t.TempDir()
	if _, err := crash.Snapshot(filepath.Join(dir, "none")); err == nil {
		t.Error("Snapshot of nothing: no error")
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := snapshot(t, dir).Materialize(file); err == nil {
		t.Error("Materialize into a file: no error")
	}
	orphan := crash.Tree{Files: map[string]crash.File{"no/dir": {Mode: 0o600}}}
	if err := orphan.Materialize(dir); err == nil {
		t.Error("Materialize without a directory: no error")
	}
	if _, err := crash.Replay(orphan, nil); err == nil {
		t.Error("Replay of a tree without a directory: no error")
	}
}

func TestReplayOfRareCalls(t *testing.T) {
	f := crash.Inode{Ino: 4}
	tests := map[string]struct {
		script *script
		want   map[string]string
	}{
		"allocation_that_keeps_the_size": {new(script).do(crash.Call{Kind: crash.KindAllocate, Path: "a/f", Inode: f,
			Flags: unix.FALLOC_FL_KEEP_SIZE, Length: 100}), map[string]string{"a/f": "old"}},
		"allocation_that_grows": {new(script).do(crash.Call{Kind: crash.KindAllocate, Path: "a/f", Inode: f, Length: 4}),
			map[string]string{"a/f": "old\x00"}},
		"zeros_beyond_the_end": {new(script).do(crash.Call{Kind: crash.KindAllocate, Path: "a/f", Inode: f,
			Flags: unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE, Offset: 2, Length: 9}), map[string]string{"a/f": "ol\x00"}},
		"rename_of_one_file_to_its_other_name": {new(script).do(crash.Call{Kind: crash.KindLink, Path: "a/f", NewPath: "b/f", Inode: f}).
			rename("a/f", "b/f"), map[string]string{"a/f": "old", "b/f": "old"}},
		"number_of_a_file_taken_again": {new(script).do(crash.Call{Kind: crash.KindUnlink, Path: "a/f"}).create("b/g", 4).
			write("b/g", 4, 0, "new"), map[string]string{"b/g": "new"}},
		"two_makers_of_one_file": {new(script).create("b/g", 9).write("b/g", 9, 0, "kept").create("b/g", 9),
			map[string]string{"a/f": "old", "b/g": "kept"}},
		"opened_before_its_maker_returned": {new(script).do(crash.Call{Kind: crash.KindOpen, Path: "b/g", Inode: crash.Inode{Ino: 9}}).
			write("b/g", 9, 0, "kept").create("b/g", 9), map[string]string{"a/f": "old", "b/g": "kept"}},
		"by_name_alone": {new(script).do(crash.Call{Kind: crash.KindTruncate, Path: "a/f", Offset: 1}),
			map[string]string{"a/f": "o"}},
		"shared_memory": {new(script).create("a/x-shm", 9).write("a/x-shm", 9, 0, "memory"), map[string]string{"a/f": "old"}},
		"cut_and_grown": {new(script).do(crash.Call{Kind: crash.KindTruncate, Path: "a/f", Inode: f, Offset: 1}).
			write("a/f", 4, 2, "d"), map[string]string{"a/f": "o\x00d"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tree, err := crash.Replay(scriptTree(), tt.script.calls)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for name, f := range tree.Files {
				if f.Mode.IsRegular() {
					got[name] = string(f.Data)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Replay (-want +got):\n%s", diff)
			}
		})
	}
}

// Reports name the cut, the fates of the changes, and calls with their place.
func TestReports(t *testing.T) {
	s := new(script).write("a/f", 4, 0, "new")
	var labels []string
	for image, err := range crash.Images(scriptTree(), s.calls, crash.Options{Random: -1}) {
		if err != nil {
			t.Fatal(err)
		}
		labels = append(labels, image.String())
	}
	want := []string{"after 0 calls, nothing unsynced", "after 1 calls, nothing unsynced", "after 1 calls, everything",
		"after 1 calls, up to zeros of write a/f [0+3]"}
	if diff := cmp.Diff(want, labels); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	s.rename("a/f", "a/g")
	s.calls[1].Ending = crash.Interrupted
	for i, want := range []string{"write /model/a/f [0+0] = 0", "rename /model/a/f -> /model/a/g (interrupted)"} {
		if got := s.calls[i].String(); !strings.HasSuffix(got, want) {
			t.Errorf("String: got %q, want it to end in %q", got, want)
		}
	}
}
