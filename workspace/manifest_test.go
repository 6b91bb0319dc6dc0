package workspace_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/workspace"
)

func kinds(changed []session.ChangedFile) map[string]string {
	out := map[string]string{}
	for _, c := range changed {
		out[c.Path] = c.Kind
	}
	return out
}

func TestCompareFindsEachDifference(t *testing.T) {
	for _, git := range []bool{false, true} {
		t.Run(fmt.Sprintf("git_%v", git), func(t *testing.T) {
			ctx := context.Background()
			dir := t.TempDir()
			for _, name := range []string{"a", "d/b", "d/e/c", "gone/x", "gone/y", "touched", "sp ace/ü", "a.d/z", "a/"} {
				if name != "a/" {
					put(t, dir, name, "1")
				}
			}
			must(t, os.Symlink("a", filepath.Join(dir, "link")))
			put(t, dir, ".gitignore", "*.o\nbuild/\n")
			if git {
				gitIn(t, dir, "init", "-q")
				put(t, dir, "d/x.o", "ignored")
			}
			r := openAt(t, dir, later)
			m, err := r.Scan(ctx, nil, nil)
			must(t, err)
			if m.Git != git || len(m.Entries) != 10 {
				t.Fatalf("Scan: git %v, entries %v", m.Git, m.Entries)
			}
			if m, err = workspace.DecodeManifest(m.Encode()); err != nil {
				t.Fatal(err)
			}
			if changed, unchecked, err := r.Compare(ctx, m); len(changed)+len(unchecked) > 0 || err != nil {
				t.Fatalf("Compare at rest: got %v, %v, %v", changed, unchecked, err)
			}
			put(t, dir, "a", "2")
			must(t, os.Remove(filepath.Join(dir, "d/e/c")))
			must(t, os.RemoveAll(filepath.Join(dir, "gone")))
			must(t, os.Chtimes(filepath.Join(dir, "touched"), time.Unix(1, 0), time.Unix(1, 0)))
			must(t, os.Remove(filepath.Join(dir, "link")))
			must(t, os.Symlink("d/b", filepath.Join(dir, "link")))
			put(t, dir, "d/new", "x")
			put(t, dir, "fresh/deep/n", "x")
			put(t, dir, "nested/.git/config", "x")
			put(t, dir, "d/y.o", "ignored")
			put(t, dir, "build/out", "ignored")
			want := map[string]string{"a": "modified", "d/e/c": "deleted", "gone/x": "deleted", "gone/y": "deleted",
				"touched": "modified", "link": "modified", "d/new": "created", "fresh/deep/n": "created"}
			if !git {
				want["d/y.o"], want["build/out"] = "created", "created"
			}
			changed, unchecked, err := r.Compare(ctx, m)
			must(t, err)
			if d := cmp.Diff(want, kinds(changed)); d != "" || unchecked != nil {
				t.Errorf("Compare: %v %s", unchecked, d)
			}
			if !slices.IsSortedFunc(changed, func(a, b session.ChangedFile) int { return cmpString(a.Path, b.Path) }) {
				t.Error("Compare: not sorted")
			}
		})
	}
}

