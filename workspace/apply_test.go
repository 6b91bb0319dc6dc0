package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/workspace"
)

func TestPrepareAndApplyEachKind(t *testing.T) {
	binary := "\x00\xff\r\n\x80 old \r\n"
	tests := map[string]struct {
		before  map[string]string
		changes []session.Change
		ts      []session.Transition
		after   map[string]file
	}{
		"write_new": {nil, []session.Change{write("a", "x")},
			[]session.Transition{{Path: "a", Pre: absent(), Post: image("x", 0o644)}}, map[string]file{"a": {"x", 0o644}}},
		"write_empty": {nil, []session.Change{write("a", "")},
			[]session.Transition{{Path: "a", Pre: absent(), Post: image("", 0o644)}}, map[string]file{"a": {"", 0o644}}},
		"write_with_directories": {nil, []session.Change{write("p/q/a", "x"), write("p/q/b", "y"), write("p/c", "z")},
			[]session.Transition{{Path: "p/q/a", Pre: absent(), Post: image("x", 0o644)}, {Path: "p/q/b", Pre: absent(), Post: image("y", 0o644)}, {Path: "p/c", Pre: absent(), Post: image("z", 0o644)}},
			map[string]file{"p/q/a": {"x", 0o644}, "p/q/b": {"y", 0o644}, "p/c": {"z", 0o644}}},
		"write_mode": {map[string]string{"a": "1"}, []session.Change{{Op: session.KindWrite, Path: "./a", Content: "x", Mode: 0o777}},
			[]session.Transition{{Path: "a", Pre: image("1", 0o644), Post: image("x", 0o777)}}, map[string]file{"a": {"x", 0o777}}},
		"write_same": {map[string]string{"a": "1"}, []session.Change{write("a", "1")},
			[]session.Transition{{Path: "a", Pre: image("1", 0o644), Post: image("1", 0o644)}}, map[string]file{"a": {"1", 0o644}}},
		"edit_keeps_bytes": {map[string]string{"a": binary}, []session.Change{edit("a", "old", "new")},
			[]session.Transition{{Path: "a", Pre: image(binary, 0o644), Post: image("\x00\xff\r\n\x80 new \r\n", 0o644)}}, map[string]file{"a": {"\x00\xff\r\n\x80 new \r\n", 0o644}}},
		"edit_all": {map[string]string{"a": "xyx"}, []session.Change{{Op: session.KindEdit, Path: "a", Old: "x", New: "zz", All: true}},
			[]session.Transition{{Path: "a", Pre: image("xyx", 0o644), Post: image("zzyzz", 0o644)}}, map[string]file{"a": {"zzyzz", 0o644}}},
		"delete": {map[string]string{"a": "1", "b": "2"}, []session.Change{remove("a")},
			[]session.Transition{{Path: "a", Pre: image("1", 0o644), Post: absent()}}, map[string]file{"b": {"2", 0o644}}},
		"move": {map[string]string{"a": "1"}, []session.Change{move("a", "d/b")},
			[]session.Transition{{Path: "a", Pre: image("1", 0o644), Post: absent()}, {Path: "d/b", Pre: absent(), Post: image("1", 0o644), From: "a"}}, map[string]file{"d/b": {"1", 0o644}}},
		"move_over": {map[string]string{"a": "1", "b": "2"}, []session.Change{move("a", "b")},
			[]session.Transition{{Path: "a", Pre: image("1", 0o644), Post: absent()}, {Path: "b", Pre: image("2", 0o644), Post: image("1", 0o644), From: "a"}}, map[string]file{"b": {"1", 0o644}}},
		"write_edit_move": {nil, []session.Change{write("a", "one"), edit("a", "one", "two"), move("a", "b")},
			[]session.Transition{{Path: "b", Pre: absent(), Post: image("two", 0o644)}}, map[string]file{"b": {"two", 0o644}}},
		"swap": {map[string]string{"a": "1", "b": "2"}, []session.Change{move("a", "t"), move("b", "a"), move("t", "b")},
			[]session.Transition{{Path: "a", Pre: image("1", 0o644), Post: image("2", 0o644)}, {Path: "b", Pre: image("2", 0o644), Post: image("1", 0o644)}}, map[string]file{"a": {"2", 0o644}, "b": {"1", 0o644}}},
		"there_and_back": {map[string]string{"a": "1"}, []session.Change{move("a", "b"), move("b", "a")},
			[]session.Transition{{Path: "a", Pre: image("1", 0o644), Post: image("1", 0o644)}}, map[string]file{"a": {"1", 0o644}}},
		"move_then_edit": {map[string]string{"a": "1"}, []session.Change{move("a", "b"), edit("b", "1", "2")},
			[]session.Transition{{Path: "a", Pre: image("1", 0o644), Post: absent()}, {Path: "b", Pre: absent(), Post: image("2", 0o644)}}, map[string]file{"b": {"2", 0o644}}},
		"newline_in_name": {nil, []session.Change{write("a\nb", "x")},
			[]session.Transition{{Path: "a\nb", Pre: absent(), Post: image("x", 0o644)}}, map[string]file{"a\nb": {"x", 0o644}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for p, c := range tt.before {
				put(t, dir, p, c)
			}
			r := open(t, dir)
			ts, err := r.Prepare(context.Background(), "key", tt.changes)
			must(t, err)
			if d := cmp.Diff(tt.ts, ts); d != "" {
				t.Fatalf("Prepare: %s", d)
			}
			states, err := r.Apply(context.Background(), "key")
			must(t, err)
			if d := cmp.Diff(tt.after, tree(t, dir)); d != "" {
				t.Fatalf("Apply: %s", d)
			}
			if len(states) != len(ts) {
				t.Fatalf("Apply: got %d states for %d changed files", len(states), len(ts))
			}
			for i, s := range states {
				if s.Path != ts[i].Path || s.Hash != ts[i].Post.Hash || s.Size != ts[i].Post.Size || s.Mode != ts[i].Post.Mode || !s.Wrote {
					t.Errorf("Apply: state %d is %+v, want that of %+v", i, s, ts[i].Post)
				}
			}
			progress, foreign, err := r.Inspect(context.Background(), "key", ts)
			if progress != session.Applied || foreign != nil || err != nil {
				t.Fatalf("Inspect: got %s, %v, %v, want applied", progress, foreign, err)
			}
			again, err := openAt(t, dir, later).Stat(context.Background(), states)
			must(t, err)
			for i := range again {
				again[i].Racy = states[i].Racy
			}
			if d := cmp.Diff(states, again); d != "" {
				t.Fatalf("Stat after Apply: %s", d)
			}
		})
	}
}

