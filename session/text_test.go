package session_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/session"
)

func TestLastLines(t *testing.T) {
	long := strings.Repeat("é", 100) // é has two bytes.
	for _, c := range []struct {
		name, text   string
		count, limit int
		want         []string
	}{
		{"nothing", " \n\n", 2, 10, nil},
		{"fewer", "\na\nb\n", 5, 0, []string{"a", "b"}},
		{"more", "a\nb\nc", 2, 10, []string{"b", "c"}},
		{"long_line", long + "\nend", 5, 8, []string{"…éé", "end"}},
		{"cut_in_a_character", long + "\nend", 5, 9, []string{"…éé", "end"}},
		{"long_before_the_last", long + "\na\nb", 2, 8, []string{"a", "b"}},
		{"no_limit", long, 1, 0, []string{long}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, session.LastLines(c.text, c.count, c.limit)); d != "" {
				t.Errorf("LastLines: %s", d)
			}
		})
	}
}

// A shell turns the quoted text into the path again.
func TestShellQuote(t *testing.T) {
	for path, want := range map[string]string{"/a/b-1.yml": "/a/b-1.yml", "/a b": "'/a b'", "it's": `'it'\''s'`, "": "''", "/$HOME": "'/$HOME'", "ünter": "'ünter'"} {
		if got := session.ShellQuote(path); got != want {
			t.Errorf("ShellQuote(%q): got %s, want %s", path, got, want)
		}
	}
}

func TestFew(t *testing.T) {
	names := []string{"a", "b", "c"}
	for most, want := range map[int]string{1: "a and 2 more", 2: "a, b and 1 more", 3: "a, b, c", 9: "a, b, c"} {
		if got := session.Few(names, most); got != want {
			t.Errorf("Few(%d): got %q, want %q", most, got, want)
		}
	}
	if got := session.Few(nil, 3); got != "" {
		t.Errorf("Few of none: got %q", got)
	}
}

func TestInvisible(t *testing.T) {
	for text, want := range map[string]bool{"\x00\n\r\x1b\x7f\u0085\u200b\u202e\u2066\u2028\u2029\ufeff\ue000": true, "a\t äé文ü,\u00a0😀": false} {
		for _, r := range text {
			if got := session.Invisible(r); got != want {
				t.Errorf("Invisible(%U): got %v, want %v", r, got, want)
			}
		}
	}
}