func cmpString(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Files that were touched within the clock's granularity are hashed. So a change that
// leaves the same stat is found, and a mere touch does not count as a change.
func TestManifestHashesRacyFiles(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	put(t, dir, "a", "1")
	// a link has no hash and is compared by its times
	must(t, os.Symlink("a", filepath.Join(dir, "link")))
	written, err := os.Stat(filepath.Join(dir, "a"))
	must(t, err)
	// the scan is at the time of the write, however slow this machine is
	r := openAt(t, dir, written.ModTime)
	m, err := r.Scan(ctx, nil, nil)
	must(t, err)
	if len(m.Entries) != 2 || !m.Entries[1].Racy || !m.Entries[0].Racy || m.Entries[0].Hash != sum("1") {
		t.Fatalf("Scan: got %+v, want a racy entry with its hash", m.Entries)
	}
	must(t, os.Chtimes(filepath.Join(dir, "a"), time.Unix(1, 0), time.Unix(1, 0)))
	if changed, _, err := r.Compare(ctx, m); len(changed) != 0 || err != nil {
		t.Errorf("Compare after a touch: got %v, %v", changed, err)
	}
	info := m.Entries[0]
	must(t, os.WriteFile(filepath.Join(dir, "a"), []byte("2"), 0o644))
	now, err := r.Read(ctx, session.Read{Path: "a"})
	must(t, err)
	now[0].Hash, now[0].Racy = info.Hash, true
	m.Entries[0] = now[0]
	changed, _, err := r.Compare(ctx, m)
	must(t, err)
	want := []session.ChangedFile{{Path: "a", Kind: "modified", Old: sum("1"), New: sum("2"), Size: 1}}
	if d := cmp.Diff(want, changed, cmpopts.IgnoreFields(session.ChangedFile{}, "MTimeNS", "CTimeNS")); d != "" {
		t.Errorf("Compare of a hidden change: %s", d)
	}
}

// A file system may keep whole seconds, as ext4 with small inodes does. A file can then
// change for as long without another time. A process that sets a time cannot make a
// file look older than it is.
func TestRacyWhereTimesAreCoarse(t *testing.T) {
	const second = int64(time.Second)
	now := time.Unix(1_000_001, 999_000_000)
	for name, c := range map[string]struct {
		mtime, ctime int64
		want         bool
	}{
		"fine_just_now":            {now.UnixNano(), now.UnixNano() - 1, true},
		"fine_before":              {now.UnixNano() - second/2, now.UnixNano() - second/2, false},
		"whole_second":             {1_000_001 * second, 1_000_001 * second, true},
		"the_second_before":        {1_000_000 * second, 1_000_000 * second, false},
		"whole_second_before":      {999_999 * second, 999_999 * second, false},
		"fine_with_a_time_that_is": {1_000_000 * second, now.UnixNano() - second/2, false},
		"set_back":                 {second, 1_000_001 * second, true},
	} {
		if got := workspace.Racy(c.mtime, c.ctime, now); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func ctime(t testing.TB, dir, name string) int64 {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Stat(filepath.Join(dir, name), &st))
	return st.Ctim.Nano()
}

func TestChanges(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	for _, name := range []string{"read", "wrote", "vanished", "planned", "globbed.go", "other", "same", "moded", "irregular"} {
		put(t, dir, name, "1")
	}
	gitIn(t, dir, "init", "-q")
	put(t, dir, ".gitignore", "ignored*\n")
	put(t, dir, "ignored", "1")
	r := openAt(t, dir, later)
	var files []session.FileState
	for _, name := range []string{"read", "wrote", "vanished", "same", "moded", "irregular"} {
		s, err := r.Read(ctx, session.Read{Path: name})
		must(t, err)
		s[0].Wrote = name != "read"
		files = append(files, s...)
	}
	files = append(files, session.FileState{Path: "deleted", Wrote: true}, session.FileState{Path: "reappeared", Wrote: true},
		session.FileState{Path: "blocked", Wrote: true})
	planned := []string{"planned", "*.go", "ignored", "ignored3", "fresh", "not/there", "../x", "same"}
	m, err := r.Scan(ctx, planned, nil)
	must(t, err)
	if changed, unchecked, err := r.Changes(ctx, files, planned, m); len(changed)+len(unchecked) > 0 || err != nil {
		t.Fatalf("Changes at rest: got %v, %v, %v", changed, unchecked, err)
	}
	for _, name := range []string{"read", "wrote", "planned", "globbed.go", "other", "fresh", "reappeared", "ignored", "ignored2", "ignored3"} {
		put(t, dir, name, "2")
	}
	must(t, os.Remove(filepath.Join(dir, "vanished")))
	must(t, os.Chmod(filepath.Join(dir, "moded"), 0o600))
	must(t, os.Remove(filepath.Join(dir, "irregular")))
	must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "irregular")))
	must(t, os.Mkdir(filepath.Join(dir, "blocked"), 0o755))
	one, two := sum("1"), sum("2")
	want := []session.ChangedFile{
		{Path: "blocked", Kind: "modified", Session: session.FileWrote, Asks: true},
		{Path: "fresh", Kind: "created", Session: session.FilePlanned, Asks: true},
		{Path: "globbed.go", Kind: "modified", Old: one, New: two, Session: session.FilePlanned, Asks: true},
		{Path: "ignored", Kind: "modified", Old: one, New: two, Session: session.FilePlanned, Asks: true},
		{Path: "ignored3", Kind: "created", Session: session.FilePlanned, Asks: true},
		{Path: "irregular", Kind: "modified", Old: one, Session: session.FileWrote, Asks: true},
		{Path: "moded", Kind: "modified", Old: one, New: one, Session: session.FileWrote},
		{Path: "other", Kind: "modified"},
		{Path: "planned", Kind: "modified", Old: one, New: two, Session: session.FilePlanned, Asks: true},
		{Path: "read", Kind: "modified", Old: one, New: two, Session: session.FileRead, Asks: true},
		{Path: "reappeared", Kind: "created", New: two, Session: session.FileWrote, Asks: true},
		{Path: "vanished", Kind: "deleted", Old: one, Session: session.FileWrote, Asks: true},
		{Path: "wrote", Kind: "modified", Old: one, New: two, Session: session.FileWrote, Asks: true},
	}
	changed, unchecked, err := r.Changes(ctx, files, planned, m)
	must(t, err)
	if d := cmp.Diff(want, changed, cmpopts.IgnoreFields(session.ChangedFile{}, "Size", "MTimeNS", "CTimeNS")); d != "" || unchecked != nil {
		t.Errorf("Changes: %v %s", unchecked, d)
	}
	if changed, _, err := r.Changes(ctx, files[:1], nil, nil); len(changed) != 1 || err != nil {
		t.Errorf("Changes without a manifest: got %v, %v", changed, err)
	}

	late, cancel := context.WithDeadline(ctx, wall().Add(-time.Second))
	defer cancel()
	changed, unchecked, err = r.Changes(late, files, planned, m)
	must(t, err)
	for _, name := range []string{"read", "wrote", "planned", "other"} {
		if !slices.Contains(unchecked, name) {
			t.Errorf("Changes out of time: %s is not named in %v", name, unchecked)
		}
	}
	if len(changed) != 0 {
		t.Errorf("Changes out of time: got %v", changed)
	}
	ended, end := context.WithCancel(ctx)
	end()
	if _, _, err := r.Changes(ended, files, planned, m); err != context.Canceled {
		t.Errorf("Changes with an ended context: got %v", err)
	}
}

