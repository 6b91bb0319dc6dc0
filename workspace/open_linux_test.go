package workspace_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/workspace"
)

// descriptors returns the open files of this process at or below dir, as the kernel
// names them.
func descriptors(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	for _, e := range entries {
		name, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name()))
		if err == nil && (name == dir || strings.HasPrefix(name, dir+"/")) {
			names = append(names, strings.TrimPrefix(name, dir))
		}
	}
	slices.Sort(names)
	return names
}

// A session may have any number of steps, and a process has a limited number of
// descriptors. So each call closes the files that it opened, even if it is refused or
// fails. Discard and Close close the files that Prepare keeps.
func TestNothingStaysOpen(t *testing.T) {
	// the collector would close forgotten files sooner or later
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	dir := quick(t)
	seed(t, dir)
	put(t, dir, "e/link", "1")
	must(t, os.Link(filepath.Join(dir, "e/link"), filepath.Join(dir, "e/link2")))
	r := open(t, dir)
	ctx := context.Background()
	ended, end := context.WithCancel(ctx)
	end()
	m, err := r.Scan(ctx, nil, nil)
	must(t, err)
	files, err := r.Read(ctx, session.Read{Path: "**"})
	must(t, err)
	for i := range files {
		files[i].Racy = false
	}
	changes := []session.Change{edit("a", "content", "text"), move("b", "n/b"), remove("d/a"), write("d/b", "x")}
	ts, err := r.Prepare(ctx, "key", changes)
	must(t, err)
	blobs := kept{}
	blobs.keep(t, r, ts)
	r.Discard("key")
	resting := descriptors(t, dir)

	calls := map[string]func() error{
		"Scan": func() error { _, err := r.Scan(ctx, nil, nil); return err },
		"Look": func() error {
			w := r.Watch(&workspace.Manifest{Dirs: m.Dirs, Entries: append(m.Entries[1:], session.FileState{Path: "gone/x", Inode: 1})}, nil)
			_, err := w.Look(ctx)
			return err
		},
		"Compare": func() error { _, _, err := r.Compare(ctx, m); return err },
		"Changes": func() error { _, _, err := r.Changes(ctx, files, []string{"d/new", "new"}, m); return err },
		"Read":    func() error { _, err := r.Read(ctx, session.Read{Path: "**"}); return err },
		"Search":  func() error { _, _, _, err := r.Search(ctx, session.Search{Pattern: "content"}); return err },
		"Stat": func() error {
			_, err := r.Stat(ctx, append(files, session.FileState{Path: "e/link"}, session.FileState{Path: "d"}))
			return err
		},
		"Sweep":   func() error { return r.Sweep([]string{".", "d"}, func() []string { return nil }) },
		"Inspect": func() error { _, _, err := r.Inspect(ctx, "key", ts); return err },
		"Reached": func() error { _, _, err := r.Reached(ctx, "key", ts); return err },
		"Content": func() error {
			f, _, err := r.Content("a")
			if err != nil {
				return err
			}
			return f.Close()
		},
		"Apply_and_Rollback": func() error {
			if _, err := r.Prepare(ctx, "key", changes); err != nil {
				return err
			}
			if _, err := r.Apply(ctx, "key"); err != nil {
				return err
			}
			r.Discard("key")
			return r.Rollback(ctx, "key", ts, nil, blobs.open)
		},
	}
	fail := map[string]func() error{
		"Prepare_refused": func() error { _, err := r.Prepare(ctx, "key", append(changes, remove("no"))); return err },
		"Prepare_ended":   func() error { _, err := r.Prepare(ended, "key", changes); return err },
		"Prepare_of_link": func() error { _, err := r.Prepare(ctx, "key", []session.Change{remove("e/link")}); return err },
		"Read_ended":      func() error { _, err := r.Read(ended, session.Read{Path: "a"}); return err },
		"Search_ended":    func() error { _, _, _, err := r.Search(ended, session.Search{Pattern: "x", Path: "a"}); return err },
		"Inspect_ended":   func() error { _, _, err := r.Inspect(ended, "key", ts); return err },
		"Rollback_ended":  func() error { return r.Rollback(ended, "key", ts, nil, blobs.open) },
		"Content_of_link": func() error { _, _, err := r.Content("e/link"); return err },
		"Apply": func() error {
			_, err := r.Prepare(ctx, "key", changes)
			must(t, err)
			defer r.Discard("key")
			r.SetHook(func(op string) error {
				if strings.HasPrefix(op, "write") {
					return unix.ENOSPC
				}
				return nil
			})
			defer r.SetHook(nil)
			_, err = r.Apply(ctx, "key")
			return err
		},
	}
	check := func(name string) {
		t.Helper()
		if d := cmp.Diff(resting, descriptors(t, dir)); d != "" {
			t.Errorf("%s: open afterwards: %s", name, oneLine(d))
		}
	}
	for name, call := range calls {
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		check(name)
	}
	for name, call := range fail {
		if call() == nil {
			t.Errorf("%s: got nil, want a failure", name)
		}
		check(name)
	}
	_, err = r.Prepare(ctx, "key", changes)
	must(t, err)
	must(t, r.Close())
	if open := descriptors(t, dir); open != nil {
		t.Errorf("Close: %q stay open", open)
	}
}

// FR-040: a file that cannot be read is reported as unchecked, and does not count as
// unchanged. The kernel's view of this process's memory is such a file, even for root.
func TestChangesNamesWhatCannotBeRead(t *testing.T) {
	r := open(t, fmt.Sprintf("/proc/%d", os.Getpid()))
	known := []session.FileState{{Path: "mem", Hash: sum("x"), Size: 1, Inode: 1, Wrote: true}}
	changed, unchecked, err := r.Changes(context.Background(), known, nil, nil)
	if err != nil || len(changed) != 0 || len(unchecked) != 1 || unchecked[0] != "mem" {
		t.Errorf("Changes: got %+v, unchecked %q, %v; want mem unchecked", changed, unchecked, err)
	}
}