func TestPrepareRefuses(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a", "x\ny x\nx")
	put(t, dir, "aaa", "aaa")
	put(t, dir, "lines", strings.Repeat("x\n", 7))
	put(t, dir, "d/f", "1")
	put(t, dir, "big", "")
	must(t, os.Truncate(filepath.Join(dir, "big"), 64<<20+1))
	must(t, os.Symlink("d", filepath.Join(dir, "alias")))
	must(t, os.Symlink("nowhere", filepath.Join(dir, "dangling")))
	tests := map[string]struct {
		changes []session.Change
		code    session.Code
		says    string
	}{
		"edit_missing":       {[]session.Change{edit("no", "x", "y")}, session.ErrFileStep, "no such file"},
		"edit_no_match":      {[]session.Change{edit("a", "zz", "y")}, session.ErrFileStep, "does not occur"},
		"edit_many":          {[]session.Change{edit("a", "x", "y")}, session.ErrFileStep, "3 times, on lines 1, 2, 3"},
		"edit_very_many":     {[]session.Change{edit("lines", "x", "y")}, session.ErrFileStep, "7 times, on lines 1, 2, 3, 4, 5, …, instead"},
		"edit_overlapping":   {[]session.Change{edit("aaa", "aa", "y")}, session.ErrFileStep, "2 times"},
		"edit_empty":         {[]session.Change{edit("a", "", "y")}, session.ErrFileStep, "empty"},
		"edit_all_none":      {[]session.Change{{Op: session.KindEdit, Path: "a", Old: "zz", All: true}}, session.ErrFileStep, "does not occur"},
		"edit_large":         {[]session.Change{edit("big", "x", "y")}, session.ErrFileStep, "64 MiB"},
		"delete_missing":     {[]session.Change{remove("no")}, session.ErrFileStep, "no such file"},
		"delete_in_missing":  {[]session.Change{remove("no/no")}, session.ErrFileStep, "no such file"},
		"delete_twice":       {[]session.Change{remove("a"), remove("a")}, session.ErrFileStep, "no such file"},
		"move_missing":       {[]session.Change{move("no", "b")}, session.ErrFileStep, "no such file"},
		"move_to_itself":     {[]session.Change{move("a", "./a")}, session.ErrFileStep, "itself"},
		"file_as_directory":  {[]session.Change{write("a/b", "x")}, session.ErrFileStep, "not a directory"},
		"both_file_and_dir":  {[]session.Change{write("n", "x"), write("n/b", "x")}, session.ErrFileStep, "used as a directory"},
		"dir_for_a_file":     {[]session.Change{{Op: session.KindDelete, Path: "a"}, write("a/b", "x")}, session.ErrFileStep, "a is changed as a file and used as a directory"},
		"file_for_a_dir":     {[]session.Change{write("n/b", "x"), write("n", "x")}, session.ErrFileStep, "used as a directory"},
		"two_names":          {[]session.Change{write("d/f", "x"), write("alias/f", "y")}, session.ErrFileStep, "the same file"},
		"two_names_of_new":   {[]session.Change{write("d/n", "x"), write("alias/n", "y")}, session.ErrFileStep, "the same file"},
		"directory":          {[]session.Change{write("d", "x")}, session.ErrEscape, "directory"},
		"root":               {[]session.Change{write(".", "x")}, session.ErrFileStep, "directory"},
		"trailing_slash":     {[]session.Change{write("d/", "x")}, session.ErrFileStep, "directory"},
		"unknown_kind":       {[]session.Change{{Op: session.KindRun, Path: "a"}}, session.ErrFileStep, "not a file operation"},
		"under_dangling":     {[]session.Change{write("dangling/x", "x")}, session.ErrEscape, "nowhere"},
		"not_text":           {[]session.Change{write("d/\xff", "x")}, session.ErrEscape, "UTF-8"},
		"zero_byte":          {[]session.Change{write("d/\x00", "x")}, session.ErrEscape, "NUL"},
		"absolute":           {[]session.Change{write("/d/n", "x")}, session.ErrEscape, "absolute"},
		"upwards":            {[]session.Change{write("d/../n", "x")}, session.ErrEscape, `".."`},
		"second_one_refused": {[]session.Change{write("new", "x"), remove("no")}, session.ErrFileStep, "no such file"},
	}
	before := tree(t, dir)
	r := open(t, dir)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := r.Prepare(context.Background(), "key", tt.changes)
			wantCode(t, "Prepare", err, tt.code)
			if !strings.Contains(err.Error(), tt.says) {
				t.Errorf("Prepare: got %q, want it to say %q", err, tt.says)
			}
			if _, err := r.Apply(context.Background(), "key"); err == nil {
				t.Error("Apply after a refusal: got nil")
			}
		})
	}
	if d := cmp.Diff(before, tree(t, dir)); d != "" {
		t.Errorf("something changed: %s", d)
	}
}

// FILE-001, W2: Apply overwrites nothing if a path changes between Prepare and Apply.
func TestApplyNoticesChanges(t *testing.T) {
	tests := map[string]func(t *testing.T, dir string){
		"content":     func(t *testing.T, dir string) { put(t, dir, "d/a", "2") },
		"same_length": func(t *testing.T, dir string) { put(t, dir, "d/a", "X") },
		"replaced": func(t *testing.T, dir string) {
			put(t, dir, "n", "1")
			must(t, os.Rename(filepath.Join(dir, "n"), filepath.Join(dir, "d/a")))
		},
		"mode":     func(t *testing.T, dir string) { must(t, os.Chmod(filepath.Join(dir, "d/a"), 0o600)) },
		"removed":  func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "d/a"))) },
		"appeared": func(t *testing.T, dir string) { put(t, dir, "d/new", "theirs") },
		"symlink": func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, "d/a")))
			must(t, os.Symlink("../keep", filepath.Join(dir, "d/a")))
		},
		"directory": func(t *testing.T, dir string) {
			must(t, os.Rename(filepath.Join(dir, "d"), filepath.Join(dir, "e")))
			put(t, dir, "d/a", "1")
		},
		"moved_directory": func(t *testing.T, dir string) {
			must(t, os.Rename(filepath.Join(dir, "d"), filepath.Join(dir, "e")))
		},
	}
	for name, disturb := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, "d/a", "1")
			put(t, dir, "keep", "k")
			r := open(t, dir)
			_, err := r.Prepare(context.Background(), "key", []session.Change{write("keep", "changed"), write("d/a", "mine"), write("d/new", "mine"), write("x/y", "z")})
			must(t, err)
			disturb(t, dir)
			before := tree(t, dir)
			_, err = r.Apply(context.Background(), "key")
			wantCode(t, "Apply", err, session.ErrFileChanged)
			if d := cmp.Diff(before, tree(t, dir)); d != "" {
				t.Errorf("Apply changed something: %s", d)
			}
			if _, err := os.Stat(filepath.Join(dir, "x")); err == nil {
				t.Error("Apply: a directory that it made still exists")
			}
		})
	}
}

// FILE-001, W2: the same holds for a change in the last moment, after another path of
// the group has changed. Apply undoes that path.
func TestApplyNoticesLateChanges(t *testing.T) {
	changes := map[string]session.Change{
		"write": write("a", "mine"), "delete": remove("a"), "move": move("a", "b"), "move_over": move("c", "a"),
	}
	disturbances := map[string]func(t *testing.T, dir string){
		"changed": func(t *testing.T, dir string) { put(t, dir, "a", "X") },
		"removed": func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "a"))) },
	}
	for name, change := range changes {
		for how, disturb := range disturbances {
			t.Run(name+"_"+how, func(t *testing.T) {
				dir := t.TempDir()
				for _, name := range []string{"first", "a", "c"} {
					put(t, dir, name, "1")
				}
				r := open(t, dir)
				_, err := r.Prepare(context.Background(), "key", []session.Change{write("first", "mine"), change})
				must(t, err)
				var before map[string]file
				r.SetHook(func(op string) error {
					// only the first time, not when it is undone
					if op == "rename first" && before == nil {
						disturb(t, dir)
						before = tree(t, dir)
						delete(before, workspace.TempName("key", 0))
						delete(before, workspace.TempName("key", 1))
					}
					return nil
				})
				_, err = r.Apply(context.Background(), "key")
				wantCode(t, "Apply", err, session.ErrFileChanged)
				if d := cmp.Diff(before, tree(t, dir)); d != "" {
					t.Errorf("Apply changed something: %s", d)
				}
			})
		}
	}
}

