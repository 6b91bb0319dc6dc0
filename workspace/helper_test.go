package workspace_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/workspace"
)

var _ engine.Files = (*workspace.Root)(nil)

// wall reads the clock that the kernel uses for the times of files.
func wall() time.Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &ts); err != nil {
		panic(err)
	}
	return time.Unix(ts.Unix())
}

// later is a clock for which no file is racy.
func later() time.Time { return wall().Add(time.Hour) }

func open(t testing.TB, dir string) *workspace.Root { return openAt(t, dir, wall) }

func openAt(t testing.TB, dir string, now func() time.Time) *workspace.Root {
	t.Helper()
	r, err := workspace.Open(dir, now)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func put(t testing.TB, dir, name, content string) {
	t.Helper()
	file := filepath.Join(dir, name)
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(t, os.WriteFile(file, []byte(content), 0o644))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t testing.TB, what string, err error, code session.Code) {
	t.Helper()
	var e *session.Error
	if !errors.As(err, &e) || e.Code != code || e.Message == "" || e.Next.IsZero() {
		t.Fatalf("%s: got %v (%s), want a complete error %s", what, err, session.CodeOf(err), code)
	}
}

// file holds the fields of a file that the tests compare.
type file struct {
	Content string
	Mode    uint32
}

// tree reads every file and symbolic link below dir.
func tree(t testing.TB, dir string) map[string]file {
	t.Helper()
	out := map[string]file{}
	must(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		f := file{Mode: uint32(info.Mode().Perm())}
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			f.Content = string(b)
		}
		out[rel] = f
		return nil
	}))
	return out
}

func sum(content string) string {
	h := sha256.Sum256([]byte(content))
	return hex.EncodeToString(h[:])
}

func absent() session.Image { return session.Image{Kind: "absent"} }

func image(content string, mode uint32) session.Image {
	return session.Image{Kind: "file", Hash: sum(content), Size: int64(len(content)), Mode: mode}
}

func write(path, content string) session.Change {
	return session.Change{Op: session.KindWrite, Path: path, Content: content}
}

func edit(path, old, with string) session.Change {
	return session.Change{Op: session.KindEdit, Path: path, Old: old, New: with}
}

func remove(path string) session.Change { return session.Change{Op: session.KindDelete, Path: path} }

func move(from, to string) session.Change {
	return session.Change{Op: session.KindMove, From: from, To: to}
}

// kept is a blob store in memory, filled as the engine fills its own.
type kept map[string][]byte

func (k kept) keep(t testing.TB, r *workspace.Root, ts []session.Transition) {
	t.Helper()
	for _, tr := range ts {
		moved := false
		for _, o := range ts {
			moved = moved || o.From == tr.Path
		}
		if tr.Pre.Absent() || tr.Pre.Hash == tr.Post.Hash || moved {
			continue
		}
		in, err := r.Image(tr.Path, tr.Pre.Hash)
		must(t, err)
		b, err := io.ReadAll(in)
		must(t, err)
		k[tr.Pre.Hash] = b
	}
}

func (k kept) open(hash string) (io.ReadCloser, error) {
	b, ok := k[hash]
	if !ok {
		return nil, session.ErrCorrupt
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

// apply prepares and applies changes at once.
func apply(t testing.TB, r *workspace.Root, changes ...session.Change) []session.FileState {
	t.Helper()
	ctx := context.Background()
	_, err := r.Prepare(ctx, "key", changes)
	must(t, err)
	defer r.Discard("key")
	states, err := r.Apply(ctx, "key")
	must(t, err)
	return states
}

// quick makes a directory on a file system in memory, if there is one, because
// properties sync thousands of times.
func quick(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "acode-workspace-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
