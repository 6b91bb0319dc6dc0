package workspace_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/workspace"
)

// The differences from all looks together give the result of a scan, for any files that
// were made, changed, moved and removed between them.
func TestLooksAddUpToAScan(t *testing.T) {
	ctx := context.Background()
	rapid.Check(t, func(rt *rapid.T) {
		dir := quick(t)
		in := func(name string) string { return filepath.Join(dir, name) }
		put(t, dir, "a", "1")
		put(t, dir, "d/b", "1")
		put(t, dir, "d/e/c", "1")
		// nearly all files are racy, because they change within a tick of the kernel's
		// clock
		r := open(t, dir)
		planned := []string{"a", "d/new", "**/c"}
		first, err := r.Scan(ctx, planned, nil)
		must(t, err)
		w, kept := r.Watch(first, planned), first
		name := rapid.SampledFrom([]string{"a", "d/b", "d/e/c", "d/new", "f/g/h", "f/i", "d", "d/e", "f"})
		for range rapid.IntRange(1, 4).Draw(rt, "looks") {
			for range rapid.IntRange(0, 4).Draw(rt, "changes") {
				at := in(name.Draw(rt, "name"))
				switch rapid.IntRange(0, 2).Draw(rt, "op") {
				case 0:
					// this fails if a file is in the way, which is fine
					_ = os.MkdirAll(filepath.Dir(at), 0o755)
					_ = os.WriteFile(at, []byte(rapid.StringN(0, 3, 3).Draw(rt, "text")), 0o644)
				case 1:
					// this may fail too
					_ = os.RemoveAll(at)
				case 2:
					// this may fail too
					_ = os.Rename(at, in(name.Draw(rt, "to")))
				}
			}
			diff, err := w.Look(ctx)
			must(t, err)
			if diff == nil {
				continue
			}
			diff.Base = sum("base")
			if diff, err = workspace.DecodeManifest(diff.Encode()); err != nil || diff.Base != sum("base") {
				rt.Fatalf("DecodeManifest: got %+v, %v", diff, err)
			}
			kept = kept.With(diff)
		}
		want, err := r.Scan(ctx, planned, nil)
		must(t, err)
		if d := cmp.Diff(want.Entries, kept.Entries, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(session.FileState{}, "Hash", "Racy")); d != "" {
			rt.Fatalf("entries (-scanned +looked): %s", oneLine(d))
		}
		if changed, _, err := r.Compare(ctx, kept); len(changed) > 0 || err != nil {
			rt.Fatalf("Compare: got %+v, %v", changed, err)
		}
	})
}

// A look at a repository leaves out the files that git ignores, now and later, and the
// .git directory.
func TestLookAtARepository(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	put(t, dir, ".gitignore", "*.o\n")
	put(t, dir, "a", "1")
	gitIn(t, dir, "init", "-q")
	r := openAt(t, dir, later)
	planned := []string{".git/description", "made"}
	m, err := r.Scan(ctx, planned, nil)
	must(t, err)
	w := r.Watch(m, planned)
	for i := range 3 {
		put(t, dir, "x.o", fmt.Sprint(i))
		put(t, dir, ".git/index.lock", fmt.Sprint(i))
		if diff, err := w.Look(ctx); diff != nil || err != nil {
			t.Fatalf("Look at ignored files: got %+v, %v", diff, err)
		}
		must(t, os.Remove(filepath.Join(dir, "x.o")))
		must(t, os.Remove(filepath.Join(dir, ".git/index.lock")))
	}
	put(t, dir, "made", "1")
	diff, err := w.Look(ctx)
	if err != nil || diff == nil || len(diff.Entries) != 1 || diff.Entries[0].Path != "made" || diff.Entries[0].Hash != sum("1") {
		t.Fatalf("Look: got %+v, %v, want made with its hash", diff, err)
	}
	must(t, os.Remove(filepath.Join(dir, "made")))
	changed, _, err := r.Changes(ctx, nil, planned, m.With(diff))
	if err != nil || len(changed) != 1 || changed[0].Path != "made" || changed[0].Kind != session.FileDeleted || !changed[0].Asks {
		t.Errorf("Changes: got %+v, %v, want that made is gone", changed, err)
	}
	ended, end := context.WithCancel(ctx)
	end()
	if _, err := w.Look(ended); err != context.Canceled {
		t.Errorf("Look with an ended context: got %v", err)
	}
	if changed, _, err := r.Compare(ctx, w.State()); err != nil || len(changed) != 1 {
		t.Errorf("Compare with the last look: got %+v, %v", changed, err)
	}
}
