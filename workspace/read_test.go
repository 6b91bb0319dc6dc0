package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/workspace"
)

// A workspace is in place as long as its path leads to the open directory.
func TestInPlace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ws")
	must(t, os.Mkdir(dir, 0o755))
	r := open(t, dir)
	must(t, r.InPlace())
	must(t, os.Rename(dir, dir+"2"))
	wantCode(t, "InPlace of a workspace that was moved", r.InPlace(), session.ErrEnvironment)
	must(t, os.Mkdir(dir, 0o755))
	wantCode(t, "InPlace of a workspace that was replaced", r.InPlace(), session.ErrEnvironment)
	must(t, os.Remove(dir))
	must(t, os.Symlink(dir+"2", dir))
	must(t, r.InPlace())
	must(t, os.Remove(dir+"2"))
	wantCode(t, "InPlace of a workspace that was removed", r.InPlace(), session.ErrEnvironment)
}

func TestOpenAndRefuse(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "file", "x")
	for _, bad := range []string{filepath.Join(dir, "no"), filepath.Join(dir, "file")} {
		_, err := workspace.Open(bad, wall)
		wantCode(t, "Open", err, session.ErrEnvironment)
	}
	r := open(t, dir)
	if r.Dir() != dir {
		t.Errorf("Dir: got %s, want %s", r.Dir(), dir)
	}
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(dir, link))
	wantCode(t, "Refuse the root", workspace.Refuse("/", dir, nil), session.ErrWorkspace)
	wantCode(t, "Refuse the home", workspace.Refuse(dir+"/", dir, nil), session.ErrWorkspace)
	wantCode(t, "Refuse the home by a link", workspace.Refuse(link, dir, []string{"/"}), session.ErrWorkspace)
	for _, err := range []error{
		workspace.Refuse(dir, dir, []string{"/x", link}), workspace.Refuse("/", dir, []string{"/"}),
		workspace.Refuse(t.TempDir(), dir, nil), workspace.Refuse(dir, "", nil), workspace.Refuse("/nowhere/x", dir, nil),
	} {
		if err != nil {
			t.Errorf("Refuse: got %v, want nil", err)
		}
	}
}

func TestGlob(t *testing.T) {
	tests := []struct {
		glob, name   string
		match, under bool
	}{
		{"src/**/*.go", "src/a.go", true, true},
		{"src/**/*.go", "src/x/y/a.go", true, true},
		{"src/**/*.go", "src", false, true},
		{"src/**/*.go", "lib/a.go", false, false},
		{"**", "a/b/c", true, true},
		{"**/a", "a", true, true},
		{"**/x/**/y", "p/x/q/x/r/y", true, true},
		{"**/x/**/y", "p/q/y", false, true},
		{"a/*", "a/b/c", false, false},
		{"a/*/c", "a/b", false, true},
		{"a/**", "a", true, true},
		{"[ab]?", "bx", true, false},
		{"./a//b", "a/b", true, false},
	}
	for _, tt := range tests {
		match, under := workspace.Matches(tt.glob, tt.name)
		if match != tt.match || under && !tt.under {
			t.Errorf("%s on %s: got match %v under %v, want %v %v", tt.glob, tt.name, match, under, tt.match, tt.under)
		}
		if tt.under && !under {
			t.Errorf("%s under %s: got false", tt.glob, tt.name)
		}
	}
}

// A name that the journal cannot hold would be a different name at the next resume.
func TestNamesThatAreNotText(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	put(t, dir, "a", "found")
	put(t, dir, "b\xff", "found")
	r := open(t, dir)
	states, err := r.Read(ctx, session.Read{Path: "*"})
	if err != nil || len(states) != 1 || states[0].Path != "a" {
		t.Errorf("Read: got %+v, %v", states, err)
	}
	text, _, states, err := r.Search(ctx, session.Search{Pattern: "found", Path: "."})
	if want := "a:1: found\n\"b\\xff\":1: found\n"; err != nil || text != want || len(states) != 1 || states[0].Path != "a" {
		t.Errorf("Search: got %q, %+v, %v", text, states, err)
	}
}