// FR-045: a file that a remaining step names asks if its content changed, whether git
// tracks it or not. It does not ask if only its times changed. A file above 64 MiB asks
// if its size changed. If only its times changed, its content is not known.
func TestChangesOfTimesAlone(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	planned := []string{"plain", "src/*.go", "out/ignored", "large", "larger"}
	for _, name := range []string{"plain", "src/a.go", "out/ignored", "large", "larger"} {
		put(t, dir, name, "1")
	}
	put(t, dir, ".gitignore", "out\n")
	gitIn(t, dir, "init", "-q")
	in := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.Truncate(in("large"), 64<<20+1))
	must(t, os.Truncate(in("larger"), 64<<20+1))
	r := openAt(t, dir, later)
	m, err := r.Scan(ctx, planned, nil)
	must(t, err)
	for _, name := range []string{"plain", "src/a.go", "out/ignored"} {
		must(t, os.Chtimes(in(name), time.Unix(1, 0), time.Unix(1, 0)))
		must(t, os.Rename(in(name), in("copy")))
		// a copy as cp -a makes it, with its own inode
		put(t, dir, name, "1")
		must(t, os.Chmod(in(name), 0o600))
		must(t, os.Chmod(in(name), 0o644))
	}
	must(t, os.Remove(in("copy")))
	if changed, _, err := r.Changes(ctx, nil, planned, m); len(changed) != 0 || err != nil {
		t.Errorf("Changes of times alone: got %+v, %v", changed, err)
	}
	again, err := r.Scan(ctx, planned, m)
	must(t, err)
	if changed, _, err := r.Changes(ctx, nil, planned, again); len(changed) != 0 || err != nil {
		t.Errorf("Changes since a second look: got %+v, %v", changed, err)
	}
	must(t, os.Chtimes(in("large"), time.Unix(1, 0), time.Unix(1, 0)))
	must(t, os.Truncate(in("larger"), 64<<20+2))
	must(t, os.Chmod(in("plain"), 0o600))
	one := sum("1")
	want := []session.ChangedFile{
		{Path: "large", Kind: session.FileUnsure, Session: session.FilePlanned, Asks: true},
		{Path: "larger", Kind: session.FileModified, Session: session.FilePlanned, Asks: true},
		{Path: "plain", Kind: session.FileModified, Old: one, New: one, Session: session.FilePlanned},
	}
	for what, m := range map[string]*workspace.Manifest{"first": m, "second": again} {
		changed, _, err := r.Changes(ctx, nil, planned, m)
		must(t, err)
		if d := cmp.Diff(want, changed, cmpopts.IgnoreFields(session.ChangedFile{}, "Size", "MTimeNS", "CTimeNS")); d != "" {
			t.Errorf("Changes since the %s look: %s", what, d)
		}
	}
}

