package workspace_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/workspace"
)

const pemKey = "-----BEGIN PRIVATE" + " KEY-----\nMIIEabcdefghijklmnop\nMIIEabcdefghijklmnop\n-----END PRIVATE" + " KEY-----\n"

func TestReadText(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "f", "one\r\npassword=hunter2hunter2\n"+pemKey+"\nlast é")
	put(t, dir, "key_at_end", "one\n"+pemKey)
	put(t, dir, "empty", "")
	put(t, dir, "nul", "text\x00text")
	put(t, dir, "late", strings.Repeat("text\n", 100_000)+"\xff")
	put(t, dir, "half", "text\xc3")
	put(t, dir, "latin1", "gr\xfc\xdfe")
	must(t, os.Symlink("f", filepath.Join(dir, "link")))
	r := open(t, dir)
	for _, tt := range []struct {
		name          string
		offset, limit int
		want          string
		total, next   int
	}{
		{"f", 0, 0, "     1\tone\r\n     2\tpassword=***ter2\n     3\t***\n     7\t\n     8\tlast é", 8, 0},
		{"link", 1, 2, "     1\tone\r\n     2\tpassword=***ter2\n", 8, 3},
		{"f", 3, 1, "     3\t***\n", 8, 7},
		{"f", 5, 2, "     3\t***\n     7\t\n", 8, 8},
		{"f", 7, 9, "     7\t\n     8\tlast é", 8, 0},
		{"f", 9, 0, "", 8, 0},
		{"key_at_end", 4, 0, "     2\t***\n", 5, 0},
		{"key_at_end", 6, 0, "", 5, 0},
		{"empty", 0, 0, "", 0, 0},
		{"nul", 0, 0, "binary, 9 bytes, sha256 " + sum("text\x00text") + "\n", 0, 0},
		{"late", 0, 0, "binary, 500001 bytes, sha256 " + sum(strings.Repeat("text\n", 100_000)+"\xff") + "\n", 0, 0},
		{"half", 0, 0, "binary, 5 bytes, sha256 " + sum("text\xc3") + "\n", 0, 0},
		{"latin1", 0, 0, "binary, 5 bytes, sha256 " + sum("gr\xfc\xdfe") + "\n", 0, 0},
	} {
		got, err := r.ReadText(t.Context(), tt.name, tt.offset, tt.limit)
		if err != nil || got.Numbered() != tt.want || got.Total != tt.total || got.Next != tt.next || got.Truncated != (tt.next > 0) || got.Binary != strings.HasPrefix(tt.want, "binary") {
			t.Errorf("ReadText %s from %d, %d lines: got %q of %d, next %d, truncated %v, %v", tt.name, tt.offset, tt.limit, got.Numbered(), got.Total, got.Next, got.Truncated, err)
		}
	}
	got, err := r.ReadText(t.Context(), "f", 0, 0)
	if want := "one\r\npassword=***ter2\n***\n\nlast é"; err != nil || got.String() != want || got.File.Path != "f" || got.File.Hash != sum("one\r\npassword=hunter2hunter2\n"+pemKey+"\nlast é") {
		t.Errorf("ReadText: got %q of %+v, %v, want %q", got.String(), got.File, err, want)
	}
	for _, numbers := range [][2]int{{-1, 0}, {0, -1}} {
		_, err := r.ReadText(t.Context(), "f", numbers[0], numbers[1])
		wantCode(t, "ReadText", err, session.ErrUsage)
	}
}

// An answer has at most 64 KiB, and continues where the one before it ended.
func TestReadTextInParts(t *testing.T) {
	dir := t.TempDir()
	var file strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&file, "line %d é\n", i)
	}
	put(t, dir, "long", file.String())
	long := strings.Repeat("é", 40_000)
	put(t, dir, "wide", "a\n"+long+"\nb\n")
	r := open(t, dir)
	var all strings.Builder
	for offset := 1; offset > 0; {
		got, err := r.ReadText(t.Context(), "long", offset, 0)
		must(t, err)
		if size := len(got.Numbered()); size > 64<<10 || got.Next > 0 && size < 63<<10 {
			t.Fatalf("ReadText from %d: %d bytes", offset, size)
		}
		all.WriteString(got.String())
		offset = got.Next
	}
	if all.String() != file.String() {
		t.Error("ReadText: the parts are not the file")
	}
	got, err := r.ReadText(t.Context(), "wide", 2, 0)
	if err != nil || len(got.Lines) != 1 || !got.Lines[0].Cut || !got.Truncated || got.Next != 3 || !strings.HasPrefix(long, got.String()) || len(got.Numbered()) < 60<<10 || len(got.Numbered()) > 64<<10 {
		t.Errorf("ReadText of a long line: %d bytes, next %d, %v", len(got.String()), got.Next, err)
	}
	if got, err = r.ReadText(t.Context(), "wide", 3, 0); got.String() != "b\n" || err != nil {
		t.Errorf("ReadText after a long line: got %q, %v", got.String(), err)
	}
	if got, err = r.ReadText(t.Context(), "wide", 0, 0); len(got.Lines) != 2 || !strings.HasPrefix("a\n"+long, got.String()) || got.Next != 3 || len(got.Numbered()) > 64<<10 || err != nil {
		t.Errorf("ReadText before a long line: got %d lines, next %d, %v", len(got.Lines), got.Next, err)
	}
}