// W2: an edit starts from the content that was hashed. A file that changes in between
// is not a fault of the plan.
func TestEditNoticesChanges(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a", "old")
	put(t, dir, "b", "old")
	looks := 0
	r := openAt(t, dir, func() time.Time {
		// a was hashed, and b is hashed next
		if looks++; looks == 2 {
			put(t, dir, "a", "changed")
		}
		return wall()
	})
	_, err := r.Prepare(context.Background(), "key", []session.Change{move("a", "c"), edit("b", "old", "new"), edit("c", "old", "new")})
	wantCode(t, "Prepare", err, session.ErrFileChanged)
}

// Apply uses a directory that another process makes at the same moment. It leaves that
// directory when the step is undone.
func TestDirectoryOfSomebodyElse(t *testing.T) {
	for _, fails := range []bool{false, true} {
		dir := t.TempDir()
		r := open(t, dir)
		_, err := r.Prepare(context.Background(), "key", []session.Change{write("n/a", "1")})
		must(t, err)
		r.SetHook(func(op string) error {
			if op == "mkdir n" {
				return os.Mkdir(filepath.Join(dir, "n"), 0o755)
			}
			if fails && op == "rename n/a" {
				return unix.ENOSPC
			}
			return nil
		})
		_, err = r.Apply(context.Background(), "key")
		want := map[string]file{"n/a": {"1", 0o644}}
		if fails {
			wantCode(t, "Apply", err, session.ErrDiskFull)
			want = map[string]file{}
		} else {
			must(t, err)
		}
		if d := cmp.Diff(want, tree(t, dir)); d != "" {
			t.Errorf("Apply: %s", d)
		}
		if _, err := os.Stat(filepath.Join(dir, "n")); err != nil {
			t.Errorf("Apply: %v", err)
		}
	}
}

func TestImageGivesWhatWasHashedAndWorkedOut(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a", "before")
	r := open(t, dir)
	_, err := r.Prepare(context.Background(), "key", []session.Change{write("a", "after"), write("n", "x")})
	must(t, err)
	must(t, os.Remove(filepath.Join(dir, "a")))
	for range 2 {
		for _, want := range []string{"before", "after"} {
			in, err := r.Image("a", sum(want))
			must(t, err)
			if b, err := io.ReadAll(in); string(b) != want || err != nil {
				t.Fatalf("Image: got %q, %v, want %s", b, err, want)
			}
		}
	}
	if _, err := r.Image("n", sum("")); err == nil {
		t.Error("Image of an absent file: got nil")
	}
	r.Discard("key")
	if _, err := r.Image("a", sum("before")); err == nil {
		t.Error("Image after Discard: got nil")
	}
	put(t, dir, "b", "moved")
	_, err = r.Prepare(context.Background(), "key", []session.Change{move("b", "c")})
	must(t, err)
	in, err := r.Image("c", sum("moved"))
	must(t, err)
	if b, err := io.ReadAll(in); string(b) != "moved" || err != nil {
		t.Errorf("Image of a moved file: got %q, %v", b, err)
	}
	r.Discard("key")

	put(t, dir, "a", "before")
	_, err = r.Prepare(context.Background(), "key", []session.Change{write("a", "after")})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "a"), []byte("betray"), 0o644))
	in, err = r.Image("a", sum("before"))
	must(t, err)
	_, err = io.ReadAll(in)
	wantCode(t, "Image of a file changed in place", err, session.ErrFileChanged)
}

// The allowed numbers of fsyncs: 2 for a write or edit, 1 for a delete, and 1 for each
// directory of a move. A group has 1 for each written file and 1 for each directory. A
// new directory has 1.
func TestApplyCountsOfFsync(t *testing.T) {
	tests := map[string]struct {
		changes []session.Change
		want    int
	}{
		"write":          {[]session.Change{write("n", "x")}, 2},
		"edit":           {[]session.Change{edit("a", "1", "2")}, 2},
		"delete":         {[]session.Change{remove("a")}, 1},
		"move_same":      {[]session.Change{move("a", "b")}, 1},
		"move_other":     {[]session.Change{move("a", "d/b")}, 2},
		"group":          {[]session.Change{write("n", "x"), write("m", "x"), remove("a"), write("d/x", "y")}, 5},
		"new_directory":  {[]session.Change{write("p/q/n", "x")}, 4},
		"alias_dir_once": {[]session.Change{write("d/x", "x"), write("alias/y", "x")}, 3},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, "a", "1")
			put(t, dir, "d/f", "1")
			must(t, os.Symlink("d", filepath.Join(dir, "alias")))
			r := open(t, dir)
			var ops []string
			r.SetHook(func(op string) error { ops = append(ops, op); return nil })
			apply(t, r, tt.changes...)
			got := 0
			for _, op := range ops {
				if strings.HasPrefix(op, "fsync") {
					got++
				}
			}
			if got != tt.want {
				t.Errorf("Apply: %d fsyncs, want %d: %v", got, tt.want, ops)
			}
		})
	}
}

// W4: the order of the durable calls. A file is synced before its rename, a directory
// after the last rename into it, and a new directory before anything is put into it.
func TestApplyOrderOfDurableCalls(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a", "1")
	r := open(t, dir)
	var ops []string
	r.SetHook(func(op string) error { ops = append(ops, strings.ReplaceAll(op, dir+"/", "")); return nil })
	apply(t, r, write("n/f", "x"), move("a", "n/g"))
	want := []string{
		"mkdir n", "fsync .", "create n/" + workspace.TempName("key", 0), "write n/" + workspace.TempName("key", 0),
		"fsync n/" + workspace.TempName("key", 0), "rename n/f", "rename n/g", "fsync n", "fsync .",
	}
	if d := cmp.Diff(want, ops); d != "" {
		t.Errorf("Apply: %s", d)
	}
}

// W4: a process is killed after it made a directory and before it synced the parent.
// The next attempt finds the directory, and it is durable when the step is done.
func TestDirectoryOfAKilledStep(t *testing.T) {
	ctx := context.Background()
	for at := range 5 {
		dir := t.TempDir()
		r := open(t, dir)
		ts, err := r.Prepare(ctx, "key", []session.Change{write("n/m/f", "x")})
		must(t, err)
		if crashing(r, at, func() { _, _ = r.Apply(ctx, "key") }) {
			t.Fatal("Apply was not interrupted")
		}
		synced := map[string]bool{}
		again := open(t, dir)
		again.SetHook(func(op string) error { synced[op] = true; return nil })
		progress, _, err := again.Inspect(ctx, "key", ts)
		must(t, err)
		if progress == session.Partial {
			must(t, again.Rollback(ctx, "key", ts, nil, kept{}.open))
		}
		apply(t, again, write("n/m/f", "x"))
		for _, parent := range []string{"fsync .", "fsync n", "fsync n/m"} {
			if !synced[parent] {
				t.Errorf("killed before effect %d: done again without %s", at, parent)
			}
		}
	}
}

