package terminal_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/acode-dev/acode/terminal"
)

// Each page replaces the one before. No line wraps or scrolls, because it could not be
// erased then.
func TestRedrawn(t *testing.T) {
	var out bytes.Buffer
	r := &terminal.Redrawn{Out: &out, Size: func() (int, int) { return 8, 4 }}
	for _, c := range []struct{ page, want string }{
		{"one\ntwo\n", "one\ntwo\n"},
		{"a long line\nb\nc\nd\n", "\x1b[2A\x1b[Ja long…\nb\nc\n"},
		{"last\n", "\x1b[3A\x1b[Jlast\n"},
	} {
		out.Reset()
		if n, err := io.WriteString(r, c.page); err != nil || n != len(c.page) || out.String() != c.want {
			t.Errorf("Write(%q): got %q, %d, %v, want %q", c.page, out.String(), n, err, c.want)
		}
	}
}