// A line that is cut shows no part of a secret or of a mask.
func TestReadTextCutsNoMask(t *testing.T) {
	const secret = "s3cr3t-0123456789"
	for before := 65_480; before < 65_530; before++ {
		dir := t.TempDir()
		put(t, dir, "f", strings.Repeat("x", before)+secret+strings.Repeat("x", 100))
		r := open(t, dir)
		r.Redact = redact.New([]string{secret})
		got, err := r.ReadText(t.Context(), "f", 0, 0)
		must(t, err)
		if rest := strings.Trim(strings.Replace(got.String(), "***6789", "", 1), "x"); rest != "" || len(got.String()) < 65_000 || !got.Truncated {
			t.Errorf("ReadText, secret at %d: %q is left of it in %d bytes", before, rest, len(got.String()))
		}
	}
}

// W1: nothing outside is read, nothing blocks, and what is not a regular file is refused.
func TestReadTextAndListEscape(t *testing.T) {
	dir, outside := corpus(t)
	r := open(t, dir)
	for name, unreadable := range escapes(outside) {
		got, err := r.ReadText(t.Context(), name, 0, 0)
		if !unreadable {
			must(t, err)
			continue
		}
		var e *session.Error
		if !errors.As(err, &e) || e.Code != session.ErrEscape && e.Code != session.ErrFileStep || got.String() != "" {
			t.Errorf("ReadText %q: got %q, %v, want a refusal", name, got, err)
		}
		entries, _, err := r.List(t.Context(), name, 0)
		if inside := map[string]bool{"": true, "d": true, "hard": true, "fifo": true, "socket": true}; !inside[name] && (err == nil || len(entries) > 0) {
			t.Errorf("List %q: got %v, %v, want a refusal", name, entries, err)
		}
	}
	for _, name := range []string{".", "d/", "good/"} {
		_, err := r.ReadText(t.Context(), name, 0, 0)
		wantCode(t, "ReadText of a directory", err, session.ErrFileStep)
	}
	for _, where := range []string{".", "**", "*/*", "**/secret", "abs_dir/*", "proc/*", "up/**"} {
		entries, _, err := r.List(t.Context(), where, 0)
		for _, e := range entries {
			if strings.Contains(e.Path, "secret") || strings.Contains(e.Path, "passwd") {
				t.Errorf("List %s: got %s", where, e)
			}
		}
		if err == nil && strings.Contains(where, "/*") && where != "*/*" && len(entries) > 0 {
			t.Errorf("List %s: got %v", where, entries)
		}
	}
	device := open(t, "/dev")
	_, err := device.ReadText(t.Context(), "zero", 0, 0)
	wantCode(t, "ReadText of a device", err, session.ErrEscape)
}

// A large file costs time and no memory. The file has no blocks.
func TestReadTextOfALargeFile(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "sparse", strings.Repeat("text\n", 10_000))
	must(t, os.Truncate(filepath.Join(dir, "sparse"), 1<<30))
	put(t, dir, "one_line", strings.Repeat("long ", 8<<20/5))
	r := open(t, dir)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := r.ReadText(t.Context(), "sparse", 0, 0)
	runtime.ReadMemStats(&after)
	if err != nil || !got.Binary || !strings.HasPrefix(got.String(), "binary, 1073741824 bytes, sha256 ") {
		t.Errorf("ReadText: got %q, %v", got, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
		t.Errorf("ReadText of 1 GiB: %d bytes of memory", used)
	}
	if got, err = r.ReadText(t.Context(), "one_line", 0, 0); err != nil || len(got.String()) < 60<<10 || len(got.String()) > 64<<10 || got.Total != 1 {
		t.Errorf("ReadText of one long line: %d bytes, %v", len(got.String()), err)
	}
}