// A search skips a path that is not a regular file, even if it finds nothing else.
func TestSearchMeetsOnlyALink(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "d", "link")))
	for _, where := range []string{"d", "d/*", "**"} {
		text, _, states, err := open(t, dir).Search(context.Background(), session.Search{Pattern: "root", Path: where})
		if text != "" || states != nil || err != nil {
			t.Errorf("Search in %s: got %q, %v, %v", where, text, states, err)
		}
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"src/b.go", "src/a.go", "src/x/y/c.go", "src/x/n.txt", "src/x-1.go", ".git/d.go", "src/.git/e.go", "other.go", ".hidden.go"} {
		put(t, dir, name, "content of "+name)
	}
	outside := t.TempDir()
	put(t, outside, "secret.go", "secret")
	must(t, os.Symlink("a.go", filepath.Join(dir, "src/link.go")))
	must(t, os.Symlink(filepath.Join(outside, "secret.go"), filepath.Join(dir, "src/out.go")))
	must(t, os.Symlink("x", filepath.Join(dir, "src/dir.go")))
	must(t, unix.Mkfifo(filepath.Join(dir, "src/fifo.go"), 0o600))
	r := open(t, dir)
	tests := map[string]struct {
		glob string
		want []string
	}{
		"stars":       {"src/**/*.go", []string{"src/a.go", "src/b.go", "src/link.go", "src/x-1.go", "src/x/y/c.go"}},
		"one_level":   {"*.go", []string{".hidden.go", "other.go"}},
		"literal":     {"./src/a.go", []string{"src/a.go"}},
		"in_git":      {".git/d.go", []string{".git/d.go"}},
		"by_link":     {"src/dir.go/n.txt", []string{"src/dir.go/n.txt"}},
		"nothing":     {"src/*.rs", nil},
		"missing_dir": {"no/**", nil},
		"file_there":  {"other.go/x/*", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			states, err := r.Read(context.Background(), session.Read{Path: tt.glob})
			must(t, err)
			var got []string
			for _, s := range states {
				got = append(got, s.Path)
				if b, _ := os.ReadFile(filepath.Join(dir, s.Path)); s.Hash != sum(string(b)) || s.Size != int64(len(b)) || s.Inode == 0 {
					t.Errorf("Read: %+v does not describe the file", s)
				}
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("Read: %s", d)
			}
		})
	}
	for glob, code := range map[string]session.Code{
		"no": session.ErrFileStep, "src": session.ErrEscape, "src/[": session.ErrFileStep, "../x": session.ErrEscape,
		"src/out.go": session.ErrEscape, "src/fifo.go": session.ErrEscape, "": session.ErrEscape, "other.go/x": session.ErrFileStep,
	} {
		_, err := r.Read(context.Background(), session.Read{Path: glob})
		wantCode(t, "Read "+glob, err, code)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.Read(ended, session.Read{Path: "**"}); err != context.Canceled {
		t.Errorf("Read with an ended context: got %v", err)
	}
}

func TestReadRefusesTooMany(t *testing.T) {
	dir := quick(t)
	for i := range 10_001 {
		must(t, os.WriteFile(filepath.Join(dir, "f"+string(rune('a'+i%26))+strings.Repeat("x", i%150)+time.Duration(i).String()), nil, 0o600))
	}
	_, err := open(t, dir).Read(context.Background(), session.Read{Path: "*"})
	wantCode(t, "Read", err, session.ErrFileStep)
}

