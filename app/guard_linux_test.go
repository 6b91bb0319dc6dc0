package app

import (
	"bytes"
	"context"
	"errors"
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
		ledger := filepath.Join(dir, "ws", "ledger")
		res := killed(t, dir, "call", crash.Point{Role: crash.RoleAcode, N: (n + 1) / 2, When: when}, func() bool { _, err := os.Lstat(ledger); return err == nil })
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

// killed runs this program in a role and kills it at a call that changes the workspace or
// syncs, counted while from returns true.
func killed(t *testing.T, dir, role string, at crash.Point, from func() bool) crash.Result {
	t.Helper()
	tracer := crash.NewTracer()
	defer tracer.Close()
	var said bytes.Buffer
	res, err := tracer.Run(t.Context(), crash.Spec{
		Argv: []string{os.Args[0]}, Dir: dir, Roots: []string{dir}, Stdout: &said, Stderr: &said, At: at,
		Env: []string{"ACODE_TEST_FOLLOW=" + role, "ACODE_TEST_DIR=" + dir, "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"},
		Counts: func(c crash.Call) bool {
			return c.Role == crash.RoleAcode && (strings.HasPrefix(c.Path, filepath.Join(dir, "ws")) || c.Kind == crash.KindSync) && from()
		},
	})
	if err != nil || !res.Struck && res.ExitCode != 0 {
		t.Fatalf("%s: %+v, %v: %s", role, res, err, said.Bytes())
	}
	return res
}

// A person's approval is killed before and after each of its calls. Each file then is as
// before or as the command left it. The changes still wait and can be applied, or all of
// them are applied; the decision is recorded once. Only make torture takes every call.
func TestApprovalAfterEachKill(t *testing.T) {
	step, least := 7, 6
	if os.Getenv("ACODE_TORTURE_LONG") != "" {
		step, least = 1, 40
	}
	seen := map[string]int{}
	for n := 1; ; n += step {
		dir := newRepository(t)
		config := read(t, dir, ".git/config")
		c := connect(t, dir)
		c.do(guardedCall(), CallDone)
		c.close()
		when := crash.Before
		if n%2 == 0 {
			when = crash.After
		}
		res := killed(t, dir, "approve", crash.Point{Role: crash.RoleAcode, N: (n + 1) / 2, When: when}, func() bool { return true })
		before := map[string]string{".git/config": config, ".git/hooks/post-merge": "absent", "AGENTS.md": "be good\n"}
		after := map[string]string{".git/config": config + "[alias]\n", ".git/hooks/post-merge": "evil\n", "AGENTS.md": "absent"}
		applied := 0
		for name := range after {
			switch read(t, dir, name) {
			case after[name]:
				applied++
			case before[name]:
			default:
				t.Errorf("%v: %s: got %q", res.At, name, read(t, dir, name))
			}
		}
		c = connect(t, dir)
		switch err := c.decide(true); {
		case err == nil && applied == len(after):
			seen["applied, and waits"]++
		case err == nil:
			seen["waits"]++
		case errors.Is(err, session.ErrUsage) && applied == len(after):
			seen["decided"]++
		default:
			t.Errorf("%v: %d files applied, DecideHeld: %v", res.At, applied, err)
		}
		c.decided(1)
		for name, want := range after {
			if now := read(t, dir, name); now != want {
				t.Errorf("%v: %s: got %q, want %q", res.At, name, now, want)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "ws", ".git", "*", ".acode-*")); left != nil {
			t.Errorf("%v: temporary files are left: %v", res.At, left)
		}
		c.close()
		verified(t, dir)
		if !res.Struck {
			break
		}
		seen["kills"]++
	}
	t.Log(seen)
	if seen["kills"] < least || seen["waits"] == 0 || seen["applied, and waits"] == 0 || seen["decided"] == 0 {
		t.Errorf("got %v, want at least %d kills and each end", seen, least)
	}
}

// What was reported as applied survives a power cut.
func TestApprovalIsDurable(t *testing.T) {
	dir := newRepository(t)
	c := connect(t, dir)
	c.do(guardedCall(), CallDone)
	c.close()
	initial, err := crash.Snapshot(dir)
	if err != nil {
		t.Fatal(err)
	}
	var calls []crash.Call
	tracer := crash.NewTracer()
	defer tracer.Close()
	res, err := tracer.Run(t.Context(), crash.Spec{
		Argv: []string{os.Args[0]}, Dir: dir, Roots: []string{dir}, Record: func(c crash.Call) { calls = append(calls, c) },
		Env: []string{"ACODE_TEST_FOLLOW=approve", "ACODE_TEST_DIR=" + dir, "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"},
	})
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("approve: got %+v, %v", res, err)
	}
	judged := 0
	for image, err := range crash.Images(initial, calls, crash.Options{Random: -1}) {
		if err != nil {
			t.Fatal(err)
		}
		if n := len(image.Calls); n == 0 || image.Calls[n-1].Kind != crash.KindAck {
			continue
		}
		judged++
		files := image.Tree().Files
		hook, config := files["ws/.git/hooks/post-merge"], files["ws/.git/config"]
		if _, there := files["ws/AGENTS.md"]; there || string(hook.Data) != "evil\n" || hook.Mode.Perm() != 0o755 || !strings.HasSuffix(string(config.Data), "[alias]\n") {
			t.Errorf("%v: got the hook %q with mode %v and the configuration %q", image, hook.Data, hook.Mode, config.Data)
		}
	}
	if judged == 0 {
		t.Error("no image was judged")
	}
}

// decided checks how many decisions about held changes are recorded.
func (c connected) decided(want int) {
	c.t.Helper()
	events, err := c.site.store.Events(context.Background(), c.only(), 0, 1000)
	if err != nil {
		c.t.Fatal(err)
	}
	got := 0
	for _, e := range events {
		if e.Type == session.HeldDecided {
			got++
		}
	}
	if got != want {
		c.t.Errorf("decisions: got %d, want %d", got, want)
	}
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
