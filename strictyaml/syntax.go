package strictyaml

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// syntaxHint is the next step for a file that is not YAML. Nearly every such mistake is
// one of these.
const syntaxHint = `put quotes around text that has ": " in it or begins with a sign; indent with spaces, the keys of a mapping alike, and text below "key: |" further`

// unused maps the parts of YAML that are refused to the replacement.
var unused = map[string]string{
	"aliases":               `write the value out; put quotes around text that begins with "*"`,
	"anchors":               `write the value out; put quotes around text that begins with "&"`,
	"directives":            `remove the line, or put quotes around text that begins with "%"`,
	`keys written with "?"`: "write the key as key: value",
	"merge keys":            "write the keys out",
	"tags":                  `put quotes around text that begins with "!"`,
}

func (r *Reader) refuse(at Position, part string) error {
	return r.fault(at, unused[part], "%s are not used in a %s", part, r.Format.Name)
}

// syntax describes the error in a file that is not YAML. It uses its own words for common
// mistakes, because the parser describes its own state. For other mistakes it uses the
// words of the parser.
func (r *Reader) syntax(e *yaml.LoadError) error {
	at, begun := Position{e.Mark.Line, e.Mark.Column}, Position{e.ContextMark.Line, e.ContextMark.Column}
	if begun.Line == 0 {
		begun = at
	}
	before, behind := r.around(at)
	switch about := e.ContextMsg + ": " + e.Message; {
	case strings.Contains(about, "max depth"):
		return r.tooDeep(at)
	case strings.Contains(about, "an alias:"), strings.Contains(about, "unknown anchor"):
		return r.refuse(begun, "aliases")
	case strings.Contains(about, "an anchor:"):
		return r.refuse(begun, "anchors")
	case strings.Contains(about, "directive"):
		return r.refuse(begun, "directives")
	case strings.Contains(about, " tag"):
		return r.refuse(begun, "tags")
	case strings.Contains(about, "mapping keys are not allowed"):
		return r.refuse(at, `keys written with "?"`)
	case strings.Contains(about, "a quoted scalar"):
		return r.quoted(e.Message, at, begun)
	case strings.HasPrefix(behind, "\t"):
		return r.fault(at, "indent with spaces", "a tab is used for indentation")
	case strings.Contains(about, "a flow"):
		return r.flow(at, begun, first(behind))
	case strings.HasPrefix(behind, "]"), strings.HasPrefix(behind, "}"):
		return r.fault(at, "", "%q closes nothing", first(behind))
	case strings.Contains(about, "a simple key"):
		return r.fault(begun, syntaxHint, `this is not a key, because no ": " follows it`)
	case strings.Contains(about, "mapping values are not allowed"):
		return r.value(at, before)
	case strings.Contains(about, "entries are not allowed"):
		return r.fault(at, syntaxHint, `"- " cannot begin here`)
	case strings.Contains(about, "cannot start any token"):
		return r.fault(at, "put quotes around it", "text without quotes cannot begin with %q", first(behind))
	case strings.Contains(about, "a block scalar: did not find"):
		return r.fault(at, "", `text of several lines begins on the line below "|" or ">"`)
	case strings.Contains(about, "a block"):
		return r.block(at, before)
	}
	return r.fault(at, syntaxHint, "%s", e.Message)
}

// around returns the text before and after a place on its line.
func (r *Reader) around(at Position) (before, behind string) {
	line := []rune(r.line(at.Line))
	column := min(at.Column-1, len(line))
	return string(line[:column]), string(line[column:])
}

// first returns the first character of text, or "" if there is none.
func first(text string) string {
	_, n := utf8.DecodeRuneInString(text)
	return text[:n]
}

// escape matches an escape in double quotes, valid or not.
const escape = `^\\(?:x[[:graph:]]{0,2}|u[[:graph:]]{0,4}|U[[:graph:]]{0,8}|[[:print:]]?)`

// quoted describes the error in the quotes that begin at begun.
func (r *Reader) quoted(message string, at, begun Position) error {
	next := `write \\ for a backslash, or put the text into single quotes or below "key: |"`
	switch message {
	case "found unexpected end of stream", "found unexpected document indicator":
		_, quote := r.around(begun)
		return r.fault(begun, `close it; write '' for a quote within single quotes, and \" for a quote within double quotes`, "this %s is never closed", first(quote))
	case "found invalid Unicode character escape code":
		next = "write the character itself, or " + strings.TrimPrefix(next, "write ")
		fallthrough
	case "did not find expected hexadecimal number":
		at.Column -= len(`\u`)
	}
	_, text := r.around(at)
	return r.fault(at, next, "%s in double quotes is not a character", regexp.MustCompile(escape).FindString(text))
}

// flow describes the error in the brackets that begin at begun, before the character
// next.
func (r *Reader) flow(at, begun Position, next string) error {
	_, behind := r.around(begun)
	switch open := first(behind); {
	case open != "[" && open != "{":
		return r.fault(at, syntaxHint, "a value is missing here")
	case next == "":
		return r.fault(begun, "", "this %q is never closed", open)
	case next == "]" || next == "}":
		return r.fault(at, "", "%q does not close the %q of line %d", next, open, begun.Line)
	default:
		return r.fault(at, syntaxHint, "a comma, or the end of the %q of line %d, is missing before this", open, begun.Line)
	}
}

// value describes the error of a ":" that does not follow a key.
func (r *Reader) value(at Position, before string) error {
	if strings.Contains(before, ": ") {
		return r.fault(at, `put quotes around the text, or write it below "key: |"`, `text without quotes contains ": "`)
	}
	at.Column = 1 + len(before) - len(strings.TrimLeft(before, " "))
	return r.fault(at, syntaxHint, "this key is indented further than the line above allows")
}

// block describes the error of text in the place of a key or an entry.
func (r *Reader) block(at Position, before string) error {
	if strings.TrimSpace(before) != "" {
		return r.fault(at, "put quotes around all of the text; '' is a quote within single quotes", "this follows the end of a value")
	}
	if above := r.line(at.Line - 1); strings.Contains(" "+above, " #") {
		return r.fault(at, `remove it, or put the text below "key: |"`, "text without quotes contains a comment")
	}
	return r.fault(at, syntaxHint, "the indentation of this line matches no line above it")
}
