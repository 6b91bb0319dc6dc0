package crash_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// A recording is complete if its replay gives the real tree.
func TestReplayEqualsTheRealTree(t *testing.T) {
	for _, name := range []string{"zoo", "save", "threads", "parent"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if err := os.WriteFile(filepath.Join(b.dir, "old"), []byte("was there"), 0o600); err != nil {
				t.Fatal(err)
			}
			before := snapshot(t, b.dir)
			_, calls := b.run(b.spec(name))
			after := snapshot(t, b.dir)
			got, err := crash.Replay(before, calls)
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range got.Differences(after) {
				t.Errorf("Replay: %s: got %+v, want %+v", at, got.Files[at], after.Files[at])
			}
			if len(before.Differences(after)) == 0 {
				t.Error("toy changed nothing: it proves nothing")
			}
		})
	}
}

func snapshot(t *testing.T, dir string) crash.Tree {
	t.Helper()
	tree, err := crash.Snapshot(dir)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// verdict counts the results of judging the images of toySave.
type verdict struct {
	images, told int
	// missing counts records that are gone although the program reported them. wrong
	// counts records with other content.
	missing, wrong int
}

func (v verdict) breaches() int { return v.missing + v.wrong }

// fault returns nil if a program kept its promise and also made one.
func (v verdict) fault() error {
	switch {
	case v.breaches() > 0:
		return fmt.Errorf("%d records are missing, %d wrong", v.missing, v.wrong)
	case v.told != saves:
		return fmt.Errorf("%d records were reported, want %d", v.told, saves)
	case v.images < 10*saves:
		return fmt.Errorf("only %d images", v.images)
	}
	return nil
}

// judge checks each image for the records reported before the cut.
func judge(t *testing.T, before crash.Tree, calls []crash.Call) verdict {
	t.Helper()
	var v verdict
	for image, err := range crash.Images(before, calls, crash.Options{Seed: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		v.images++
		told := map[string]bool{}
		for _, c := range image.Calls {
			if c.Kind == crash.KindAck && c.FD == 1 {
				told["record-"+strings.TrimSpace(strings.TrimPrefix(string(c.Data), "saved "))] = true
			}
		}
		v.told = max(v.told, len(told))
		files := image.Tree().Files
		for i := 1; i <= saves; i++ {
			name := fmt.Sprintf("record-%d", i)
			f, there := files[name]
			if told[name] && !there {
				v.missing++
			}
			if there && string(f.Data) != content(i) {
				v.wrong++
			}
		}
	}
	return v
}

// On a real file system, no power cut shows a missing fsync of a directory, and no kill
// shows a result reported before it is stored. The images show both, and a program that
// does nothing fails.
func TestImagesFindPlantedBugs(t *testing.T) {
	tests := map[string]struct{ missing, wrong bool }{
		"":             {},
		"no-file-sync": {wrong: true},
		"no-dir-sync":  {missing: true},
		"tell-first":   {missing: true},
	}
	for bug, want := range tests {
		t.Run("bug_"+bug, func(t *testing.T) {
			b := newBench(t)
			before := snapshot(t, b.dir)
			_, calls := b.run(b.spec("save", bug))
			v := judge(t, before, calls)
			if (v.missing > 0) != want.missing || (v.wrong > 0) != want.wrong {
				t.Errorf("images: got %+v, want %+v", v, want)
			}
			if err := v.fault(); (err == nil) != (bug == "") {
				t.Errorf("fault: got %v", err)
			}
			write := func(c crash.Call) bool { return c.Kind == crash.KindWrite }
			told := func(c crash.Call) bool { return c.Kind == crash.KindAck && c.FD == 1 }
			// The check does not cover names.
			err := crash.DurableBefore(calls, write, told)
			if (err == nil) != (bug == "" || bug == "no-dir-sync") {
				t.Errorf("DurableBefore: got %v", err)
			}
		})
	}
	t.Run("positive_control", func(t *testing.T) {
		b := newBench(t)
		spec := b.spec("save")
		spec.Argv = []string{"/bin/true"}
		before := snapshot(t, b.dir)
		_, calls := b.run(spec)
		if v := judge(t, before, calls); v.fault() == nil {
			t.Errorf("/bin/true passes: %+v", v)
		}
	})
}

func TestImageMaterializes(t *testing.T) {
	b := newBench(t)
	before := snapshot(t, b.dir)
	_, calls := b.run(b.spec("zoo"))
	var last crash.Image
	seen := 0
	for image, err := range crash.Images(before, calls, crash.Options{Random: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		if last = image; seen%7 == 0 {
			at := filepath.Join(t.TempDir(), "image")
			if err := image.Materialize(at); err != nil {
				t.Fatalf("%v: %v", image, err)
			}
			if diff := image.Tree().Differences(snapshot(t, at)); len(diff) > 0 {
				t.Errorf("%v: differs at %v", image, diff)
			}
		}
		seen++
	}
	if seen < 100 {
		t.Errorf("Images: got %d, want more", seen)
	}
	// The toy ends with syncfs, so one image remains, and it equals the real tree.
	if diff := last.Tree().Differences(snapshot(t, b.dir)); len(diff) > 0 {
		t.Errorf("%v: differs from the real tree at %v", last, diff)
	}
	files := last.Tree().Files
	if got := files["soft"]; got.Mode.Type() != fs.ModeSymlink || got.Target != "a/one" {
		t.Errorf("soft: got %+v, want a symbolic link", got)
	}
}

// script makes records like the tracer, on the clock of one thread. The tree has the
// directories a and b and the file a/f with the content "old".
type script struct {
	calls []crash.Call
	tick  uint64
}

const scriptRoot = "/model"

var scriptInodes = map[string]uint64{".": 1, "a": 2, "b": 3, "a/f": 4}

func scriptTree() crash.Tree {
	files := map[string]crash.File{}
	for name, ino := range scriptInodes {
		f := crash.File{Mode: fs.ModeDir | 0o700, Inode: crash.Inode{Ino: ino}}
		if name == "a/f" {
			f.Mode, f.Data = 0o600, []byte("old")
		}
		files[name] = f
	}
	return crash.Tree{Root: scriptRoot, Files: files}
}

func (s *script) do(c crash.Call) *script {
	s.tick += 2
	c.Begin, c.End, c.Ending, c.Name = s.tick-1, s.tick, crash.Returned, string(c.Kind)
	if c.Path != "" {
		c.Path = filepath.Join(scriptRoot, c.Path)
	}
	if c.NewPath != "" {
		c.NewPath = filepath.Join(scriptRoot, c.NewPath)
	}
	s.calls = append(s.calls, c)
	return s
}

func (s *script) create(path string, ino uint64) *script {
	return s.do(crash.Call{Kind: crash.KindOpen, Path: path, Created: true, Mode: 0o600, Inode: crash.Inode{Ino: ino}})
}

func (s *script) write(path string, ino uint64, off int64, text string) *script {
	return s.do(crash.Call{Kind: crash.KindWrite, Path: path, Inode: crash.Inode{Ino: ino}, Offset: off, Data: []byte(text)})
}

func (s *script) sync(path string, ino uint64) *script {
	return s.do(crash.Call{Kind: crash.KindSync, Path: path, Inode: crash.Inode{Ino: ino}})
}

func (s *script) rename(from, to string) *script {
	return s.do(crash.Call{Kind: crash.KindRename, Path: from, NewPath: to})
}

// interrupted adds a sync of a/f, or of everything, whose program ended meanwhile.
func (s *script) interrupted(k crash.Kind) *script {
	s.do(crash.Call{Kind: k, Path: "a/f", Inode: crash.Inode{Ino: 4}})
	s.calls[len(s.calls)-1].Ending = crash.Interrupted
	return s
}

// outcomes returns the distinct images at the last cut, sorted, as names with content.
func (s *script) outcomes(t *testing.T) []string {
	t.Helper()
	found := map[string]bool{}
	for image, err := range crash.Images(scriptTree(), s.calls, crash.Options{Seed: 3, Random: 50}) {
		if err != nil {
			t.Fatal(err)
		}
		if image.Cut < len(s.calls) {
			continue
		}
		var files []string
		for name, f := range image.Tree().Files {
			if !f.Mode.IsDir() {
				files = append(files, name+"="+strings.ReplaceAll(string(f.Data), "\x00", "0"))
			}
		}
		slices.Sort(files)
		found[strings.Join(files, " ")] = true
	}
	return slices.Sorted(maps.Keys(found))
}

func TestModelRules(t *testing.T) {
	dsync := crash.Call{Kind: crash.KindWrite, Path: "a/f", Inode: crash.Inode{Ino: 4}, Data: []byte("NEW"), Flags: unix.O_DSYNC}
	tests := map[string]struct {
		script *script
		want   []string
	}{
		"unsynced_write": {new(script).write("a/f", 4, 0, "new!"),
			[]string{"a/f=new!", "a/f=old", "a/f=old0"}},
		"synced_write": {new(script).write("a/f", 4, 0, "new!").sync("a/f", 4),
			[]string{"a/f=new!"}},
		"two_writes_reordered": {new(script).write("a/f", 4, 0, "N").write("a/f", 4, 2, "W"),
			[]string{"a/f=NlW", "a/f=Nld", "a/f=olW", "a/f=old"}},
		"fsync_of_a_new_file_keeps_no_name": {new(script).create("b/g", 9).write("b/g", 9, 0, "x").sync("b/g", 9),
			[]string{"a/f=old", "a/f=old b/g=x"}},
		"fsync_of_the_directory_keeps_no_data": {new(script).create("b/g", 9).write("b/g", 9, 0, "x").sync("b", 3),
			[]string{"a/f=old b/g=", "a/f=old b/g=0", "a/f=old b/g=x"}},
		"both": {new(script).create("b/g", 9).write("b/g", 9, 0, "x").sync("b/g", 9).sync("b", 3),
			[]string{"a/f=old b/g=x"}},
		"rename_within": {new(script).rename("a/f", "a/g"), []string{"a/f=old", "a/g=old"}},
		"rename_across_may_be_half": {new(script).rename("a/f", "b/g"),
			[]string{"a/f=old", "a/f=old b/g=old", "b/g=old"}},
		"rename_across_new_directory_synced": {new(script).rename("a/f", "b/g").sync("b", 3),
			[]string{"a/f=old b/g=old", "b/g=old"}},
		"rename_across_old_directory_synced": {new(script).rename("a/f", "b/g").sync("a", 2),
			[]string{"b/g=old"}},
		"directory_changes_in_order_but_for_one": {new(script).create("b/1", 11).create("b/2", 12).create("b/3", 13),
			[]string{"a/f=old", "a/f=old b/1=", "a/f=old b/1= b/2=", "a/f=old b/1= b/2= b/3=", "a/f=old b/1= b/3=", "a/f=old b/2= b/3="}},
		"interrupted_sync": {new(script).write("a/f", 4, 0, "new").interrupted(crash.KindSync).interrupted(crash.KindSyncAll).do(crash.Call{Kind: crash.KindSend}), []string{"a/f=new", "a/f=old"}},
		"syncfs": {new(script).create("b/g", 9).write("b/g", 9, 0, "x").rename("a/f", "b/f").do(crash.Call{Kind: crash.KindSyncAll}),
			[]string{"b/f=old b/g=x"}},
		"write_through": {new(script).do(dsync), []string{"a/f=NEW"}},
		"truncated_at_open": {new(script).do(crash.Call{Kind: crash.KindOpen, Path: "a/f", Flags: unix.O_TRUNC, Inode: crash.Inode{Ino: 4}}),
			[]string{"a/f=", "a/f=old"}},
		"prevented_and_failed": {&script{calls: []crash.Call{
			{Kind: crash.KindUnlink, Path: scriptRoot + "/a/f", Ending: crash.Prevented},
			{Kind: crash.KindUnlink, Path: scriptRoot + "/a/f", Ending: crash.Returned, Ret: -2},
			{Kind: crash.KindSend, Ending: crash.Returned}}}, []string{"a/f=old"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.script.outcomes(t)); diff != "" {
				t.Errorf("images (-want +got):\n%s", diff)
			}
		})
	}
}

// A directory exists when another process makes a file in it, even if the record of its
// mkdir follows.
func TestOrderedMakesDirectoriesFirst(t *testing.T) {
	s := new(script).write("a/f", 4, 0, "new").create("b/d/g", 9).do(crash.Call{Kind: crash.KindMkdir, Path: "b/d", Created: true, Mode: 0o700, Inode: crash.Inode{Ino: 8}}).
		do(crash.Call{Kind: crash.KindSyncAll})
	s.calls[2].Begin = s.calls[1].Begin - 1
	if _, err := crash.Replay(scriptTree(), s.calls); err == nil {
		t.Error("Replay: no error for a file in a directory that is not there")
	}
	recorded := slices.Clone(s.calls)
	got := crash.Ordered(s.calls)
	if diff := cmp.Diff(recorded, s.calls); diff != "" {
		t.Errorf("Ordered has changed its argument (-want +got):\n%s", diff)
	}
	if s.calls = got; got[1].Kind != crash.KindMkdir || got[1].End != got[2].Begin {
		t.Errorf("Ordered: got %v, want the directory before the file", got)
	}
	if diff := cmp.Diff([]string{"a/f=new b/d/g="}, s.outcomes(t)); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
}

// A sync that began before a write ended promises nothing about that write.
func TestOverlappingSyncKeepsNothing(t *testing.T) {
	s := new(script).write("a/f", 4, 0, "new").sync("a/f", 4)
	s.calls[1].Begin = s.calls[0].Begin
	if got := s.outcomes(t); len(got) != 2 {
		t.Errorf("images: got %q, want the old and the new content", got)
	}
}

func TestTornWriteEndsAtASector(t *testing.T) {
	s := new(script).write("a/f", 4, 100, strings.Repeat("n", 3000))
	sizes := map[int]bool{}
	for image, err := range crash.Images(scriptTree(), s.calls, crash.Options{Random: 200}) {
		if err != nil {
			t.Fatal(err)
		}
		sizes[len(image.Tree().Files["a/f"].Data)] = true
	}
	for size := range sizes {
		if size != 3 && size != 3100 && size%512 != 0 {
			t.Errorf("a torn file has %d bytes", size)
		}
	}
	if len(sizes) < 3 {
		t.Errorf("sizes: got %v, want torn ones", sizes)
	}
}

func TestModelRefusesWhatItCannotFollow(t *testing.T) {
	interrupted := new(script).write("a/f", 4, 0, "new")
	interrupted.calls[0].Ending = crash.Interrupted
	outside := new(script).rename("a/f", "a/g")
	outside.calls[0].NewPath = "/elsewhere/g"
	tests := map[string]*script{
		"interrupted":     interrupted,
		"over_the_border": outside,
		"unknown_file":    new(script).write("b/none", 99, 0, "x"),
		"no_directory":    new(script).create("none/g", 9),
		"no_source":       new(script).rename("b/none", "b/g"),
		"link_of_nothing": new(script).do(crash.Call{Kind: crash.KindLink, Path: "b/none", NewPath: "b/g"}),
		"exchange":        new(script).do(crash.Call{Kind: crash.KindRename, Path: "a/f", NewPath: "b/g", Flags: unix.RENAME_EXCHANGE}),
		"collapse": new(script).do(crash.Call{Kind: crash.KindAllocate, Path: "a/f", Inode: crash.Inode{Ino: 4},
			Flags: unix.FALLOC_FL_COLLAPSE_RANGE}),
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := crash.Replay(scriptTree(), s.calls); err == nil {
				t.Error("Replay: no error")
			}
			var last error
			for _, err := range crash.Images(scriptTree(), s.calls, crash.Options{}) {
				last = err
			}
			if last == nil {
				t.Error("Images: no error at the end")
			}
		})
	}
	if _, err := crash.Replay(crash.Tree{Root: "/x"}, nil); err == nil {
		t.Error("Replay of an empty tree: no error")
	}
}