// A path that is known not to be a regular file, from a receipt or a person, is no
// change while it stays the same. The content of a directory does not count, but the
// rest of its stat does.
func TestChangesKnowsWhatIsNoFile(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	r := openAt(t, dir, later)
	in := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.Mkdir(in("directory"), 0o755))
	must(t, os.Symlink("nowhere", in("link")))
	must(t, unix.Mkfifo(in("fifo"), 0o600))
	put(t, dir, "linked", "1")
	must(t, os.Link(in("linked"), in("twin")))
	var known []session.FileState
	for _, name := range []string{"directory", "fifo", "link", "linked"} {
		known = append(known, session.FileState{Path: name, Wrote: true})
	}
	files, err := r.Stat(ctx, known)
	must(t, err)
	if changed, unchecked, err := r.Changes(ctx, files, nil, nil); len(changed)+len(unchecked) > 0 || err != nil {
		t.Errorf("Changes at rest: got %v, %v, %v", changed, unchecked, err)
	}
	put(t, dir, "directory/below", "1")
	must(t, os.Remove(in("link")))
	must(t, os.Symlink("elsewhere", in("link")))
	must(t, os.Chmod(in("fifo"), 0o644))
	before := ctime(t, dir, "linked")
	// the kernel's clock may not have ticked since
	for ctime(t, dir, "linked") == before {
		put(t, dir, "twin", "2")
	}
	changed, _, err := r.Changes(ctx, files, nil, nil)
	must(t, err)
	if d := cmp.Diff(map[string]string{"fifo": "modified", "link": "modified", "linked": "modified"}, kinds(changed)); d != "" {
		t.Errorf("Changes: %s", d)
	}
	for _, c := range changed {
		if !c.Asks {
			t.Errorf("Changes: %s does not ask", c.Path)
		}
	}
}

// A new directory is no change if a file of the session is below it, or will be,
// because a step made it. Anything else at that path is a change.
func TestChangesKnowsTheDirectoriesOfSteps(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	r := openAt(t, dir, later)
	put(t, dir, "wrote/deep/file", "1")
	put(t, dir, "planned/file", "1")
	put(t, dir, "theirs/file", "1")
	put(t, dir, "plain", "1")
	known := []session.FileState{{Path: "wrote/deep/file", Wrote: true}}
	known, err := r.Stat(ctx, known)
	must(t, err)
	for _, gone := range []string{"wrote", "wrote/deep", "planned", "theirs", "plain"} {
		known = append(known, session.FileState{Path: gone, Wrote: true})
	}
	changed, unchecked, err := r.Changes(ctx, known, []string{"planned/file"}, nil)
	must(t, err)
	if d := cmp.Diff(map[string]string{"theirs": "modified", "plain": "created"}, kinds(changed)); d != "" || len(unchecked) > 0 {
		t.Errorf("Changes: unchecked %v, %s", unchecked, d)
	}
}

// A socket or a FIFO is in no manifest that git made, so it is not reported as created
// when its directory changes.
func TestCompareLeavesOutWhatGitDoesNotList(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	gitIn(t, dir, "init", "-q")
	put(t, dir, "a", "1")
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	must(t, os.Symlink("nowhere", filepath.Join(dir, "link")))
	r := openAt(t, dir, later)
	m, err := r.Scan(ctx, nil, nil)
	must(t, err)
	put(t, dir, "b", "1")
	must(t, os.Symlink("nowhere", filepath.Join(dir, "link2")))
	changed, _, err := r.Compare(ctx, m)
	must(t, err)
	want := map[string]string{"b": "created", "link2": "created"}
	if d := cmp.Diff(want, kinds(changed)); d != "" {
		t.Errorf("Compare: %s", d)
	}
}

