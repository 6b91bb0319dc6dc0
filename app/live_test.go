package app

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
)

// The piece that is missing from an output may hold one half of a secret. The lines
// beside it are left out, also when the beginning was taken by an earlier look.
func TestLiveLinesOfAGap(t *testing.T) {
	const secret, note = "s3cr3t-0123456789-abcdefghijklmnop", "\n[a piece is missing]\n"
	before := strings.Repeat("early\n", 10_000) + "token " + secret[:20]
	text := before + note + secret[20:] + " end\n" + strings.Repeat("late\n", 10_000)
	gap := redact.Gap{At: int64(len(before)), Size: int64(len(note))}
	for _, seen := range []int{0, 600, 30_000, len(before), len(before) + len(note), len(text) - 600} {
		var told strings.Builder
		o := &outputs{masked: redact.New([]string{secret}).Stream, now: time.Now, tell: func(n session.Notice) { told.WriteString(n.Text + "\n") }}
		l := o.lines(session.Item{}, session.BothStreams)
		first := &gappedText{Reader: strings.NewReader(text[:seen])}
		if seen >= len(before)+len(note) {
			first.gaps = []redact.Gap{gap}
		}
		if n, err := io.Copy(l, first); err != nil || n != int64(seen) {
			t.Fatalf("first look: %d of %d bytes, %v", n, seen, err)
		}
		l.skip = l.seen
		if n, err := io.Copy(l, &gappedText{strings.NewReader(text), []redact.Gap{gap}}); err != nil || n != int64(len(text)) {
			t.Fatalf("second look: %d of %d bytes, %v", n, len(text), err)
		}
		if err := l.close(); err != nil {
			t.Fatal(err)
		}
		got := told.String()
		if strings.Contains(got, "s3cr3t") || strings.Contains(got, secret[22:]) || strings.Count(got, "[a piece is missing]") != 1 ||
			!strings.HasPrefix(got, "early\n") || !strings.HasSuffix(got, "late\n") || l.seen != int64(len(text)) {
			i := max(strings.Index(got, "s3cr3t"), strings.Index(got, secret[22:]), 0)
			t.Errorf("after %d bytes: seen %d of %d, %d lines, %q", seen, l.seen, len(text), strings.Count(got, "\n"), got[i:min(len(got), i+60)])
		}
	}
}

type gappedText struct {
	io.Reader
	gaps []redact.Gap
}

func (g *gappedText) Gaps() []redact.Gap { return g.gaps }