// After any calls, a sync of everything leaves one image: the tree that programs see.
func TestSyncAllLeavesOneImage(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := new(script)
		live := []string{"a/f"}
		inodes := map[string]uint64{"a/f": 4}
		for i := range rapid.IntRange(1, 12).Draw(rt, "calls") {
			at := rapid.SampledFrom(live).Draw(rt, "file")
			name := fmt.Sprintf("%s/%d", rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "dir"), i)
			switch rapid.IntRange(0, 3).Draw(rt, "kind") {
			case 0:
				s.create(name, uint64(100+i))
				live, inodes[name] = append(live, name), uint64(100+i)
			case 1:
				s.write(at, inodes[at], rapid.Int64Range(0, 2000).Draw(rt, "offset"), strings.Repeat("w", i*200+1))
			case 2:
				s.rename(at, name)
				live[slices.Index(live, at)], inodes[name] = name, inodes[at]
			case 3:
				s.sync(at, inodes[at])
			}
		}
		want, err := crash.Replay(scriptTree(), s.calls)
		if err != nil {
			rt.Fatal(err)
		}
		s.do(crash.Call{Kind: crash.KindSyncAll})
		n := 0
		for image, err := range crash.Images(scriptTree(), s.calls, crash.Options{}) {
			if err != nil {
				rt.Fatal(err)
			}
			if image.Cut < len(s.calls) {
				continue
			}
			if n++; len(image.Tree().Differences(want)) > 0 {
				rt.Errorf("%v: differs at %v", image, image.Tree().Differences(want))
			}
		}
		if n != 1 {
			rt.Errorf("images after sync: got %d, want 1", n)
		}
	})
}