// In a move across directories, the new name is durable before the old one is gone.
func TestApplySyncsReceiversFirst(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a", "1")
	put(t, dir, "b", "1")
	put(t, dir, "d/f", "1")
	r := open(t, dir)
	var ops []string
	r.SetHook(func(op string) error { ops = append(ops, op); return nil })
	apply(t, r, remove("b"), move("a", "d/a"))
	if d := cmp.Diff([]string{"unlink b", "rename d/a", "fsync d", "fsync ."}, ops); d != "" {
		t.Errorf("Apply: %s", d)
	}
}

// W2: a write through a mapping that is dirty already changes the content but no time.
// A file that was hashed so soon after its last change is read again before it is
// replaced.
func TestApplyDoesNotTrustRacyTimes(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a", "1")
	f, err := os.OpenFile(filepath.Join(dir, "a"), os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	page, err := unix.Mmap(int(f.Fd()), 0, 1, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err)
	defer func() { _ = unix.Munmap(page) }()
	page[0] = '2'
	r := open(t, dir)
	_, err = r.Prepare(context.Background(), "key", []session.Change{write("a", "mine")})
	must(t, err)
	page[0] = '3'
	_, err = r.Apply(context.Background(), "key")
	wantCode(t, "Apply", err, session.ErrFileChanged)
	if d := cmp.Diff(map[string]file{"a": {"3", 0o644}}, tree(t, dir)); d != "" {
		t.Errorf("Apply: %s", d)
	}
}

// If any effect fails, the group is undone before Apply returns, and the error has the
// right code.
func TestApplyUndoesFailures(t *testing.T) {
	changes := []session.Change{write("a", "2"), move("b", "n/b"), remove("c"), write("m/x", "y"), move("e", "f")}
	for at := 0; ; at++ {
		dir := t.TempDir()
		for _, name := range []string{"a", "b", "c", "e", "f"} {
			put(t, dir, name, "content of "+name)
		}
		before := tree(t, dir)
		r := open(t, dir)
		_, err := r.Prepare(context.Background(), "key", changes)
		must(t, err)
		n := 0
		// the effects before the one that failed
		var ops []string
		r.SetHook(func(op string) error {
			if n++; n == at+1 {
				return unix.ENOSPC
			}
			if n <= at {
				ops = append(ops, op)
			}
			return nil
		})
		back, err := r.Apply(context.Background(), "key")
		if n <= at {
			must(t, err)
			if at < 15 {
				t.Errorf("only %d effects were failed", at)
			}
			return
		}
		wantCode(t, "Apply", err, session.ErrDiskFull)
		if strings.Contains(err.Error(), "reading") {
			t.Errorf("failing effect %d, of a change: %v", at, err)
		}
		if d := cmp.Diff(before, tree(t, dir)); d != "" {
			t.Fatalf("failing effect %d left: %s", at, d)
		}
		r.SetHook(nil)
		changed, unchecked, err := r.Changes(context.Background(), back, nil, nil)
		if len(changed)+len(unchecked) > 0 || err != nil || len(back) == 0 && slices.ContainsFunc(ops, func(op string) bool { return strings.HasPrefix(op, "rename") }) {
			t.Errorf("failing effect %d after %v gave %+v, of which %v differ (%v)", at, ops, back, changed, err)
		}
	}
}

// A lack of open files or memory says nothing about the step, so the step must not fail
// because of it.
func TestApplyWithTooFewFiles(t *testing.T) {
	for _, no := range []unix.Errno{unix.EMFILE, unix.ENFILE, unix.ENOMEM} {
		r := open(t, t.TempDir())
		_, err := r.Prepare(context.Background(), "key", []session.Change{write("a", "2")})
		must(t, err)
		r.SetHook(func(string) error { return no })
		_, err = r.Apply(context.Background(), "key")
		wantCode(t, "Apply", err, session.ErrStoreIO)
		if !errors.Is(err, no) {
			t.Errorf("Apply: got %v, want %v", err, no)
		}
	}
}

// A group that was applied as a whole and cannot be examined has not failed, even if
// the disk reports errors. Inspect finds it applied.
func TestApplyThatCannotBeLookedAt(t *testing.T) {
	changes := []session.Change{write("a", "2"), move("b", "n/b"), remove("c"), write("m/x", "y")}
	for _, no := range []unix.Errno{unix.EIO, unix.ENOMEM, unix.ENOSPC, unix.EROFS} {
		for _, name := range []string{"a", "n/b", "m/x"} {
			dir := t.TempDir()
			for _, old := range []string{"a", "b", "c"} {
				put(t, dir, old, "content of "+old)
			}
			r := open(t, dir)
			ts, err := r.Prepare(context.Background(), "key", changes)
			must(t, err)
			looked := false
			r.SetSeen(func(at string) error {
				if at == name {
					looked = true
					return no
				}
				return nil
			})
			_, err = r.Apply(context.Background(), "key")
			wantCode(t, "Apply", err, session.ErrStoreIO)
			if !looked || !errors.Is(err, no) {
				t.Errorf("Apply: got %v, want %v at %s", err, no, name)
			}
			progress, _, err := open(t, dir).Inspect(context.Background(), "key", ts)
			must(t, err)
			if progress != session.Applied {
				t.Errorf("%v at %s: Inspect: got %s, want %s", no, name, progress, session.Applied)
			}
		}
	}
}

// W4: the removal of a failed change's files is durable. The next attempt uses other
// temporary names and would not find a file that a power cut brings back.
func TestUndoneIsDurable(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "d/a", "1")
	r := open(t, dir)
	_, err := r.Prepare(context.Background(), "key", []session.Change{write("d/a", "2"), write("d/b", "2"), write("x/y/z", "3")})
	must(t, err)
	// the effects from the one that failed on
	var ops []string
	r.SetHook(func(op string) error {
		if ops = append(ops, op); op == "rename d/a" {
			ops = ops[:0]
			return unix.EIO
		}
		return nil
	})
	_, err = r.Apply(context.Background(), "key")
	wantCode(t, "Apply", err, session.ErrStoreIO)
	if want := []string{"fsync d", "fsync x/y", "fsync ."}; !slices.Equal(ops, want) {
		t.Errorf("after the failure: got %q, want %q", ops, want)
	}

	for errno, hint := range map[unix.Errno]string{unix.EIO: "check the disk", unix.EPERM: "permissions"} {
		r.SetHook(func(op string) error {
			if op == "rename d/a" || op == "fsync d" {
				return errno
			}
			return nil
		})
		_, err = r.Prepare(context.Background(), "key", []session.Change{write("d/a", "2")})
		must(t, err)
		_, err = r.Apply(context.Background(), "key")
		var e *session.Error
		if !errors.As(err, &e) || !strings.Contains(e.Message, "could not all be undone") || !strings.Contains(e.Next.String(), hint) {
			t.Errorf("Apply that cannot make the removal durable (%v): got %v", errno, err)
		}
	}
}

