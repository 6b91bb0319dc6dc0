package app

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/acode-dev/acode/session"
)

// The server is killed before and after each of its calls that put a change back, record
// it, or take the result. The change never survives the next connection, its content is
// kept, and the command runs once. Only make torture takes every call.
func TestHeldAfterEachKill(t *testing.T) {
	struck, step, least := 0, 5, 6
	if os.Getenv("ACODE_TORTURE_LONG") != "" {
		step, least = 1, 20
	}
	for n := 1; ; n += step {
		dir := newRepository(t)
		config := read(t, dir, ".git/config")
		when := crash.Before
		if n%2 == 0 {
			when = crash.After
		}
		res := killed(t, dir, crash.Point{Role: crash.RoleAcode, N: (n + 1) / 2, When: when})
		if !res.Struck {
			break
		}
		struck++
		c := connect(t, dir)
		owed, err := c.Owed(context.Background())
		if err != nil || len(owed) != 1 {
			t.Fatalf("%v: owed: got %+v, %v, want the call", res.At, owed, err)
		}
		got, err := c.Wait(context.Background(), owed[0].Op, 20*time.Second)
		if err != nil || got.Outcome != CallDone {
			t.Fatalf("%v: got %+v, %v, want %s", res.At, got, err, CallDone)
		}
		if diff := cmp.Diff([]string{".git/config modified", ".git/hooks/post-merge created", "AGENTS.md deleted"}, words(got.Held)); diff != "" {
			t.Errorf("%v: held (-want +got):\n%s", res.At, diff)
		}
		for _, h := range got.Held {
			if want := map[string]string{".git/config": config + "[alias]\n", ".git/hooks/post-merge": "evil\n"}[h.Path]; want != c.blob(h.Blob) || h.Path == ".git/hooks/post-merge" && h.Mode != 0o755 {
				t.Errorf("%v: %s: kept %q with mode %o, want %q", res.At, h.Path, c.blob(h.Blob), h.Mode, want)
			}
		}
		for name, want := range map[string]string{".git/config": config, ".git/hooks/post-merge": "absent", "AGENTS.md": "be good\n", "ledger": "line\n"} {
			if now := read(t, dir, name); now != want {
				t.Errorf("%v: %s: got %q, want %q", res.At, name, now, want)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "ws", ".git", "**", ".acode-*")); left != nil {
			t.Errorf("%v: temporary files are left: %v", res.At, left)
		}
		c.close()
		verified(t, dir)
	}
	t.Logf("%d kills", struck)
	if struck < least {
		t.Errorf("kills: got %d, want at least %d", struck, least)
	}
}

// killed runs a server that carries out guardedCall and is killed at a call after the
// command.
func killed(t *testing.T, dir string, at crash.Point) crash.Result {
	t.Helper()
	tracer := crash.NewTracer()
	defer tracer.Close()
	var said bytes.Buffer
	ledger := filepath.Join(dir, "ws", "ledger")
	res, err := tracer.Run(t.Context(), crash.Spec{
		Argv: []string{os.Args[0]}, Dir: dir, Roots: []string{dir}, Stdout: &said, Stderr: &said, At: at,
		Env: []string{"ACODE_TEST_FOLLOW=call", "ACODE_TEST_DIR=" + dir, "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"},
		Counts: func(c crash.Call) bool {
			if _, err := os.Lstat(ledger); err != nil || c.Role != crash.RoleAcode {
				return false
			}
			return strings.HasPrefix(c.Path, filepath.Dir(ledger)) || c.Kind == crash.KindSync
		},
	})
	if err != nil {
		t.Fatalf("the server: %v: %s", err, said.Bytes())
	}
	return res
}

// blob reads a blob. It returns "" for none.
func (c connected) blob(ref session.BlobRef) string {
	c.t.Helper()
	if ref.Hash == "" {
		return ""
	}
	r, err := c.site.store.OpenBlob(context.Background(), ref.Hash)
	if err != nil {
		c.t.Fatal(err)
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(content)
}
