package redact_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/acode-dev/acode/redact"
)

// Hashes, ids and code look like secrets, and stay as they are.
func TestUnharmed(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	hex := func(n int) string {
		var b strings.Builder
		for range n {
			fmt.Fprintf(&b, "%x", rng.IntN(16))
		}
		return b.String()
	}
	id := func() string { return hex(8) + "-" + hex(4) + "-7" + hex(3) + "-8" + hex(3) + "-" + hex(12) }
	name := func() string {
		return []string{"store", "token", "passphrase", "Session", "keyring", "author"}[rng.IntN(6)] + []string{"Reader", "Count", "_test", "s", "Of", "ize"}[rng.IntN(6)]
	}
	lines := []func() string{
		func() string { return "commit " + hex(40) },
		func() string { return hex(64) + "  dist/acode.tar.gz" },
		func() string { return "sha256:" + hex(64) },
		func() string { return "index " + hex(7) + ".." + hex(7) + " 100644" },
		func() string { return "session " + id() },
		func() string { return `{"id":"` + id() + `","seq":` + fmt.Sprint(rng.IntN(1e6)) + `}` },
		func() string { return "v1:" + id() + ":fix/code/c1.2:1" },
		func() string { return "trace_id=" + hex(32) + " span_id=" + hex(16) },
		func() string { return `ETag: W/"` + hex(32) + `"` },
		func() string { return "image: registry.example/app@sha256:" + hex(64) },
		func() string { return fmt.Sprintf("0x%s: mov %%rax, 0x%s(%%rbp)", hex(12), hex(2)) },
		func() string { return "func " + name() + "(t *testing.T) { " + name() + ".Close() }" },
		func() string { return "if " + name() + " != nil && len(" + name() + ") > 0 {" },
		func() string { return name() + " := strings.Split(" + name() + `, ",")` },
		func() string { return "import { " + name() + ` } from "./` + name() + `"` },
		func() string { return "The password of the user is never logged by " + name() + "." },
		func() string { return "// token is the next word; see " + name() },
		func() string { return fmt.Sprintf("go: downloading golang.org/x/text v0.%d.0", rng.IntN(40)) },
		func() string {
			return fmt.Sprintf("2026-01-%02dT03:04:05.%06dZ INFO done in %dms", 1+rng.IntN(28), rng.IntN(1e6), rng.IntN(999))
		},
		func() string {
			return fmt.Sprintf("drwxr-xr-x %d root root %d Jan 2 03:04 %s", rng.IntN(9), rng.IntN(1e6), name())
		},
	}
	r := redact.New(nil)
	changed := 0
	const count = 10_000
	for i := range count {
		line := lines[i%len(lines)]()
		if got := r.String(line); got != line {
			if changed++; changed < 10 {
				t.Errorf("%q became %q", line, got)
			}
		}
	}
	t.Logf("%d lines of %d forms: %d changed", count, len(lines), changed)
}