// A repository inside the workspace has its own history. git lists none of its files,
// and new files in it do not belong to the workspace.
func TestCompareLeavesOutRepositoriesWithin(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	gitIn(t, dir, "init", "-q")
	put(t, dir, "a", "1")
	put(t, dir, "within/b", "1")
	gitIn(t, filepath.Join(dir, "within"), "init", "-q")
	r := openAt(t, dir, later)
	m, err := r.Scan(ctx, nil, nil)
	must(t, err)
	if len(m.Entries) != 1 || len(m.Dirs) != 1 {
		t.Errorf("Scan: got %+v below %+v, want a alone", m.Entries, m.Dirs)
	}
	put(t, dir, "within/c", "1")
	put(t, dir, "d", "1")
	changed, unchecked, err := r.Compare(ctx, m)
	must(t, err)
	if d := cmp.Diff(map[string]string{"d": "created"}, kinds(changed)); d != "" || unchecked != nil {
		t.Errorf("Compare: %v %s", unchecked, d)
	}
}

func TestManifestEncoding(t *testing.T) {
	state := rapid.Custom(func(t *rapid.T) session.FileState {
		f := session.FileState{Path: rapid.String().Draw(t, "path"), Size: rapid.Int64Min(0).Draw(t, "size"), Mode: rapid.Uint32().Draw(t, "mode"),
			MTimeNS: rapid.Int64().Draw(t, "mtime"), CTimeNS: rapid.Int64().Draw(t, "ctime"), Inode: rapid.Uint64().Draw(t, "inode"),
			Racy: rapid.Bool().Draw(t, "racy")}
		if rapid.Bool().Draw(t, "hashed") {
			f.Hash = sum(f.Path)
		}
		return f
	})
	rapid.Check(t, func(t *rapid.T) {
		m := &workspace.Manifest{Base: rapid.SampledFrom([]string{"", sum("base")}).Draw(t, "base"), Git: rapid.Bool().Draw(t, "git"),
			Dirs: rapid.SliceOf(state).Draw(t, "dirs"), Entries: rapid.SliceOf(state).Draw(t, "entries")}
		b := m.Encode()
		got, err := workspace.DecodeManifest(b)
		if d := cmp.Diff(m, got, cmpopts.EquateEmpty()); d != "" || err != nil {
			t.Fatalf("DecodeManifest: %v %s", err, oneLine(d))
		}
		if cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut"); true {
			if _, err := workspace.DecodeManifest(b[:cut]); session.CodeOf(err) != session.ErrCorrupt {
				t.Fatalf("DecodeManifest of %d of %d bytes: got %v", cut, len(b), err)
			}
		}
	})
	_, err := workspace.DecodeManifest([]byte{2})
	wantCode(t, "DecodeManifest", err, session.ErrNewer)
	_, err = workspace.DecodeManifest([]byte{1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x7f, 0})
	wantCode(t, "DecodeManifest of an absurd count", err, session.ErrCorrupt)
}

func FuzzDecodeManifest(f *testing.F) {
	m := &workspace.Manifest{Git: true, Dirs: []session.FileState{{Path: ".", Inode: 1}},
		Entries: []session.FileState{{Path: "a/b", Size: 3, Mode: 0o644, MTimeNS: 1, CTimeNS: 2, Inode: 9}, {Path: "a/c", Hash: sum("x"), Racy: true}}}
	f.Add(m.Encode())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := workspace.DecodeManifest(b)
		if err != nil {
			if m != nil {
				t.Fatal("an error and a manifest")
			}
			return
		}
		again, err := workspace.DecodeManifest(m.Encode())
		if d := cmp.Diff(m, again, cmpopts.EquateEmpty()); d != "" || err != nil {
			t.Fatalf("decoded, encoded, decoded: %v %s", err, d)
		}
	})
}

func TestSuspicious(t *testing.T) {
	old := "fine\nEVAL(old)\n"
	changed := "EVAL(old)\nx = Eval(new)\nfine\n  rm -RF / \nos.system('x'); exec(y)\neval (no)\ncurl https://ok\nwget http://bad" + string(make([]byte, 300))
	got := workspace.Suspicious([]byte(old), []byte(changed))
	if len(got) != 4 || len(got[3].Text) != 200 {
		t.Fatalf("Suspicious: got %+v", got)
	}
	got[3].Text = ""
	want := []workspace.Suspicion{{2, "eval(", "x = Eval(new)"}, {4, "rm -rf", "rm -RF /"}, {5, "exec(", "os.system('x'); exec(y)"}, {8, "wget http://", ""}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Suspicious: %s", d)
	}
	if got := workspace.Suspicious([]byte("eval(a)\n"), []byte("eval(a)\neval(a)\n")); len(got) != 1 || got[0].Line != 2 {
		t.Errorf("Suspicious of a repeated line: got %v", got)
	}
}

