package strictyaml_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/strictyaml"
)

var update = flag.Bool("update", false, "write the golden files")

func reader() *strictyaml.Reader {
	return &strictyaml.Reader{Name: "file.yml", Format: strictyaml.Format{
		Code: session.ErrPlan, Name: "plan", Bytes: 16 << 20, Next: session.Words("correct the file"), Split: "split the file"}}
}

// at reads text and returns the value at the keys and positions of way.
func at(t *testing.T, r *strictyaml.Reader, text string, way ...string) *strictyaml.Value {
	t.Helper()
	root := r.Root([]byte(text))
	if root == nil {
		t.Fatalf("Root of %q: %v", text, r.Err())
	}
	return below(t, r, root, way...)
}

func below(t *testing.T, r *strictyaml.Reader, v *strictyaml.Value, way ...string) *strictyaml.Value {
	t.Helper()
	for _, part := range way {
		if i, err := strconv.Atoi(part); err == nil {
			v = v.Entries("")[i]
		} else if v = r.Object(v).Get(part); v == nil {
			t.Fatalf("no %s of %q: %v", part, way, r.Err())
		}
	}
	return v
}

// A wrong file gives one clear error with code, place and next step. The golden file
// holds the texts.
func TestErrors(t *testing.T) {
	const file = "testdata/errors.txt"
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(archive.Files); i += 2 {
		in, want := archive.Files[i], &archive.Files[i+1]
		t.Run(in.Name, func(t *testing.T) {
			r := reader()
			root := r.Root(in.Data)
			var e *session.Error
			if root != nil || !errors.As(r.Err(), &e) || e.Code != session.ErrPlan || e.Next == (session.Hint{}) {
				t.Fatalf("Root: got %v, %v, want an error with code and next step", root, r.Err())
			}
			got := fmt.Sprintf("%v\nhint: %s\n", e, e.Next)
			if *update {
				want.Data = []byte(got)
			}
			if diff := cmp.Diff(string(want.Data), got); diff != "" {
				t.Errorf("Root (-want +got):\n%s", diff)
			}
		})
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// These inputs cannot be part of a text archive.
func TestBytes(t *testing.T) {
	const good = "version: 1\ntasks: [{steps: [{run: x}]}]\n"
	for name, c := range map[string]struct{ in, want string }{
		"invalid_utf8": {"version: 1\ntask: é\xff\n", "file.yml:2:8: byte 0xff is not valid UTF-8"},
		"utf16":        {"\xff\xfev\x00", "file.yml:1:1: byte 0xff is not valid UTF-8"},
		"bom":          {"\ufeff" + good, ""},
		"crlf":         {strings.ReplaceAll(good, "\n", "\r\n"), ""},
		"crlf_error":   {"version: 1\r\ntask: t\r\ntasks: *a\r\n", "file.yml:3:8: aliases are not used in a plan\n   3 | tasks: *a\n     |        ^"},
		"cr_error":     {"version: 1\rtask: t\rtasks: *a\r", "file.yml:3:8: aliases are not used in a plan\n   3 | tasks: *a\n     |        ^"},
		"nothing":      {"", ""},
		"control":      {"version: 1\ntask: t\n\"x\x1b[2J\": 1\n", "file.yml:3:3: the character U+001B cannot stand in a plan as it is\n   3 | \"x�[2J\": 1\n     |   ^"},
		"nul":          {"version: 1\ntask: a\x00b\n", "file.yml:2:8: the character U+0000 cannot stand in a plan as it is"},
		"next_line":    {"version: 1\ntask: \"a\u0085b\"\n", "file.yml:2:9: the character U+0085 cannot stand in a plan as it is"},
		"in_a_comment": {"version: 1 # \u2028\n", "file.yml:1:14: the character U+2028 cannot stand in a plan as it is"},
		"second_bom":   {"version: 1\n\ufefftask: t\n", "file.yml:2:1: the character U+FEFF cannot stand in a plan as it is"},
		"too_large":    {strings.Repeat("#", 16<<20+1), "file.yml: the file is larger than 16 MiB; acode did not read it"},
	} {
		t.Run(name, func(t *testing.T) {
			r := reader()
			r.Root([]byte(c.in))
			got := ""
			if err := r.Err(); err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, c.want) || (c.want == "") != (got == "") {
				t.Errorf("Root: got %q, want %q", got, c.want)
			}
		})
	}
}

// Keys are text, known and unique. The text of an error cannot control the terminal.
func TestObject(t *testing.T) {
	for in, want := range map[string]string{
		"a: 1\nb: 2":        `file.yml:2:1: unknown key "b"; a plan has a, c`,
		"a: 1\n\"a\": 2":    `file.yml:2:1: key "a" occurs twice, first on line 1`,
		"7: 1":              "file.yml:1:1: a key is text, not the number 7",
		"a:x":               "file.yml:1:1: a plan is a mapping of keys to values, not text",
		"{a:x: 1}":          `file.yml:1:2: unknown key "a:x"; a plan has a, c`,
		"[a]":               "file.yml:1:1: a plan is a mapping of keys to values, not a list",
		"\"x\u009b2J\": 1":  "file.yml:1:1: unknown key \"x\\u009b2J\"; a plan has a, c\n   1 | \"x�2J\": 1\n     | ^",
		"a: 1\nc: password": "",
		"{token: ghp_" + strings.Repeat("a1B2", 9) + "}": `file.yml:1:2: unknown key "token"`,
	} {
		r := reader()
		r.Object(r.Root([]byte(in)), "a", "c")
		if got := fmt.Sprint(r.Err()); want != "" && !strings.HasPrefix(got, want) || (want == "") != (r.Err() == nil) || strings.Contains(got, "a1B2a1B2") {
			t.Errorf("Object of %q: got %q, want %q", in, got, want)
		}
	}
}

// Errors are in the order of the file, one for each place, and their number is limited.
func TestErrs(t *testing.T) {
	r := reader()
	r.Most = 2
	o := r.Object(at(t, r, "a: 1\nb: x\n"))
	for _, v := range []*strictyaml.Value{o.Get("b"), o.Get("a"), o.Get("b")} {
		r.Bool(v, false)
	}
	r.Need(o, "c")
	var got []string
	for _, err := range r.Errs() {
		line, _, _ := strings.Cut(err.Error(), "\n")
		got = append(got, line)
	}
	if diff := cmp.Diff([]string{`file.yml:1:4: "a" is true or false, not the number 1`, `file.yml:2:4: "b" is true or false, not text`}, got); diff != "" {
		t.Errorf("Errs (-want +got):\n%s", diff)
	}
}

// JSON writes some characters as two surrogates. Other YAML refuses them.
func TestHalves(t *testing.T) {
	const written = `"\ud83d\ude00\uD83D\uDE01 \\ud83d \\\ud83d\ude00 \\\\ud83d\\ude00 \u0085\u2028\ufeff"`
	r := reader()
	if got, want := r.Text(at(t, r, `{"a": `+written+`}`, "a")), "😀😁 \\ud83d \\😀 \\\\ud83d\\ude00 \u0085\u2028\ufeff"; got != want {
		t.Errorf("Text: got %q, want %q", got, want)
	}
	for _, refused := range []string{`"\ud83d\ude00"`, `"\ud83d"`} {
		r := reader()
		if r.Root([]byte("a: " + refused + "\n")); r.Err() == nil || !strings.Contains(r.Err().Error(), "in double quotes is not a character") {
			t.Errorf("Root of %s: got %v", refused, r.Err())
		}
	}
}

// Bombs are refused. Without limits each of these takes seconds and gigabytes.
func TestBombs(t *testing.T) {
	const n = 1 << 17
	laughs := "a0: &a0 [x, x]\n"
	for i := range 30 {
		laughs += fmt.Sprintf("a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	var keys, indent strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&keys, "k%d: 1\n", i)
	}
	for i := range 2000 {
		fmt.Fprintf(&indent, "%sa:\n", strings.Repeat(" ", i))
	}
	for name, c := range map[string]struct{ in, want string }{
		"laughs":        {laughs, "anchors are not used in a plan"},
		"brackets":      {strings.Repeat("[", n), "nested more than 32 deep"},
		"closed":        {strings.Repeat("[", n) + strings.Repeat("]", n), "nested more than 32 deep"},
		"closing":       {strings.Repeat("]", n), `"]" closes nothing`},
		"braces":        {strings.Repeat("{a: ", n), "nested more than 32 deep"},
		"entries":       {strings.Repeat("- ", n), "nested more than 32 deep"},
		"entries_space": {strings.Repeat("-   ", n), "nested more than 32 deep"},
		"questions":     {strings.Repeat("? ", n), "nested more than 32 deep"},
		"indent":        {indent.String(), "nested more than 32 deep"},
		"keys":          {keys.String(), "more than 1000 keys in one mapping"},
		"flow_keys":     {"{" + strings.ReplaceAll(keys.String(), "\n", ", ") + "}", "more than 1000 keys in one mapping"},
		"long_key":      {strings.Repeat("k", n) + ": [" + strings.Repeat("x,", n) + "]", "a key is longer than 256 bytes"},
		"parts":         {"version: [" + strings.Repeat("x,", 2_500_001) + "]", "the plan has more than 2500000 parts"},
		"escapes":       {"[" + strings.Repeat(`"a\n",`, n) + `"\x4{"]`, `\x4{ in double quotes is not a character`},
		"documents":     {strings.Repeat("---\n", n), "a second one begins here"},
	} {
		t.Run(name, func(t *testing.T) {
			r := reader()
			r.Root([]byte(c.in))
			err := r.Err()
			if !errors.Is(err, session.ErrPlan) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Root: got %.200v, want %s", err, c.want)
			}
			if len(err.Error()) > 2000 {
				t.Errorf("Root: a message of %d bytes", len(err.Error()))
			}
		})
	}
}

// Root returns for any text a tree that can be walked, or one error.
func FuzzRoot(f *testing.F) {
	for _, text := range []string{"a: &a [*a]", "{", "? a\n: b", "log: |\n  x\n", "--- !t\n- a", "%YAML 1.2\n---\n", "\"\\x", "a: {<<: *x}"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := reader()
		root := r.Root(data)
		if root != nil && r.Err() != nil || r.Err() != nil && !errors.Is(r.Err(), session.ErrPlan) {
			t.Fatalf("Root: got %v and %v", root, r.Err())
		}
		if root != nil {
			walk(r, root)
		}
	})
}

func walk(r *strictyaml.Reader, v *strictyaml.Value) {
	switch v.Kind() {
	case strictyaml.Mapping:
		for _, f := range r.Object(v).Fields {
			walk(r, &f)
		}
	case strictyaml.List:
		for _, entry := range v.Entries("an entry") {
			walk(r, entry)
		}
	default:
		r.Shown(v, false)
	}
}
