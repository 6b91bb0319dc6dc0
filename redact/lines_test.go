package redact_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/acode-dev/acode/redact"
)

func linesOf(t interface{ Fatalf(string, ...any) }, r *redact.Redactor, from io.Reader, most int) (out []redact.Line) {
	l := r.Lines(from, most)
	for {
		line, err := l.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("Next: %v", err)
		}
		out = append(out, line)
	}
}

func TestLines(t *testing.T) {
	r := redact.New([]string{"line-one-known\nline-two", "ends-in-aaa\nb"})
	text := "a\n\n-----BEGIN PRIVATE" + " KEY-----\nMIIEabcdefghijklmnop\nMIIE\n-----END PRIVATE KEY-----\r\nsix is 7\nx line-one-known\nline-two y\nends-in-aaa\nb c\nlong line\nlast"
	want := []redact.Line{
		{Number: 1, Text: "a\n"}, {Number: 2, Text: "\n"}, {Number: 3, Text: "***\r\n"}, {Number: 7, Text: "six is 7\n"},
		{Number: 8, Text: "x ***-two y\n"}, {Number: 10, Text: "***aa\n"}, {Number: 11, Text: "b c\n"}, {Number: 12, Text: "long line\n"}, {Number: 13, Text: "last"},
	}
	if diff := cmp.Diff(want, linesOf(t, r, iotest.OneByteReader(strings.NewReader(text)), 1<<20)); diff != "" {
		t.Errorf("Lines (-want +got):\n%s", diff)
	}
	want[7] = redact.Line{Number: 12, Text: "long lin", Cut: true}
	want[3], want[4] = redact.Line{Number: 7, Text: "six is 7", Cut: true}, redact.Line{Number: 8, Text: "x ***-tw", Cut: true}
	if diff := cmp.Diff(want, linesOf(t, r, strings.NewReader(text), 8)); diff != "" {
		t.Errorf("Lines of at most 8 bytes (-want +got):\n%s", diff)
	}
	l := r.Lines(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(io.ErrUnexpectedEOF)), 10)
	if line, err := l.Next(); line.Text != "a\n" || err != nil {
		t.Errorf("Next: got %v, %v", line, err)
	}
	if line, err := l.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("Next: got %v, %v", line, err)
	}
}

// D4. A line without a mask has the number that it has in the original.
func TestLinesAreTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, _, text := drawCase(t)
		text = strings.Join([]string{text, "plain", text, "plain\n"}, rapid.StringMatching(`\n{1,3}`).Draw(t, "between"))
		var all strings.Builder
		raw := strings.SplitAfter(text, "\n")
		for _, line := range linesOf(t, r, iotest.HalfReader(strings.NewReader(text)), 1<<20) {
			all.WriteString(line.Text)
			if line.Text == "plain\n" && raw[line.Number-1] != line.Text {
				t.Fatalf("Lines(%q): got line %d %q, want %q", text, line.Number, line.Text, raw[line.Number-1])
			}
		}
		if want := r.String(text); all.String() != want {
			t.Fatalf("Lines(%q): got %q, want %q", text, all.String(), want)
		}
	})
}
