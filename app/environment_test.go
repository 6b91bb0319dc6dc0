package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/workspace"
)

// judged is a workspace with a session's store and the manifest of a first snapshot.
type judged struct {
	t   *testing.T
	env environment
	dir string
	// a file with one line for each start of git
	calls string
	shot  resume.Snapshot
}

func inGit(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

// newJudged makes the workspace, with or without a repository. Its clock is an hour
// ahead, so that no file seems just modified.
func newJudged(t *testing.T, git bool) *judged {
	t.Helper()
	ctx := context.Background()
	j := &judged{t: t, dir: t.TempDir()}
	for _, name := range []string{"a", "d/b"} {
		j.put(name, "1")
	}
	if git {
		inGit(t, j.dir, "init", "-q", "-b", "main")
		inGit(t, j.dir, "add", "-A")
		inGit(t, j.dir, "commit", "-q", "-m", "x")
	}
	ahead := func() time.Time { return time.Now().Add(time.Hour) }
	root, err := workspace.Open(j.dir, ahead)
	if err != nil {
		t.Fatal(err)
	}
	store, err := local.Open(ctx, local.Options{Home: filepath.Join(t.TempDir(), "home"), Now: time.Now, Redactor: redact.New(nil), Env: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	id, err := store.NewID()
	if err != nil {
		t.Fatal(err)
	}
	p := &session.Plan{Task: "t", Tasks: []session.Task{{ID: "1", Steps: []session.Step{{ID: "1", Kind: session.KindRead, Read: &session.Read{Path: "a"}}}}}}
	w, err := store.Create(ctx, local.NewSession{ID: id, Task: "t", Workspace: j.dir, Plan: p, Config: "{}"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _, _ = root.Close(), w.Close(), store.Close() })
	j.env = newEnvironment(root, w, p, redact.New(nil))
	j.shot = j.snapshot()
	bin := t.TempDir()
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	j.calls = filepath.Join(bin, "calls")
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/sh\necho \"$*\" >>"+j.calls+"\nexec "+real+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return j
}

func (j *judged) put(name, text string) {
	j.t.Helper()
	at := filepath.Join(j.dir, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		j.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
		j.t.Fatal(err)
	}
}

func (j *judged) snapshot() resume.Snapshot {
	j.t.Helper()
	shot, err := j.env.Snapshot(context.Background(), nil)
	if err != nil {
		j.t.Fatal(err)
	}
	return shot
}

// again validates against the first snapshot and takes the next one. It returns how often
// git was started, and how many files had changed.
func (j *judged) again() (shot resume.Snapshot, started, changed int) {
	j.t.Helper()
	ctx := context.Background()
	_ = os.Remove(j.calls) // there is no file at first
	j.env.seen = &seen{}
	j.env.git = askGit(ctx, j.dir)
	defer j.env.git.stop()
	files, _, err := j.env.Changes(ctx, nil, nil, j.shot.Manifest)
	if err != nil {
		j.t.Fatal(err)
	}
	if j.shot.Git != "" {
		if _, err := j.env.GitChanges(ctx, j.shot.Git); err != nil {
			j.t.Fatal(err)
		}
	}
	shot = j.snapshot()
	b, err := os.ReadFile(j.calls)
	if err != nil && !os.IsNotExist(err) {
		j.t.Fatal(err)
	}
	return shot, strings.Count(string(b), "\n"), len(files)
}

// A snapshot after a validation without changes uses the results of that validation.
func TestSnapshotIsWhatWasJudged(t *testing.T) {
	for git, want := range map[bool]int{false: 0, true: 2} {
		j := newJudged(t, git)
		shot, started, changed := j.again()
		if shot != j.shot || started != want || changed != 0 {
			t.Errorf("repository %v: got %+v, want %+v; git was started %d times, want %d; %d changes", git, shot, j.shot, started, want, changed)
		}
	}
}

// The next manifest has the changes of files, of git's list of files, and of git's state.
func TestSnapshotAnewAfterChanges(t *testing.T) {
	for name, change := range map[string]func(*judged){
		"modified":   func(j *judged) { j.put("a", "22") },
		"created":    func(j *judged) { j.put("d/new", "2") },
		"repository": func(j *judged) { inGit(j.t, j.dir, "init", "-q") },
	} {
		j := newJudged(t, false)
		change(j)
		if shot, _, _ := j.again(); shot.Manifest == j.shot.Manifest {
			t.Errorf("%s: the manifest is the old one", name)
		}
	}
	for name, change := range map[string]func(*judged){
		"modified":  func(j *judged) { j.put("a", "22") },
		"untracked": func(j *judged) { inGit(j.t, j.dir, "rm", "-q", "--cached", "a") },
		"ended":     func(j *judged) { _ = os.RemoveAll(filepath.Join(j.dir, ".git")) },
	} {
		j := newJudged(t, true)
		change(j)
		shot, started, _ := j.again()
		if shot == j.shot || started > 0 && started < 3 {
			t.Errorf("%s: got %+v, git was started %d times", name, shot, started)
		}
	}
}

// A new manifest clears files that were modified just before the last manifest.
func TestSnapshotAnewWhereFilesWereRacy(t *testing.T) {
	if m := (&workspace.Manifest{Entries: []session.FileState{{Path: "a"}, {Path: "b", Racy: true}}}); !racy(m) {
		t.Error("racy: got false for a manifest with a racy file")
	}
	if m := (&workspace.Manifest{Entries: []session.FileState{{Path: "a"}}}); racy(m) {
		t.Error("racy: got true for one without")
	}
}

// FR-044: changes in git's state are described in words.
func TestGitChangesInWords(t *testing.T) {
	for want, change := range map[string]func(*judged){
		"git no longer reports":                   func(j *judged) { _ = os.RemoveAll(filepath.Join(j.dir, ".git")) },
		"git branch was main, is none (detached)": func(j *judged) { inGit(j.t, j.dir, "checkout", "-q", "--detach") },
		"git working tree has uncommitted changes, had none": func(j *judged) {
			if err := os.WriteFile(filepath.Join(j.dir, "untracked"), nil, 0o600); err != nil {
				j.t.Error(err)
			}
		},
		", is none": func(j *judged) { inGit(j.t, j.dir, "update-ref", "-d", "HEAD") },
	} {
		j := newJudged(t, true)
		change(j)
		lines, err := j.env.GitChanges(context.Background(), j.shot.Git)
		if err != nil || !strings.Contains(strings.Join(lines, "\n"), want) {
			t.Errorf("GitChanges: got %q, %v, want %q in it", lines, err, want)
		}
	}
}

// meddled is a blob store that changes a file while it keeps its content.
type meddled struct {
	engine.Blobs
	before, after func()
}

func (m meddled) Stage(ctx context.Context, r io.Reader, size int64) (session.BlobRef, error) {
	m.before()
	ref, err := m.Blobs.Stage(ctx, r, size)
	m.after()
	return ref, err
}

// FR-045: the accepted content is the stored content, even if a file changes again
// meanwhile.
func TestKeepsWhatItAccepts(t *testing.T) {
	ctx := context.Background()
	for _, first := range []bool{true, false} {
		j := newJudged(t, false)
		j.put("a", "theirs")
		m := meddled{Blobs: j.env.blobs, before: func() {}, after: func() {}}
		if again := func() { j.put("a", "newer!") }; first {
			m.before = again
		} else {
			m.after = again
		}
		j.env.blobs = m
		states, err := j.env.Keep(ctx, []session.ChangedFile{{Path: "a", Kind: session.FileModified}})
		switch {
		case first && !errors.Is(err, session.ErrFileChanged):
			t.Errorf("Keep of what changes: got %+v, %v", states, err)
		case !first && (err != nil || len(states) != 1 || states[0].Hash != hashOf("theirs")):
			t.Errorf("Keep: got %+v, %v, which was not kept", states, err)
		}
	}
}

func hashOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// A resume reads a bounded number of manifests, even after many commands with changes.
// Together they describe the workspace as the last command left it.
func TestLooksAreKeptInARow(t *testing.T) {
	j := newJudged(t, false)
	ctx := context.Background()
	name, most := j.shot.Manifest, 0
	for i := range 2*maxManifests + 3 {
		if again, err := j.env.look(ctx); again != "" || err != nil {
			t.Fatalf("look where nothing changed: got %q, %v", again, err)
		}
		j.put(fmt.Sprintf("made%d", i), "1")
		next, err := j.env.look(ctx)
		if err != nil || next == "" || next == name {
			t.Fatalf("look %d: got %q after %q, %v", i, next, name, err)
		}
		name = next
		read := newEnvironment(j.env.root, j.env.blobs, j.env.plan, j.env.door)
		changed, _, err := read.Changes(ctx, nil, nil, name)
		if err != nil || len(changed) != 0 {
			t.Fatalf("Changes since look %d: got %+v, %v", i, changed, err)
		}
		most = max(most, read.kept.length)
	}
	if most != maxManifests {
		t.Errorf("manifests in a row: got %d, want %d", most, maxManifests)
	}
	if err := os.Remove(filepath.Join(j.dir, "made0")); err != nil {
		t.Fatal(err)
	}
	changed, _, err := j.env.Changes(ctx, nil, nil, name)
	if err != nil || len(changed) != 1 || changed[0].Path != "made0" || changed[0].Kind != session.FileDeleted {
		t.Errorf("Changes: got %+v, %v, want that made0 is gone", changed, err)
	}
	// The next look stores a difference that could not be stored before.
	j.env = newEnvironment(j.env.root, failing{j.env.blobs}, j.env.plan, j.env.door)
	j.env.kept.watch = j.env.root.Watch(&workspace.Manifest{Dirs: []session.FileState{{Path: ".", Inode: 1}}}, nil)
	if name, err := j.env.look(ctx); name != "" || err == nil {
		t.Errorf("look that cannot be kept: got %q, %v", name, err)
	}
	if j.env.kept.length != maxManifests {
		t.Errorf("length after a failure: got %d, want %d, so that the next is whole", j.env.kept.length, maxManifests)
	}
}

// failing is a blob store that stores nothing.
type failing struct{ engine.Blobs }

func (failing) Stage(context.Context, io.Reader, int64) (session.BlobRef, error) {
	return session.BlobRef{}, errors.New("no room")
}