// Threat 3: each of its patterns is found, in upper and lower case.
func TestSuspiciousPatterns(t *testing.T) {
	for _, pattern := range []string{"eval(", "exec(", "subprocess.call(", "os.system(", "rm -rf", "curl http://", "wget http://"} {
		for _, text := range []string{pattern, strings.ToUpper(pattern)} {
			got := workspace.Suspicious(nil, []byte("fine\n"+text+"x\n"))
			if len(got) != 1 || got[0].Pattern != pattern || got[0].Line != 2 {
				t.Errorf("Suspicious(%q): got %+v", text, got)
			}
		}
	}
}

func TestDiff(t *testing.T) {
	if got, want := workspace.Diff([]byte("a\nb\n"), []byte("a\nc\n"), "f"), "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"; got != want {
		t.Errorf("Diff: got %q, want %q", got, want)
	}
	for _, b := range []string{"a\x00", string(make([]byte, 9<<20)), "same"} {
		if got := workspace.Diff([]byte("same"), []byte(b), "f"); got != "" {
			t.Errorf("Diff of content that is not shown: got %d bytes", len(got))
		}
	}
}

// BenchmarkCompare compares the time of the environment check with that of git status
// on the same tree.
func BenchmarkCompare(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			dir := b.TempDir()
			for i := range n {
				if i%40 == 0 {
					must(b, os.MkdirAll(filepath.Join(dir, fmt.Sprintf("p%d/q%d/r%d", i/10_000, i/800, i/40)), 0o755))
				}
				must(b, os.WriteFile(filepath.Join(dir, fmt.Sprintf("p%d/q%d/r%d/file%d.go", i/10_000, i/800, i/40, i)), []byte("x"), 0o644))
			}
			gitIn(b, dir, "init", "-q")
			gitIn(b, dir, "add", ".")
			gitIn(b, dir, "commit", "-q", "-m", "x")
			r := openAt(b, dir, later)
			m, err := r.Scan(context.Background(), nil, nil)
			must(b, err)
			encoded := m.Encode()
			var own, both, status []time.Duration
			for b.Loop() {
				at := wall()
				old, err := workspace.DecodeManifest(encoded)
				must(b, err)
				changed, _, err := r.Compare(context.Background(), old)
				if must(b, err); len(changed) > 0 {
					b.Fatal(changed)
				}
				own = append(own, wall().Sub(at))
				_, err = workspace.GitState(context.Background(), dir)
				must(b, err)
				both = append(both, wall().Sub(at))
				at = wall()
				cmd := exec.Command("git", "status", "--porcelain")
				cmd.Dir = dir
				must(b, cmd.Run())
				status = append(status, wall().Sub(at))
			}
			b.ReportMetric(float64(median(own))/float64(median(status)), "scan/status")
			b.ReportMetric(float64(median(both))/float64(median(status)), "scan+git/status")
			b.ReportMetric(float64(median(status))/1e6, "status-ms")
		})
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// FR-045: the temporary files of a killed Apply belong to acode, even if a remaining
// step reads every file.
func TestChangesLeavesOutTemporaryFiles(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	put(t, dir, "d/a", "1")
	r := openAt(t, dir, later)
	m, err := r.Scan(ctx, nil, nil)
	must(t, err)
	put(t, dir, "d/"+workspace.TempName("v1:key", 0), "half")
	put(t, dir, "new/"+workspace.TempName("v1:key", 1), "half")
	put(t, dir, "d/.acode-but-not-its-own.tmp", "x")
	changed, _, err := r.Changes(ctx, nil, []string{"**"}, m)
	must(t, err)
	if d := cmp.Diff(map[string]string{"d/.acode-but-not-its-own.tmp": "created"}, kinds(changed)); d != "" {
		t.Errorf("Changes: %s", d)
	}
	if m, err = r.Scan(ctx, nil, nil); err != nil || len(m.Entries) != 2 {
		t.Errorf("Scan: got %+v, %v, want two files", m.Entries, err)
	}
}
