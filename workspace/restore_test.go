package workspace_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
)

const secrets = "# settings\nuser: ann\npassword: \"hunter2hunter2\"\nurl: postgres://u:s3cr3t-of-pg@h/db\n" + pemKey +
	"token=ghp_Abcd1234Efgh5678Ijkl9012Mnop\nvalue: planted-by-value-42\nlast: 1\n"

// An author who saw the file masked writes it back with each tool. The secrets are kept.
func TestRestoreWhatWasRead(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(seen string) session.Change
		want   string
	}{
		"write_file": {func(seen string) session.Change {
			return write("f", strings.Replace(seen, "ann", "bob", 1))
		}, strings.Replace(secrets, "ann", "bob", 1)},
		"edit_file_old_and_new": {func(string) session.Change {
			return edit("f", "db\n***\ntoken=***Mnop\n", "db2\n***\ntoken=***Mnop\nmore: 1\n")
		}, strings.Replace(strings.Replace(secrets, "/db", "/db2", 1), "Mnop\n", "Mnop\nmore: 1\n", 1)},
		"edit_file_old": {func(string) session.Change { return edit("f", `password: "***ter2"`, "password: none") },
			strings.Replace(secrets, `"hunter2hunter2"`, "none", 1)},
		"edit_file_new": {func(string) session.Change { return edit("f", "last: 1", "url: postgres://u:***f-pg@h2/db") },
			strings.Replace(secrets, "last: 1", "url: postgres://u:s3cr3t-of-pg@h2/db", 1)},
		"edit_file_without_masks": {func(string) session.Change { return edit("f", "user: ann", "user: *bob*") },
			strings.Replace(secrets, "ann", "*bob*", 1)},
		"other_change": {func(string) session.Change { return write("f", "** all * new \x00") }, "** all * new \x00"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, "f", secrets)
			r := open(t, dir)
			r.Redact = redact.New([]string{"planted-by-value-42"})
			text, err := r.ReadText(t.Context(), "f", 0, 0)
			if seen := text.String(); err != nil || strings.Count(seen, "***") != 5 || seen != r.Redact.String(secrets) {
				t.Fatalf("ReadText: got %q, %v", seen, err)
			}
			full, err := r.Restore(t.Context(), tt.change(text.String()))
			must(t, err)
			apply(t, r, full)
			if diff := cmp.Diff(tt.want, tree(t, dir)["f"].Content); diff != "" {
				t.Errorf("after the change (-want +got):\n%s", diff)
			}
		})
	}
}

// A change whose masks are in doubt is refused, and nothing changes.
func TestRestoreRefuses(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "f", secrets)
	put(t, dir, "two", "password: 'ab'\npassword: 'cd'\n")
	put(t, dir, "aim", "token=hunter2hunter2\n")
	put(t, dir, "d/x", "")
	must(t, os.Symlink("aim", filepath.Join(dir, "link")))
	must(t, os.Link(filepath.Join(dir, "aim"), filepath.Join(dir, "hard")))
	put(t, dir, "large", "")
	must(t, os.Truncate(filepath.Join(dir, "large"), 65<<20))
	before := tree(t, dir)
	r := open(t, dir)
	for name, tt := range map[string]struct {
		change session.Change
		code   session.Code
		says   string
	}{
		"unknown":        {write("f", "a\nb: ***abcd\n"), session.ErrUsage, `the mask "***abcd" on line 2 stands for nothing in the file`},
		"new_file":       {write("new", "token=***ter2"), session.ErrUsage, "nothing"},
		"new_directory":  {write("new/new", "token=***ter2"), session.ErrUsage, "nothing"},
		"below_a_file":   {write("f/x", "token=***ter2"), session.ErrUsage, "nothing"},
		"ambiguous":      {write("two", "password: '***'\n"), session.ErrUsage, "more than one value"},
		"old":            {edit("f", "***abcd", "x"), session.ErrUsage, "nothing"},
		"new":            {edit("f", "ann", "***abcd"), session.ErrUsage, "nothing"},
		"inside":         {edit("f", "2hunter2\"\nurl", "x"), session.ErrUsage, "the masked secret on line 3"},
		"inside_all":     {session.Change{Op: session.KindEdit, Path: "f", Old: "r2", New: "x", All: true}, session.ErrUsage, "line 3"},
		"shown":          {edit("f", "password:", "pw:"), session.ErrUsage, `line 3 of the result would show the secret that is masked as "***ter2"`},
		"shown_by_write": {write("f", "see ***ter2"), session.ErrUsage, "line 1 of the result"},
		"directory":      {write("d", "***"), session.ErrEscape, "directory"},
		"link":           {write("link", "token=***ter2"), session.ErrEscape, "link"},
		"hard_link":      {edit("hard", "a", "b"), session.ErrEscape, "hard link"},
		"outside":        {edit("../f", "a", "b"), session.ErrEscape, ".."},
		"too_large":      {edit("large", "a", "b"), session.ErrFileStep, "64 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.Restore(t.Context(), tt.change)
			wantCode(t, "Restore", err, tt.code)
			if !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("Restore: got %v, want %q", err, tt.says)
			}
		})
	}
	if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
		t.Errorf("Restore changed files (-want +got):\n%s", diff)
	}
	for _, c := range []session.Change{remove("f"), move("f", "***"), write("new", "text"), edit("no", "a", "b"), edit("f", "", "b"), edit("f", "absent", "b")} {
		if got, err := r.Restore(t.Context(), c); got != c || err != nil {
			t.Errorf("Restore(%v): got %v, %v, want it unchanged", c, got, err)
		}
	}
}

// A search shows no line of a key and does not tell whether a guess of a secret is right.
func TestSearchFindsNoSecret(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "f", secrets)
	r := open(t, dir)
	for pattern, want := range map[string]string{"MIIE": "", "hunter2": "", "password: .h": "", "^token": "f:9: token=***Mnop\n", "last|user": "f:2: user: ann\nf:11: last: 1\n"} {
		text, _, files, err := r.Search(t.Context(), session.Search{Pattern: pattern})
		if text != want || (len(files) > 0) != (want != "") || err != nil {
			t.Errorf("Search %q: got %q, %v, %v, want %q", pattern, text, files, err, want)
		}
	}
}