// Sweep durably removes files of finished attempts that a power cut brought back, and
// no other file.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	old, other := workspace.TempName("old", 12), workspace.TempName("other", 0)
	stay := []string{"d/" + other, "d/a", "d/" + old + "x", "e/" + old}
	for _, name := range append([]string{"d/" + old, "d/" + workspace.TempName("older", 0)}, stay...) {
		put(t, dir, name, "1")
	}
	r := open(t, dir)
	var ops []string
	r.SetHook(func(op string) error { ops = append(ops, op); return nil })
	keys := func() []string { return []string{"old", "older"} }
	must(t, r.Sweep([]string{"d", "gone"}, keys))
	slices.Sort(stay)
	if got := slices.Sorted(maps.Keys(tree(t, dir))); !slices.Equal(got, stay) {
		t.Errorf("Sweep left %q, want %q", got, stay)
	}
	if len(ops) != 3 || ops[2] != "fsync d" {
		t.Errorf("Sweep: got %q, want two removals and a sync", ops)
	}
	asked := false
	must(t, r.Sweep([]string{"."}, func() []string { asked = true; return nil }))
	if asked {
		t.Error("Sweep: the keys were asked for although there is no temporary file")
	}
	put(t, dir, "d/"+old, "1")
	r.SetHook(func(string) error { return unix.EIO })
	wantCode(t, "Sweep that may not remove", r.Sweep([]string{"d"}, keys), session.ErrStoreIO)
}

// A group that fails half-way and cannot be undone has not failed either. Inspect finds
// it half done, and Rollback puts it back.
func TestApplyThatCannotBeUndone(t *testing.T) {
	changes := []session.Change{write("a", "2"), write("b", "2")}
	for _, no := range []unix.Errno{unix.EIO, unix.ENOSPC, unix.EROFS, unix.EPERM} {
		dir := t.TempDir()
		put(t, dir, "a", "1")
		put(t, dir, "b", "1")
		before := tree(t, dir)
		r := open(t, dir)
		ts, err := r.Prepare(context.Background(), "key", changes)
		must(t, err)
		blobs := kept{}
		blobs.keep(t, r, ts)
		broken := false
		r.SetHook(func(op string) error {
			if broken = broken || op == "rename b"; broken {
				return no
			}
			return nil
		})
		_, err = r.Apply(context.Background(), "key")
		wantCode(t, "Apply", err, session.ErrStoreIO)
		again := open(t, dir)
		progress, _, err := again.Inspect(context.Background(), "key", ts)
		must(t, err)
		if progress != session.Partial {
			t.Errorf("%v: Inspect: got %s, want %s", no, progress, session.Partial)
		}
		must(t, again.Rollback(context.Background(), "key", ts, nil, blobs.open))
		if d := cmp.Diff(before, tree(t, dir)); d != "" {
			t.Errorf("%v: Rollback: %s", no, d)
		}
	}
}

// W2: content that another process wrote into a half-applied group is not overwritten
// by undo. The error names the file, not the disk.
func TestUndoLeavesForeignContent(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a", "1")
	r := open(t, dir)
	_, err := r.Prepare(context.Background(), "key", []session.Change{write("a", "2"), write("b", "2")})
	must(t, err)
	r.SetHook(func(op string) error {
		if op == "rename b" {
			put(t, dir, "a", "theirs")
			return unix.ENOSPC
		}
		return nil
	})
	_, err = r.Apply(context.Background(), "key")
	if session.CodeOf(err) != session.ErrFileChanged || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("Apply: got %v, want FILE-001 and the first failure", err)
	}
	if d := cmp.Diff(map[string]file{"a": {"theirs", 0o644}}, tree(t, dir)); d != "" {
		t.Errorf("Apply: %s", d)
	}
}

type crash struct{}

// crashing runs f and ends it before the n-th effect, as a kill would. It reports
// whether f completed.
func crashing(r *workspace.Root, n int, f func()) (finished bool) {
	r.SetHook(func(string) error {
		if n--; n < 0 {
			panic(crash{})
		}
		return nil
	})
	defer func() {
		r.SetHook(nil)
		if p := recover(); p != nil && p != (crash{}) {
			panic(p)
		}
	}()
	f()
	return true
}

// recovered continues after a crash as the engine does, with a crash in each rollback
// as well. It must end with the tree of an undisturbed run.
func recovered(t testing.TB, dir string, changes []session.Change, ts []session.Transition, blobs kept, again int) {
	ctx := context.Background()
	for round := 0; ; round++ {
		r := open(t, dir)
		progress, foreign, err := r.Inspect(ctx, "key", ts)
		must(t, err)
		switch progress {
		case session.Applied:
			return
		case session.Foreign:
			t.Fatalf("Inspect after a crash: foreign %v", foreign)
		case session.Partial:
			done := crashing(r, again+round*3, func() { must(t, r.Rollback(ctx, "key", ts, nil, blobs.open)) })
			if !done {
				continue
			}
			if p, _, err := r.Inspect(ctx, "key", ts); p != session.NotApplied && p != session.Applied || err != nil {
				t.Fatalf("Inspect after Rollback: got %s, %v", p, err)
			}
		}
		now, err := r.Prepare(ctx, "key", changes)
		must(t, err)
		if d := cmp.Diff(ts, now); d != "" {
			t.Fatalf("Prepare after a crash: %s", d)
		}
		_, err = r.Apply(ctx, "key")
		must(t, err)
		return
	}
}

// A set-user-ID file of another user never becomes one of this process, as a new file
// in its place would.
func TestSetUserIDOfAnother(t *testing.T) {
	for _, c := range []struct {
		mode, uid, gid uint32
		want           bool
	}{
		{0o4755, 7, 1, true}, {0o2755, 1, 7, true}, {0o6755, 7, 7, true}, {0o4755, 1, 7, false}, {0o2755, 7, 1, false}, {0o1777, 7, 7, false}, {0o755, 7, 7, false},
	} {
		if got := workspace.Lends(c.mode, c.uid, c.gid, 1, 1); got != c.want {
			t.Errorf("mode %o of %d:%d: got %v, want %v", c.mode, c.uid, c.gid, got, c.want)
		}
	}
	if os.Geteuid() != 0 {
		// only root can give files away
		return
	}
	dir := t.TempDir()
	put(t, dir, "f", "1")
	must(t, os.Chown(filepath.Join(dir, "f"), 1234, 1234))
	must(t, os.Chmod(filepath.Join(dir, "f"), 0o755|os.ModeSetuid))
	r := open(t, dir)
	for _, changes := range [][]session.Change{{write("f", "2")}, {edit("f", "1", "2")}, {remove("f")}, {move("f", "g"), write("f", "2")}} {
		_, err := r.Prepare(context.Background(), "key", changes)
		wantCode(t, "Prepare", err, session.ErrFileStep)
	}
	// a moved file stays the same file
	apply(t, r, move("f", "g"))
}

