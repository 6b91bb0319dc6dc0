package shell_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/acode-dev/acode/shell"
)

// line shows parts: words in order, those that are not known with …, redirections and
// assignments.
func line(parts []shell.Part) string {
	word := func(w shell.Word) string {
		if w.Exact {
			return w.Text
		}
		return w.Text + "…"
	}
	var out []string
	for _, p := range parts {
		var words []string
		for _, a := range p.Assigns {
			words = append(words, a+"=")
		}
		for _, w := range p.Words {
			words = append(words, word(w))
		}
		for _, r := range p.Redirects {
			words = append(words, r.Op+word(r.Target))
		}
		if p.Script {
			words = append(words, "(script)")
		}
		out = append(out, strings.Join(words, " "))
	}
	return strings.Join(out, " | ")
}

// Parts finds everything that a text starts.
func TestParts(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "",
		"ls -l a":            "ls -l a",
		"a; b && c || d | e": "a | b | c | d | e",
		"(a; { b; })":        "a | b",
		"if a; then b; elif c; then d; else e; fi": "a | b | c | d | e",
		"while a; do b; done; until c; do d; done": "a | b | c | d",
		"for x in $(a) b; do c $x; done":           "a | c …",
		"for x; do a; done":                        "a",
		"! a":                                      "a",
		`a "b c" 'd e' f\ g`:                       "a b c d e f g",
		`a "$x" $x x$x "x$(b)"`:                    "b | a … … … …",
		"a *.go src/*.go a? [ab] {} [ \\* '*'":     "a … src/… a… … {} [ * *",
		"a {b,c} x{b,c} ~ ~/x x~":                  "a … x… … … x~",
		`a "$" x$ "\$x" '$x'`:                      "a $ x$ $x $x",
		`a "$$" "$x$" "a$b"`:                       "a … … …",
		"X=1 Y=$(a) b":                             "a | X= Y= b",
		"X=1":                                      "X=",
		"a > b 2>&1 < c >> d <> e":                 "a >b >&1 <c >>d <>e",
		"a > $x > b*":                              "a >… >b…",
		"> a":                                      ">a",
		"{ a; } > b":                               ">b | a",
		"a <<E\n$(b) $x\nE":                        "b | a <<",
		"a <<'E'\n$(b)\nE":                         "a <<",
		"eval 'a b' c":                             "eval a b c (script) | a b c",
		"eval $x":                                  "eval …",
		"sh -c 'a; b'":                             "sh -c a; b (script) | a | b",
		"/bin/bash -eu -o pipefail -c a":           "/bin/bash -eu -o pipefail -c a (script) | a",
		"sh -ec a x":                               "sh -ec a x",
		"sh -lc a":                                 "sh -lc a",
		"bash --rcfile x -c a":                     "bash --rcfile x -c a",
		"bash -i -c a":                             "bash -i -c a",
		"sh -c $x":                                 "sh -c …",
		"sh -o":                                    "sh -o",
		"zsh -c a":                                 "zsh -c a",
		"sh x":                                     "sh x",
		"a | b # c":                                "a | b",
	} {
		parts, err := shell.Parts([]string{"/bin/sh", "-e", "-c", text})
		if err != nil || !parts[0].Script || line(parts[1:]) != want {
			t.Errorf("Parts(%s): got %s, %v, want %s", text, line(parts), err, want)
		}
		for _, p := range parts[1:] {
			if !p.Shell {
				t.Errorf("Parts(%s): no shell runs %s", text, line([]shell.Part{p}))
			}
		}
	}
	for _, argv := range [][]string{{"ls", "$x", "*", "> a"}, {"eval", "a"}, {"sh", "a"}, {}} {
		parts, err := shell.Parts(argv)
		if err != nil || len(parts) != 1 || parts[0].Shell || parts[0].Script || line(parts) != strings.Join(argv, " ") {
			t.Errorf("Parts(%q): got %s, %v", argv, line(parts), err)
		}
	}
}

// Parts does not vouch for forms that it does not look into. The parts that it sees are
// there.
func TestPartsRefuses(t *testing.T) {
	long := strings.Repeat("a;", shell.MaxParts)
	deep := "a"
	for range 9 {
		deep = "sh -c " + quoted(deep)
	}
	for text, want := range map[string]string{
		"a &": "a", "f() { a; }; f": "a | f", "case x in x) a;; esac": "", "((a))": "a", "a | ((b))": "a | b",
		"a ${x:-$(b)}": "a …", "a ${x:=b}": "a …", "a ${x=b}": "a …", "a ${x?}": "a …", "a ${#x}": "a …", "a ${x%b}": "a …", "a $((x))": "a …", "a $((x=1))": "a …",
		"for PATH in a; do b; done": "b", "for X in a; do b; done": "b",
		"a <(b)": "", "a >(b)": "", "a &> b": "", "a |& b": "", "a <<< b": "", "x=(a) b": "", "function f { a; }": "", "for ((;;)); do a; done": "", "a ${x/a/b}": "", "a $'x'": "a $x", `a $"x"`: "a $x", "a $[1]": "a $…", `a "$[1]"`: "a $[1]", "a `b`": "b | a …", "((a) | (b))": "a | b", "( (a) )((": "",
		"a <<-E\n\tb\nE": "a <<-", "a <<E\nb\\\nE\nc\nE": "a <<", "a <<'E F'\nE F\nb": "a << | b", "a <<E-\nE-\nb": "a << | b",
		"a 'b": "", "if a": "", "a !(b)": "", "{x}>a b": "", long + "b": long[:0] + strings.TrimSuffix(strings.Repeat("a | ", shell.MaxParts), " | "),
	} {
		parts, err := shell.Parts([]string{"/bin/sh", "-c", text})
		if err == nil || line(parts[1:]) != want {
			t.Errorf("Parts(%.40s): got %s, %v, want an error and %s", text, line(parts), err, want)
		}
	}
	if _, err := shell.Parts([]string{"sh", "-c", deep}); err == nil {
		t.Errorf("Parts(%s): got no error", deep)
	}
	if _, err := shell.Parts([]string{"sh", "-c", long}); err != nil {
		t.Errorf("Parts of %d parts: %v", shell.MaxParts, err)
	}
	if _, err := shell.Parts([]string{"sh", "-c", "a " + strings.Repeat("b", shell.MaxBytes)}); err == nil {
		t.Error("Parts of a long text: got no error")
	}
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Parts of the greatest text costs neither the stack nor much time.
func TestPartsBombs(t *testing.T) {
	for _, part := range []string{"$(", "(", "if ", "f() {", "a;", "a|", "{ ", "\"$(", "`", "eval 'a' ;", "a=$(b) "} {
		parts, _ := shell.Parts([]string{"sh", "-c", strings.Repeat(part, shell.MaxBytes/len(part)-1)})
		if len(parts) > shell.MaxParts+1 {
			t.Errorf("%s: got %d parts", part, len(parts))
		}
	}
}

func FuzzParts(f *testing.F) {
	for _, text := range []string{"a $(b) > c", "eval 'sh -c \"a; b\"'", "for x in a*; do b <<E\n$(c)\nE\ndone", "{ a; } 2>&1 | b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parts, err := shell.Parts([]string{"sh", "-c", text})
		if len(parts) == 0 || len(parts) > shell.MaxParts+1 || err != nil && fmt.Sprint(err) == "" {
			t.Errorf("Parts(%q): got %d parts, %v", text, len(parts), err)
		}
	})
}