func TestList(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"src/b.go", "src/a.go", "src/x/c.go", "src/x-1.go", ".git/d.go", "src/.git/e.go", ".hidden.go", "[x]/f"} {
		put(t, dir, name, "content")
	}
	must(t, os.Symlink("/etc", filepath.Join(dir, "out")))
	must(t, os.Symlink("src", filepath.Join(dir, "way")))
	must(t, unix.Mkfifo(filepath.Join(dir, "src/fifo"), 0o600))
	must(t, os.Link(filepath.Join(dir, "src/a.go"), filepath.Join(dir, "src/hard.go")))
	put(t, dir, "src/ghp_Abcd1234Efgh5678Ijkl9012", "")
	r := open(t, dir)
	for _, tt := range []struct {
		where string
		limit int
		want  string
		more  bool
	}{
		{"", 0, ".hidden.go\tfile\t7\n[x]\tdirectory\nout\tlink\nsrc\tdirectory\nway\tlink", false},
		{"src", 0, "src/a.go\tother\nsrc/b.go\tfile\t7\nsrc/fifo\tother\nsrc/***9012\tfile\t0\nsrc/hard.go\tother\nsrc/x\tdirectory\nsrc/x-1.go\tfile\t7", false},
		{"src/", 1, "src/a.go\tother", true},
		{"src/x", 1, "src/x/c.go\tfile\t7", false},
		{"way/x", 0, "way/x/c.go\tfile\t7", false},
		{"[x]", 0, "[x]/f\tfile\t7", false},
		{"**/*.go", 3, ".hidden.go\tfile\t7\nsrc/a.go\tother\nsrc/b.go\tfile\t7", true},
		{"src/**", 0, "src/a.go\tother\nsrc/b.go\tfile\t7\nsrc/fifo\tother\nsrc/***9012\tfile\t0\nsrc/hard.go\tother\nsrc/x\tdirectory\nsrc/x-1.go\tfile\t7\nsrc/x/c.go\tfile\t7", false},
		{"src/b.go", 0, "src/b.go\tfile\t7", false},
		{".git", 0, ".git/d.go\tfile\t7", false},
		{"*.rs", 0, "", false},
	} {
		entries, more, err := r.List(t.Context(), tt.where, tt.limit)
		var lines []string
		for _, e := range entries {
			lines = append(lines, e.String())
		}
		if diff := cmp.Diff(tt.want, strings.Join(lines, "\n")); diff != "" || more != tt.more || err != nil {
			t.Errorf("List %q: more %v, %v (-want +got):\n%s", tt.where, more, err, diff)
		}
	}
	for where, code := range map[string]session.Code{"no": session.ErrFileStep, "out": session.ErrEscape, "out/passwd": session.ErrEscape, "[": session.ErrFileStep, "..": session.ErrEscape, "src/b.go/x": session.ErrFileStep} {
		_, _, err := r.List(t.Context(), where, 0)
		wantCode(t, "List "+where, err, code)
	}
	_, _, err := r.List(t.Context(), "", -1)
	wantCode(t, "List", err, session.ErrUsage)
}

// A list has at most 64 KiB.
func TestLongList(t *testing.T) {
	dir := t.TempDir()
	for i := range 700 {
		put(t, dir, fmt.Sprintf("%0120d", i), "")
	}
	entries, more, err := open(t, dir).List(t.Context(), "*", 0)
	if size := len(entries) * (120 + len("\tfile\t0\n")); err != nil || !more || size > 64<<10 || size < 63<<10 {
		t.Errorf("List: %d bytes, more %v, %v", size, more, err)
	}
}

// A name does not break a line or look like another one.
func TestHostileNames(t *testing.T) {
	dir := t.TempDir()
	names := []string{"a\nb: 1: x", "c\x1b[31m", "d\u2028e", "f\u202eg", "\"h\"", "i\xff", "j\tfile\t9", "k\r", "plain é"}
	for _, name := range names {
		put(t, dir, name, "found")
	}
	r := open(t, dir)
	entries, _, err := r.List(t.Context(), "", 0)
	must(t, err)
	text, _, _, err := r.Search(t.Context(), session.Search{Pattern: "found"})
	must(t, err)
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(entries) != len(names) || len(lines) != len(names) {
		t.Fatalf("List and Search: got %d entries and %d lines, want %d:\n%s", len(entries), len(lines), len(names), text)
	}
	for i, e := range entries {
		for _, line := range []string{e.String(), lines[i]} {
			line = strings.Replace(line, "\tfile\t5", "", 1)
			if strings.ContainsFunc(line, func(c rune) bool { return c < ' ' || c == '\u2028' || c == '\u202e' || c == utf8.RuneError }) {
				t.Errorf("entry of %q: got the line %q", e.Path, line)
			}
		}
	}
	if got := entries[len(entries)-1].String(); got != "plain é\tfile\t5" {
		t.Errorf("List: got %q", got)
	}
}

func FuzzShownName(f *testing.F) {
	for _, name := range []string{"a", "a\nb", "\"", "\xff", "\u2029", "\t"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		line := workspace.Entry{Path: name, Kind: workspace.EntryDirectory}.String()
		shown, kind, _ := strings.Cut(line, "\t")
		if kind != "directory" || !utf8.ValidString(shown) || strings.ContainsAny(shown, "\n\r\x1b\u2028\u2029\u0085") {
			t.Errorf("String of %q: got %q", name, line)
		}
	})
}

// Reading ends with its context, and a pipe that takes the place of a file does not
// block.
func TestReadTextThatEnds(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "f", "text")
	for asks := 0; ; asks++ {
		ctx := &endsAfter{t.Context(), asks}
		_, err := open(t, dir).ReadText(ctx, "f", 0, 0)
		if ctx.asks >= 0 {
			must(t, err)
			break
		}
		if err == nil {
			t.Fatalf("ReadText that ends after %d questions: got nil", asks)
		}
	}
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	done := make(chan error, 1)
	go func() {
		_, err := open(t, dir).ReadText(t.Context(), "fifo", 0, 0)
		done <- err
	}()
	select {
	case err := <-done:
		wantCode(t, "ReadText of a FIFO", err, session.ErrEscape)
	case <-time.After(10 * time.Second):
		t.Fatal("ReadText of a FIFO blocks")
	}
}