// A file was moved over another one with the same content. Each gets its own file back,
// with its own mode, although the content is equal.
func TestRollbackOfMoveOverEqualContent(t *testing.T) {
	ctx := context.Background()
	changes := []session.Change{move("from", "to"), write("z", "new")}
	for _, modes := range [][2]os.FileMode{{0o600, 0o644}, {0o644, 0o600}, {0o644, 0o644}} {
		for at := 0; ; at++ {
			dir := t.TempDir()
			for i, name := range []string{"from", "to"} {
				put(t, dir, name, "equal")
				must(t, os.Chmod(filepath.Join(dir, name), modes[i]))
			}
			before := tree(t, dir)
			r := open(t, dir)
			ts, err := r.Prepare(ctx, "key", changes)
			must(t, err)
			blobs := kept{sum("equal"): []byte("equal")}
			if crashing(r, at, func() { _, _ = r.Apply(ctx, "key") }) {
				break
			}
			for again := 0; ; again++ {
				r := open(t, dir)
				if crashing(r, again, func() { must(t, r.Rollback(ctx, "key", ts, nil, blobs.open)) }) {
					break
				}
			}
			if d := cmp.Diff(before, tree(t, dir)); d != "" {
				t.Errorf("modes %o, crash at %d: Rollback: %s", modes, at, d)
			}
			if _, err := open(t, dir).Prepare(ctx, "key", changes); err != nil {
				t.Errorf("modes %o, crash at %d: Prepare after Rollback: %v", modes, at, err)
			}
		}
	}
}

// W3: random groups of changes, ended before every effect, and again in each rollback.
func TestCrashAnywhere(t *testing.T) {
	seen := map[session.Progress]int{}
	rapid.Check(t, func(rt *rapid.T) {
		changes := randomChanges(rt)
		again := rapid.IntRange(0, 6).Draw(rt, "again")
		whole := quick(t)
		seed(t, whole)
		r := open(t, whole)
		if _, err := r.Prepare(context.Background(), "key", changes); err != nil {
			rt.Skip("not a legal group")
		}
		_, err := r.Apply(context.Background(), "key")
		must(t, err)
		want := tree(t, whole)

		for at := 0; ; at++ {
			dir := quick(t)
			seed(t, dir)
			r := open(t, dir)
			ts, err := r.Prepare(context.Background(), "key", changes)
			must(t, err)
			blobs := kept{}
			blobs.keep(t, r, ts)
			finished := crashing(r, at, func() { _, err = r.Apply(context.Background(), "key") })
			must(t, err)
			progress, _, err := open(t, dir).Inspect(context.Background(), "key", ts)
			must(t, err)
			seen[progress]++
			recovered(t, dir, changes, ts, blobs, again)
			if d := cmp.Diff(want, tree(t, dir)); d != "" {
				rt.Fatalf("%v, ended before effect %d: %s", changes, at, oneLine(d))
			}
			if finished {
				return
			}
		}
	})
	for _, p := range []session.Progress{session.NotApplied, session.Partial, session.Applied} {
		if seen[p] == 0 {
			t.Errorf("no crash left %s: %v", p, seen)
		}
	}
}

func seed(t testing.TB, dir string) {
	for i, name := range []string{"a", "b", "d/a", "d/b"} {
		put(t, dir, name, fmt.Sprintf("content of %s\n", name))
		must(t, os.Chmod(filepath.Join(dir, name), []os.FileMode{0o644, 0o600, 0o755, 0o444}[i]))
	}
}

func randomChanges(t *rapid.T) []session.Change {
	paths := rapid.SampledFrom([]string{"a", "b", "c", "d/a", "d/b", "n/x", "n/m/y"})
	one := rapid.Custom(func(t *rapid.T) session.Change {
		switch p := paths.Draw(t, "path"); rapid.IntRange(0, 4).Draw(t, "op") {
		case 0:
			return session.Change{Op: session.KindWrite, Path: p, Content: rapid.SampledFrom([]string{"", "x", "content of a\n"}).Draw(t, "content"), Mode: rapid.SampledFrom([]uint32{0, 0o600, 0o644}).Draw(t, "mode")}
		case 1:
			return edit(p, "content", "text")
		case 2:
			return remove(p)
		default:
			return move(p, paths.Draw(t, "to"))
		}
	})
	return rapid.SliceOfN(one, 1, 5).Draw(t, "changes")
}

func TestInspectFindsEachProgress(t *testing.T) {
	ctx := context.Background()
	ts := []session.Transition{
		{Path: "a", Pre: image("1", 0o644), Post: image("2", 0o644)},
		{Path: "n/b", Pre: absent(), Post: image("3", 0o644)},
	}
	tests := map[string]struct {
		files   map[string]string
		want    session.Progress
		foreign []string
	}{
		"nothing_done":  {map[string]string{"a": "1"}, session.NotApplied, nil},
		"all_done":      {map[string]string{"a": "2", "n/b": "3"}, session.Applied, nil},
		"one_done":      {map[string]string{"a": "2"}, session.Partial, nil},
		"leftover":      {map[string]string{"a": "1", workspace.TempName("key", 0): "2"}, session.Partial, nil},
		"other_key":     {map[string]string{"a": "1", workspace.TempName("other", 0): "2"}, session.NotApplied, nil},
		"changed":       {map[string]string{"a": "theirs"}, session.Foreign, []string{"a"}},
		"gone":          {map[string]string{"n/b": "3"}, session.Foreign, []string{"a"}},
		"both_changed":  {map[string]string{"a": "theirs", "n/b": "theirs"}, session.Foreign, []string{"a", "n/b"}},
		"changed_midst": {map[string]string{"a": "2", "n/b": "theirs"}, session.Foreign, []string{"n/b"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for p, c := range tt.files {
				put(t, dir, p, c)
			}
			got, foreign, err := open(t, dir).Inspect(ctx, "key", ts)
			must(t, err)
			var paths []string
			for _, f := range foreign {
				paths = append(paths, f.Path)
				if f.Hash != "" && f.Hash != sum("theirs") {
					t.Errorf("Inspect: %s has hash %s", f.Path, f.Hash)
				}
			}
			if got != tt.want || !slices.Equal(paths, tt.foreign) {
				t.Errorf("Inspect: got %s %v, want %s %v", got, paths, tt.want, tt.foreign)
			}
		})
	}
	t.Run("mode", func(t *testing.T) {
		dir := t.TempDir()
		put(t, dir, "a", "1")
		must(t, os.Chmod(filepath.Join(dir, "a"), 0o600))
		if got, _, err := open(t, dir).Inspect(ctx, "key", ts); got != session.Foreign || err != nil {
			t.Errorf("Inspect of another mode: got %s, %v, want foreign", got, err)
		}
	})
	t.Run("symlink", func(t *testing.T) {
		dir := t.TempDir()
		must(t, os.Symlink("x", filepath.Join(dir, "a")))
		_, _, err := open(t, dir).Inspect(ctx, "key", ts)
		wantCode(t, "Inspect", err, session.ErrEscape)
	})
}

// A path that has its pre-image may have its post-image too.
func TestReached(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a", "2")
	put(t, dir, "b", "theirs")
	put(t, dir, "same", "1")
	put(t, dir, workspace.TempName("key", 0), "2")
	before := tree(t, dir)
	changed, not, err := open(t, dir).Reached(context.Background(), "key", []session.Transition{
		{Path: "a", Pre: image("1", 0o644), Post: image("2", 0o644)}, {Path: "b", Pre: image("1", 0o644), Post: absent()},
		{Path: "same", Pre: image("1", 0o644), Post: image("1", 0o644)}, {Path: "gone", Pre: image("1", 0o644), Post: absent()},
		{Path: "n/c", Pre: absent(), Post: image("3", 0o644)}})
	must(t, err)
	if !slices.Equal(changed, []string{"a", "gone"}) || !slices.Equal(not, []string{"b", "n/c"}) {
		t.Errorf("Reached: got %v and not %v", changed, not)
	}
	if d := cmp.Diff(before, tree(t, dir)); d != "" {
		t.Errorf("Reached changed: %s", d)
	}
}

