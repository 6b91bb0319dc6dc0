package crash_test

import (
	"bytes"
	"strings"
	"syscall"
	"testing"

	"github.com/acode-dev/acode/internal/crash"
)

// A failed call does not happen, and the program sees the error.
func TestFailedCall(t *testing.T) {
	b := newBench(t)
	syncs := func(c crash.Call) bool { return c.Kind == crash.KindSync }
	writes := func(c crash.Call) bool { return c.Kind == crash.KindWrite }
	for name, tt := range map[string]struct {
		counts func(crash.Call) bool
		n      int
		errno  syscall.Errno
		failed crash.Kind
		saved  int
		says   string
	}{
		"third_call":  {nil, 3, syscall.EIO, crash.KindSync, 0, "input/output error"},
		"third_sync":  {syncs, 3, syscall.EIO, crash.KindSync, 1, "input/output error"},
		"third_write": {writes, 3, syscall.ENOSPC, crash.KindWrite, 2, "no space left on device"},
		"beyond":      {writes, 4, syscall.ENOSPC, "", 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b.clear()
			var out, stderr bytes.Buffer
			spec := b.spec("save")
			spec.Stdout, spec.Stderr, spec.Counts = &out, &stderr, tt.counts
			spec.At = crash.Point{Role: crash.RoleAcode, N: tt.n, When: crash.Fail, Errno: tt.errno}
			res, calls := b.run(spec)
			if got := strings.Count(out.String(), "saved"); got != tt.saved || !strings.Contains(stderr.String(), tt.says) {
				t.Errorf("Run: saved %d, stderr %q; want %d, %q", got, stderr.String(), tt.saved, tt.says)
			}
			if res.Struck != (tt.failed != "") || len(res.Killed) != 0 || (res.ExitCode != 0) != res.Struck {
				t.Errorf("Run: got %+v", res)
			}
			failed := 0
			for _, c := range calls {
				if c.Ret == -int64(tt.errno) {
					failed++
					if c.Kind != tt.failed || c.Ending != crash.Returned {
						t.Errorf("failed: got %v", c)
					}
				}
			}
			if res.Struck && failed != 1 || !res.Struck && failed != 0 {
				t.Errorf("failed: got %d calls", failed)
			}
			if files := state(t, b.dir); tt.failed == crash.KindWrite && files["record-3.tmp"] != "" {
				t.Error("failed: the write happened")
			}
		})
	}
}

// A disk that stays broken fails every later call of the kind.
func TestLastingFailure(t *testing.T) {
	b := newBench(t)
	spec := b.spec("zoo")
	spec.Counts = func(c crash.Call) bool { return c.Kind == crash.KindWrite }
	spec.At = crash.Point{Role: crash.RoleAcode, N: 2, When: crash.Fail, Errno: syscall.EROFS, Lasting: true}
	_, calls := b.run(spec)
	n := 0
	for _, c := range calls {
		if c.Kind != crash.KindWrite {
			continue
		}
		if n++; (c.Ret == -int64(syscall.EROFS)) != (n >= 2) {
			t.Errorf("write %d: got %v", n, c)
		}
	}
	if n < 3 {
		t.Errorf("got %d writes, want more than two", n)
	}
}