func TestSearch(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "src/a", "one\ntwo TODO\r\nthree\nTODO last")
	put(t, dir, "src/b/c", "TODO "+strings.Repeat("x", 500)+"\n")
	put(t, dir, "src/bin", "TODO\x00")
	put(t, dir, "src/bad", "\xff TODO\n")
	put(t, dir, "src/.git/x", "TODO")
	put(t, dir, "src/none", "nothing")
	put(t, dir, "src/empty", "")
	put(t, dir, "long", strings.Repeat("y", 3<<20)+" TODO\nTODO\n")
	r := open(t, dir)
	ctx := context.Background()
	text, cut, files, err := r.Search(ctx, session.Search{Pattern: "TODO", Path: "src"})
	must(t, err)
	want := "src/a:2: two TODO\nsrc/a:4: TODO last\nsrc/b/c:1: TODO " + strings.Repeat("x", 395) + "\nsrc/bad:1: � TODO\n"
	if text != want || cut {
		t.Errorf("Search: got %q, cut %v", text, cut)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Path)
		if b, _ := os.ReadFile(filepath.Join(dir, f.Path)); f.Hash != sum(string(b)) {
			t.Errorf("Search: hash of %s is wrong", f.Path)
		}
	}
	if d := cmp.Diff([]string{"src/a", "src/b/c", "src/bad"}, names); d != "" {
		t.Errorf("Search: %s", d)
	}
	for where, want := range map[string]string{
		"src/a": "src/a:2: two TODO\nsrc/a:4: TODO last\n", "src/*": "src/a:2: two TODO\nsrc/a:4: TODO last\nsrc/bad:1: � TODO\n",
		"long": "long:2: TODO\n", "no/*": "", "src/a/x/*": "", "src/none": "", "src/bin": "",
	} {
		if text, _, _, err := r.Search(ctx, session.Search{Pattern: "TODO", Path: where}); text != want || err != nil {
			t.Errorf("Search in %s: got %q, %v, want %q", where, text, err, want)
		}
	}
	put(t, dir, "many", strings.Repeat("TODO it\n", 20_000))
	text, cut, files, err = r.Search(ctx, session.Search{Pattern: "TODO", Path: ""})
	if must(t, err); !cut || len(text) > 64<<10 || len(text) < 60<<10 || len(files) == 0 {
		t.Errorf("Search of too much: %d bytes, cut %v, %d files", len(text), cut, len(files))
	}
	for pattern, where := range map[string]string{"(": "src", "a": "no", "b": "../x"} {
		_, _, _, err := r.Search(ctx, session.Search{Pattern: pattern, Path: where})
		code := session.ErrFileStep
		if where == "../x" {
			code = session.ErrEscape
		}
		wantCode(t, "Search", err, code)
	}
}

// A search may examine more files than a read may name, because its receipt has only
// the files that matched.
func TestSearchInMoreFilesThanARead(t *testing.T) {
	dir := t.TempDir()
	for i := range 10_001 {
		put(t, dir, fmt.Sprintf("d/%05d", i), "nothing")
	}
	put(t, dir, "d/zz", "TODO")
	r := open(t, dir)
	for _, where := range []string{"", "d", "d/*"} {
		text, _, files, err := r.Search(context.Background(), session.Search{Pattern: "TODO", Path: where})
		if text != "d/zz:1: TODO\n" || len(files) != 1 || err != nil {
			t.Errorf("Search in %q: got %q, %d files, %v", where, text, len(files), err)
		}
	}
	_, err := r.Read(context.Background(), session.Read{Path: "d/*"})
	wantCode(t, "Read", err, session.ErrFileStep)
	if want := "more than 10000 files"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Read: got %v, want %q", err, want)
	}
}

// If a line is cut inside a secret, no part of the secret is left.
func TestSearchCutsNoSecret(t *testing.T) {
	const secret = "s3cr3t-0123456789"
	for _, length := range []int{500, 40_000} {
		for _, at := range []int{380, 399, 400, 410} {
			dir := t.TempDir()
			put(t, dir, "f", "TODO"+strings.Repeat("x", at-4)+secret+strings.Repeat("x", length-at))
			r := open(t, dir)
			r.Redact = redact.New([]string{secret})
			text, _, _, err := r.Search(t.Context(), session.Search{Pattern: "TODO"})
			must(t, err)
			shown := strings.Replace(strings.TrimPrefix(text, "f:1: TODO"), "***6789", "", 1)
			if kept := strings.Trim(shown, "x*\n"); kept != "" || len(shown) < 300 || len(shown) > 400 {
				t.Errorf("Search, secret at %d of %d: %q is kept of it, %d bytes are shown", at, length, kept, len(shown))
			}
		}
	}
}

// endsAfter is a context that ends after a number of calls of Err.
type endsAfter struct {
	context.Context
	asks int
}

func (e *endsAfter) Err() error {
	if e.asks--; e.asks < 0 {
		return context.Canceled
	}
	return nil
}

// A search whose result is full in the middle of a file says that it is cut, and still
// returns that file. A search whose context ends at any earlier point returns its error.
func TestSearchThatEndsEarly(t *testing.T) {
	dir := t.TempDir()
	// more than a result may have
	put(t, dir, "a", strings.Repeat("TODO it\n", 20_000))
	r := open(t, dir)
	for asks := 0; ; asks++ {
		ctx := &endsAfter{context.Background(), asks}
		_, cut, files, err := r.Search(ctx, session.Search{Pattern: "TODO", Path: "a"})
		if ctx.asks >= 0 {
			if must(t, err); !cut || len(files) != 1 {
				t.Errorf("Search: cut %v, files %+v", cut, files)
			}
			return
		}
		if err != context.Canceled {
			t.Fatalf("Search that ends after %d questions: got %+v, %v", asks, files, err)
		}
	}
}