// If Inspect cannot examine or sync everything, it returns an error and no progress.
func TestInspectThatFails(t *testing.T) {
	for name, tt := range map[string]struct {
		path string
		code session.Code
	}{"not_durable": {"d/new", session.ErrStoreIO}, "below_a_file": {"d/a/b", session.ErrFileStep}, "no_name": {strings.Repeat("n", 300), session.ErrFileStep}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, "d/a", "1")
			r := open(t, dir)
			r.SetHook(func(string) error { return unix.EIO })
			progress, foreign, err := r.Inspect(context.Background(), "key", []session.Transition{{Path: tt.path, Pre: absent(), Post: image("2", 0o644)}})
			wantCode(t, "Inspect", err, tt.code)
			if progress != "" || foreign != nil {
				t.Errorf("Inspect: got %q and %v", progress, foreign)
			}
		})
	}
}

// A process that dies between its rename and the fsync of the directory leaves an
// applied step that is not durable. Inspect syncs it before it returns Applied.
func TestInspectMakesAppliedDurable(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "d/a", "2")
	put(t, dir, "same", "1")
	r := open(t, dir)
	var ops []string
	r.SetHook(func(op string) error { ops = append(ops, op); return nil })
	_, _, err := r.Inspect(context.Background(), "key", []session.Transition{{Path: "d/a", Pre: absent(), Post: image("2", 0o644)}, {Path: "same", Pre: image("1", 0o644), Post: image("1", 0o644)}})
	must(t, err)
	slices.Sort(ops)
	if !slices.Equal(ops, []string{"fsync .", "fsync d"}) {
		t.Errorf("Inspect: did %v", ops)
	}
}

func TestRollbackOfForeignContent(t *testing.T) {
	ctx := context.Background()
	ts := []session.Transition{{Path: "a", Pre: image("1", 0o640), Post: image("2", 0o644)}, {Path: "b", Pre: image("x", 0o644), Post: absent()}}
	blobs := kept{sum("1"): []byte("1"), sum("x"): []byte("x")}
	dir := t.TempDir()
	put(t, dir, "a", "theirs")
	r := open(t, dir)
	wantCode(t, "Rollback", r.Rollback(ctx, "key", ts, nil, blobs.open), session.ErrFileChanged)
	if d := cmp.Diff(map[string]file{"a": {"theirs", 0o644}}, tree(t, dir)); d != "" {
		t.Fatalf("Rollback refused and changed: %s", d)
	}
	content, size, err := r.Content("a")
	must(t, err)
	b, _ := io.ReadAll(content)
	must(t, content.Close())
	if string(b) != "theirs" || size != 6 {
		t.Errorf("Content: got %q, %d", b, size)
	}
	theirs := []session.FileState{{Path: "a", Hash: sum("theirs")}}
	// The file no longer has the content that was kept.
	wantCode(t, "Rollback of newer content", r.Rollback(ctx, "key", ts, []session.FileState{{Path: "a", Hash: sum("older")}}, blobs.open), session.ErrFileChanged)
	if err := r.Rollback(ctx, "key", ts, theirs, kept{}.open); !cmp.Equal(tree(t, dir), map[string]file{"a": {"theirs", 0o644}}) || err == nil {
		t.Fatalf("Rollback without pre-images: got %v and %v", err, tree(t, dir))
	}
	wrong := kept{sum("1"): []byte("damaged"), sum("x"): []byte("x")}
	wantCode(t, "Rollback to damaged content", r.Rollback(ctx, "key", ts, theirs, wrong.open), session.ErrFileChanged)
	must(t, r.Rollback(ctx, "key", ts, theirs, blobs.open))
	if d := cmp.Diff(map[string]file{"a": {"1", 0o640}, "b": {"x", 0o644}}, tree(t, dir)); d != "" {
		t.Errorf("Rollback: %s", d)
	}
}

// W2: a file that another process changes during a rollback is left alone, and the
// rollback returns an error.
func TestRollbackNoticesLateChanges(t *testing.T) {
	ctx := context.Background()
	ts := []session.Transition{
		{Path: "a", Pre: image("1", 0o644), Post: image("2", 0o644)}, {Path: "b", Pre: image("1", 0o644), Post: image("2", 0o644)}, {Path: "n", Pre: absent(), Post: image("2", 0o644)},
	}
	for _, name := range []string{"b", "n"} {
		dir := t.TempDir()
		for _, transition := range ts {
			put(t, dir, transition.Path, "2")
		}
		r := open(t, dir)
		r.SetHook(func(op string) error {
			if op == "rename a" {
				put(t, dir, name, "theirs")
			}
			return nil
		})
		wantCode(t, "Rollback", r.Rollback(ctx, "key", ts, nil, kept{sum("1"): []byte("1")}.open), session.ErrFileChanged)
		if got := tree(t, dir)[name]; got.Content != "theirs" {
			t.Errorf("Rollback: %s is %q now", name, got.Content)
		}
	}
}

// Tidy durably removes the temporary files of an attempt, and no other file.
func TestTidy(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	for _, name := range []string{"d/a", "d/" + workspace.TempName("key", 0), "d/" + workspace.TempName("other", 0), workspace.TempName("key", 0)} {
		put(t, dir, name, "1")
	}
	r := open(t, dir)
	var ops []string
	r.SetHook(func(op string) error { ops = append(ops, op); return nil })
	ts := []session.Transition{{Path: "d/a", Pre: absent(), Post: image("2", 0o644)}}
	// the second call finds no file
	for range 2 {
		must(t, r.Tidy(ctx, "key", ts))
	}
	if want := []string{"unlink d/" + workspace.TempName("key", 0), "fsync d"}; !slices.Equal(ops, want) {
		t.Errorf("Tidy: did %q, want %q", ops, want)
	}
	put(t, dir, "d/"+workspace.TempName("key", 1), "1")
	r.SetHook(func(op string) error {
		if strings.HasPrefix(op, "unlink") {
			return unix.EIO
		}
		return nil
	})
	wantCode(t, "Tidy that may not remove", r.Tidy(ctx, "key", ts), session.ErrStoreIO)
	over := []session.Transition{{Path: "d/a", Pre: image("0", 0o644), Post: image("1", 0o644)}}
	wantCode(t, "Rollback that may not remove", r.Rollback(ctx, "key", over, nil, kept{sum("0"): []byte("0")}.open), session.ErrStoreIO)
	must(t, os.Remove(filepath.Join(dir, "d/a")))
	must(t, os.Symlink("x", filepath.Join(dir, "d/a")))
	wantCode(t, "Tidy beside a link", r.Tidy(ctx, "key", ts), session.ErrEscape)
}

// W3: a rollback that lacks one pre-image puts nothing back and leaves no temporary
// file. A missing directory does not stop it.
func TestRollbackWithoutAPreImage(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a", "2")
	put(t, dir, "b", "2")
	before := tree(t, dir)
	ts := []session.Transition{{Path: "gone/c", Pre: absent(), Post: image("2", 0o644)},
		{Path: "a", Pre: image("1", 0o644), Post: image("2", 0o644)}, {Path: "b", Pre: image("lost", 0o644), Post: image("2", 0o644)}}
	missing := &session.Error{Code: session.ErrCorrupt, Message: "a blob is missing", Next: session.Do(session.MoveVerify, "")}
	err := open(t, dir).Rollback(context.Background(), "key", ts, nil, func(hash string) (io.ReadCloser, error) {
		if hash == sum("lost") {
			return nil, missing
		}
		return kept{sum("1"): []byte("1")}.open(hash)
	})
	if !errors.Is(err, missing) {
		t.Errorf("Rollback: got %v, want the store's error for the pre-image", err)
	}
	if d := cmp.Diff(before, tree(t, dir)); d != "" {
		t.Errorf("Rollback: %s", d)
	}
}

