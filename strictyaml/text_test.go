package strictyaml_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Text is read as YAML 1.2 defines it, for every kind of line end. A command that is
// folded over lines is one text.
func TestText(t *testing.T) {
	for name, c := range map[string]struct{ written, want string }{
		"plain":                    {"a\n  b\n\n    c", "a b\nc"},
		"plain_options":            {"docker run\n  --rm \n    -v x\t\n  - img", "docker run --rm -v x - img"},
		"plain_empty_lines":        {"a\n\n  -b  \n\n\n   c  ", "a\n-b\n\nc"},
		"plain_no_break":           {"a\n  -b#c\n  \u00a0d\u00a0", "a -b#c \u00a0d\u00a0"},
		"plain_dash_alone":         {"a\n  -\n   b", "a - b"},
		"plain_comment":            {"a\n  -b # c", "a -b"},
		"plain_comments":           {"a\n  -b#c # d\n  # e\n\n  # f", "a -b#c"},
		"plain_tabs":               {"a\tb\n  \tc\t\n  d", "a\tb c d"},
		"plain_date":               {"2020-01-01", "2020-01-01"},
		"plain_word":               {"yes", "yes"},
		"plain_signs":              {"<<", "<<"},
		"single":                   {"'a \t\n\n   b ''c'''", "a\nb 'c'"},
		"single_quote_first":       {"'awk ''\n\n  {print}\n\n  '' file'", "awk '\n{print}\n' file"},
		"single_quote_alone":       {"'python3 -c ''\n    print(1)\n  ''\n  && next'", "python3 -c ' print(1) ' && next"},
		"single_quote_ends_a_line": {"'a\n  ''\n  b'", "a ' b"},
		"single_blanks_at_ends":    {"' a  \n  b\n\n  c\n  '", " a b\nc "},
		"single_backslash":         {`'a\tb\'`, `a\tb\`},
		"double":                   {"\"a \t\n  b\\\n  \\  c\n\n  d\"", "a b  c\nd"},
		"double_tabs":              {"\"a\t\tb\"", "a\t\tb"},
		"double_escaped_break":     {"\"a \\\n\n  b\"", "a \nb"},
		"double_escaped_blank":     {"\"a\\ \n  b \\\\\n  c\"", "a  b \\ c"},
		"double_escapes":           {"\"\\x41\\u00e9 é\\\"\n  \\U0001F600\\x00\\\\x4 \\\\U\\/\\\t\\N\\L\"", "Aé é\" 😀\x00\\x4 \\U/\t\u0085\u2028"},
		"double_last_plane":        {`"\U00100000"`, "\U00100000"},
		"literal":                  {"|\n   a\n\n    b \n\n", "a\n\n b \n"},
		"literal_stripped":         {"|-\n  a \n  > \n\n", "a \n> "},
		"literal_stripped_blank":   {"|-\n  a\n    \n", "a\n  "},
		"literal_stripped_one":     {"|-\n  a  \n\n\n", "a  "},
		"literal_kept":             {"|+\n  a \n\n", "a \n\n\n"},
		"literal_indented":         {"|2-\n    a\n  b ", "  a\nb "},
		"literal_tabs":             {"|\n  \t  a\tb\n", "\t  a\tb\n"},
		"literal_comment":          {"| # c\n  a\n# c\n", "a\n"},
		"literal_signs":            {"|\n  # a: b\n  - 'c\n  %d\n", "# a: b\n- 'c\n%d\n"},
		"literal_empty":            {"|\n    \n# c\n", ""},
		"folded":                   {">\n\n  a \n  b\n\n  c\n   d\n\n  e\n", "\na  b\nc\n d\n\ne\n"},
		"folded_stripped":          {">-\n  a\n  b  \n", "a b  "},
		"folded_stripped_blank":    {">-\n  a\n \n  b  ", "a\nb  "},
		"folded_indented":          {">2-\n  a\n  b ", "a b "},
	} {
		for ending, breaks := range map[string]string{"lf": "\n", "crlf": "\r\n", "cr": "\r"} {
			t.Run(name+"_"+ending, func(t *testing.T) {
				const head, indent = "version: 1\ntask: t\ntasks:\n- steps:\n  - write:\n      path: \"p\n        q\"\n      content: ", "\n      "
				text := head + strings.ReplaceAll(c.written, "\n", indent) + "\n  - run: x\n"
				r := reader()
				steps := at(t, r, strings.ReplaceAll(text, "\n", breaks), "tasks", "0", "steps")
				if diff := cmp.Diff(c.want, r.Text(below(t, r, steps, "0", "write", "content"))); diff != "" {
					t.Errorf("content (-want +got):\n%s", diff)
				}
				if got := r.Text(below(t, r, steps, "1", "run")); got != "x" {
					t.Errorf("the next step: got %q", got)
				}
				if err := r.Err(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// Tabs and comments between the elements of a list do not belong to the elements, and a
// colon is a separator only before a space. A backslash outside double quotes is not an
// escape.
func TestList(t *testing.T) {
	for text, want := range map[string][]string{
		"x:\t[a,\t'c\td',\t\"e\tf\",\ti\tj\t,\n    8080:80, # d\n    http://k]\t# g\th\n":              {"a", "c\td", "e\tf", "i\tj", "8080:80", "http://k"},
		"{x: [\"é\\n\",\t\t'\\u1\t\tx', \"\\x41\", '\\u12', a\\users], name:\t\"\\u00e9\"}\t# \"\\x\n": {"é\n", "\\u1\t\tx", "A", "\\u12", "a\\users"},
	} {
		r := reader()
		var got []string
		for _, v := range r.List(at(t, r, text, "x"), "texts", "a text") {
			got = append(got, r.Text(v))
		}
		if diff := cmp.Diff(want, got); diff != "" || r.Err() != nil {
			t.Errorf("List: %v (-want +got):\n%s", r.Err(), diff)
		}
	}
}