// Times are compared with the wall-clock times of files.
func TestStatTrustsOnlyWhatCannotHide(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a", "1")
	ctx := context.Background()
	fresh, err := open(t, dir).Read(ctx, session.Read{Path: "a"})
	must(t, err)
	if !fresh[0].Racy {
		t.Fatal("Read of a file written this instant: not racy")
	}
	must(t, os.Chtimes(filepath.Join(dir, "a"), time.Unix(1, 0), time.Unix(1, 0)))
	if fresh, err = open(t, dir).Read(ctx, session.Read{Path: "a"}); !fresh[0].Racy || err != nil {
		t.Errorf("Read of a file whose time was set back this instant: not racy, %v", err)
	}
	r := openAt(t, dir, later)
	calm, err := r.Read(ctx, session.Read{Path: "a"})
	must(t, err)
	if calm[0].Racy {
		t.Fatal("Read an hour later: racy")
	}

	lie := calm[0]
	lie.Hash = sum("not read again")
	got, err := r.Stat(ctx, []session.FileState{lie})
	must(t, err)
	if got[0].Hash != lie.Hash {
		t.Error("Stat hashed a file whose stat is the same")
	}
	lie.Racy = true
	if got, err = r.Stat(ctx, []session.FileState{lie}); got[0].Hash != sum("1") || err != nil {
		t.Errorf("Stat believed a racy stat: %v", err)
	}
	racy := got[0]
	racy.Racy = true
	if got, err = r.Stat(ctx, []session.FileState{racy}); got[0].Racy || got[0].Hash != sum("1") || err != nil {
		t.Errorf("Stat of a file that has settled: got %+v, %v", got[0], err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "a"), []byte("2"), 0o644))
	if got, err = r.Stat(ctx, []session.FileState{racy}); got[0].Hash != sum("2") || err != nil {
		t.Errorf("Stat of a settled file that changed: got %+v, %v", got[0], err)
	}
	must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "out")))
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	got, err = r.Stat(ctx, []session.FileState{calm[0], {Path: "no", Wrote: true}, {Path: "a/b"}, {Path: "out"}, {Path: "fifo"}, {Path: "x/y"}})
	must(t, err)
	if got[0].Hash != sum("2") || got[1].Hash != "" || !got[1].Wrote || got[1].Inode != 0 || got[2].Hash != "" ||
		got[3].Hash != "" || got[3].Inode == 0 || got[4].Hash != "" || got[4].Inode == 0 || got[5].Inode != 0 {
		t.Errorf("Stat: got %+v", got)
	}
	_, err = r.Stat(ctx, []session.FileState{{Path: "../x"}})
	wantCode(t, "Stat", err, session.ErrEscape)
	_, _, err = r.Content("no/such")
	wantCode(t, "Content", err, session.ErrFileStep)
	_, _, err = r.Content("out")
	wantCode(t, "Content of a link", err, session.ErrEscape)
}

// A read or a search that is ended, for example by a signal, returns that. It neither
// skips a file because of it nor blames one.
func TestReadingThatIsEnded(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		put(t, dir, name, "TODO")
	}
	signal := errors.New("a signal")
	read := func(where string) func(context.Context, *workspace.Root) error {
		return func(ctx context.Context, r *workspace.Root) error {
			_, err := r.Read(ctx, session.Read{Path: where})
			return err
		}
	}
	search := func(where string) func(context.Context, *workspace.Root) error {
		return func(ctx context.Context, r *workspace.Root) error {
			_, _, _, err := r.Search(ctx, session.Search{Pattern: "TODO", Path: where})
			return err
		}
	}
	for name, call := range map[string]func(context.Context, *workspace.Root) error{
		"read_one": read("b"), "read": read("*"), "search": search(""), "search_pattern": search("?"), "search_one": search("b"),
	} {
		ctx, end := context.WithCancelCause(context.Background())
		// once a file is open
		r := openAt(t, dir, func() time.Time { end(signal); return wall() })
		if err := call(ctx, r); !errors.Is(err, signal) || session.CodeOf(err) != session.ErrInternal {
			t.Errorf("%s: got %v, want only that it was ended", name, err)
		}
	}
}