// A crash kept both halves of a rename: two names of one file, or two files.
func TestRollbackOfHalfDoneMove(t *testing.T) {
	ctx := context.Background()
	for _, over := range []bool{false, true} {
		for _, linked := range []bool{false, true} {
			t.Run(fmt.Sprintf("linked_%v_over_%v", linked, over), func(t *testing.T) {
				ts := []session.Transition{{Path: "a", Pre: image("1", 0o644), Post: absent()}, {Path: "d/b", Pre: absent(), Post: image("1", 0o644), From: "a"}}
				want := map[string]file{"a": {"1", 0o644}}
				if over {
					ts[1].Pre = image("old", 0o644)
					want["d/b"] = file{"old", 0o644}
				}
				dir := t.TempDir()
				put(t, dir, "a", "1")
				put(t, dir, "d/b", "1")
				if linked {
					must(t, os.Remove(filepath.Join(dir, "d/b")))
					must(t, os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "d/b")))
				}
				r := open(t, dir)
				if got, _, err := r.Inspect(ctx, "key", ts); got != session.Partial || err != nil {
					t.Fatalf("Inspect: got %s, %v, want partial", got, err)
				}
				must(t, r.Rollback(ctx, "key", ts, nil, kept{sum("old"): []byte("old")}.open))
				if d := cmp.Diff(want, tree(t, dir)); d != "" {
					t.Fatalf("Rollback: %s", d)
				}
				if got, _, err := r.Inspect(ctx, "key", ts); got != session.NotApplied || err != nil {
					t.Errorf("Inspect after: got %s, %v", got, err)
				}
			})
		}
	}
	t.Run("moved_and_edited", func(t *testing.T) {
		dir := t.TempDir()
		put(t, dir, "b", "edited since")
		ts := []session.Transition{{Path: "a", Pre: image("1", 0o644), Post: absent()}, {Path: "b", Pre: absent(), Post: image("1", 0o644), From: "a"}}
		err := open(t, dir).Rollback(ctx, "key", ts, []session.FileState{{Path: "b", Hash: sum("edited since")}}, kept{}.open)
		wantCode(t, "Rollback", err, session.ErrFileChanged)
		if d := cmp.Diff(map[string]file{"b": {"edited since", 0o644}}, tree(t, dir)); d != "" {
			t.Errorf("Rollback: %s", d)
		}
	})
	t.Run("a_third_name", func(t *testing.T) {
		dir := t.TempDir()
		put(t, dir, "b", "1")
		must(t, os.Link(filepath.Join(dir, "b"), filepath.Join(dir, "third")))
		ts := []session.Transition{{Path: "a", Pre: image("1", 0o644), Post: absent()}, {Path: "b", Pre: absent(), Post: image("1", 0o644), From: "a"}}
		_, _, err := open(t, dir).Inspect(ctx, "key", ts)
		wantCode(t, "Inspect", err, session.ErrEscape)
	})
}

// If any effect of a rollback fails, another call puts everything back.
func TestRollbackSurvivesFailures(t *testing.T) {
	ctx := context.Background()
	changes := []session.Change{move("b", "d/b"), move("a", "b2"), write("d/a", "new"), write("x/y", "1"), {Op: session.KindWrite, Path: "c", Content: "c", Mode: 0o600}}
	for at := 0; ; at++ {
		dir := quick(t)
		seed(t, dir)
		put(t, dir, "c", "c")
		before := tree(t, dir)
		r := open(t, dir)
		ts, err := r.Prepare(ctx, "key", changes)
		must(t, err)
		blobs := kept{}
		blobs.keep(t, r, ts)
		_, err = r.Apply(ctx, "key")
		must(t, err)
		n := 0
		r.SetHook(func(op string) error {
			if n++; n == at+1 {
				return unix.EIO
			}
			return nil
		})
		err = r.Rollback(ctx, "key", ts, nil, blobs.open)
		if n <= at {
			must(t, err)
			if d := cmp.Diff(before, tree(t, dir)); d != "" {
				t.Errorf("Rollback: %s", d)
			}
			return
		}
		wantCode(t, "Rollback", err, session.ErrStoreIO)
		if strings.Contains(err.Error(), "reading") {
			t.Errorf("failing effect %d, of a rollback: %v", at, err)
		}
		r.SetHook(nil)
		must(t, r.Rollback(ctx, "key", ts, nil, blobs.open))
		if d := cmp.Diff(before, tree(t, dir)); d != "" {
			t.Fatalf("Rollback after effect %d failed: %s", at, d)
		}
	}
}

// A moved file is durable under its old name before its new name is removed.
func TestRollbackOrderOfDurableCalls(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "d/b", "1")
	put(t, dir, "n/x", "")
	ts := []session.Transition{{Path: "n/a", Pre: image("1", 0o644), Post: absent()}, {Path: "d/b", Pre: image("old", 0o644), Post: image("1", 0o644), From: "n/a"}}
	r := open(t, dir)
	var ops []string
	r.SetHook(func(op string) error { ops = append(ops, op); return nil })
	must(t, r.Rollback(context.Background(), "key", ts, nil, kept{sum("old"): []byte("old")}.open))
	back, kept, over := slices.Index(ops, "rename n/a"), slices.Index(ops, "fsync n"), slices.Index(ops, "rename d/b")
	if back < 0 || kept < back || over < kept {
		t.Errorf("Rollback: did %v", ops)
	}
}

func TestRollbackMakesDirectoriesAgain(t *testing.T) {
	dir := t.TempDir()
	ts := []session.Transition{{Path: "p/q/a", Pre: image("1", 0o600), Post: absent()}, {Path: "p/q/b", Pre: image("1", 0o644), Post: absent()}}
	must(t, open(t, dir).Rollback(context.Background(), "key", ts, nil, kept{sum("1"): []byte("1")}.open))
	if d := cmp.Diff(map[string]file{"p/q/a": {"1", 0o600}, "p/q/b": {"1", 0o644}}, tree(t, dir)); d != "" {
		t.Errorf("Rollback: %s", d)
	}
}

// A large file is moved and deleted without being loaded, so its size has no limit.
func TestLargeFilesAreNotLoaded(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "big", "start")
	must(t, os.Truncate(filepath.Join(dir, "big"), 64<<20))
	r := open(t, dir)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	apply(t, r, move("big", "d/big"))
	apply(t, r, remove("d/big"))
	runtime.ReadMemStats(&after)
	allocated := after.TotalAlloc - before.TotalAlloc
	if allocated > 1<<20 {
		t.Errorf("a move and a delete of 64 MiB allocated %d bytes", allocated)
	}
}

// oneLine joins the lines of a difference, so that a search in a log finds all of it.
func oneLine(d string) string { return strings.Join(strings.Fields(d), " ") }