func TestImagesStopEarly(t *testing.T) {
	s := new(script).write("a/f", 4, 0, "N").write("a/f", 4, 2, "W")
	for want := 1; want < 12; want++ {
		got := 0
		for range crash.Images(scriptTree(), s.calls, crash.Options{}) {
			if got++; got == want {
				break
			}
		}
		if got != want {
			t.Errorf("Images: got %d before the break, want %d", got, want)
		}
	}
}

func TestPrecedes(t *testing.T) {
	kind := func(k crash.Kind) func(crash.Call) bool { return func(c crash.Call) bool { return c.Kind == k } }
	write, send := kind(crash.KindWrite), kind(crash.KindSend)
	told := crash.Call{Kind: crash.KindSend, Path: "s"}
	right := new(script).write("a/f", 4, 0, "1").sync("a/f", 4).do(told).write("a/f", 4, 1, "2").sync("a/f", 4).do(told)
	tests := map[string]struct {
		script            *script
		ordered, durables bool
	}{
		"right":                 {right, true, true},
		"told_first":            {new(script).do(told).write("a/f", 4, 0, "1").sync("a/f", 4), false, false},
		"told_before_the_sync":  {new(script).write("a/f", 4, 0, "1").do(told).sync("a/f", 4), true, false},
		"other_file_synced":     {new(script).write("a/f", 4, 0, "1").sync("a/g", 5).do(told), true, false},
		"told_twice_for_one":    {new(script).write("a/f", 4, 0, "1").sync("a/f", 4).do(told).do(told), false, false},
		"everything_synced":     {new(script).write("a/f", 4, 0, "1").do(crash.Call{Kind: crash.KindSyncAll}).do(told), true, true},
		"nothing_to_look_at":    {new(script).write("a/f", 4, 0, "1").sync("a/f", 4), false, false},
		"written_through":       {new(script).do(crash.Call{Kind: crash.KindWrite, Flags: unix.O_DSYNC}).do(told), true, true},
		"write_that_has_failed": {new(script).do(crash.Call{Kind: crash.KindWrite, Ret: -5}).sync("a/f", 4).do(told), false, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if err := crash.Precedes(tt.script.calls, write, send); (err == nil) != tt.ordered {
				t.Errorf("Precedes: got %v, want order %v", err, tt.ordered)
			}
			if err := crash.DurableBefore(tt.script.calls, write, send); (err == nil) != tt.durables {
				t.Errorf("DurableBefore: got %v, want order %v", err, tt.durables)
			}
		})
	}
}
