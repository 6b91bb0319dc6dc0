package plan

import (
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"
)

// syntaxHint is the next step of what is no YAML: nearly always it is one of these.
const syntaxHint = `put quotes around text that has ": " in it or begins with a sign; indent with spaces, the keys of a step alike, and text below "run: |" further`

// unused are the parts of YAML that plans do without, each with what to write instead.
var unused = map[string]string{
	"aliases":               `write the value out; put quotes around text that begins with "*"`,
	"anchors":               `write the value out; put quotes around text that begins with "&"`,
	"directives":            `remove the line, or put quotes around text that begins with "%"`,
	`keys written with "?"`: "write the key as key: value",
	"merge keys":            "write the keys out",
	"tags":                  `put quotes around text that begins with "!"`,
}

func (s *source) refuse(at position, part string) error {
	return s.fault(at, part+" are not used in a plan", unused[part])
}

// syntax says what is wrong with a file that is no YAML: usual mistakes in words of our own, where the parser
// says what it was about to do, and the rest in the parser's.
func (s *source) syntax(e *yaml.LoadError) error {
	at, begun := position{e.Mark.Line, e.Mark.Column}, position{e.ContextMark.Line, e.ContextMark.Column}
	if begun.line == 0 {
		begun = at
	}
	before, behind := s.around(at)
	switch about := e.ContextMsg + ": " + e.Message; {
	case strings.Contains(about, "max depth"):
		return s.tooDeep(at)
	case strings.Contains(about, "an alias:"), strings.Contains(about, "unknown anchor"):
		return s.refuse(begun, "aliases")
	case strings.Contains(about, "an anchor:"):
		return s.refuse(begun, "anchors")
	case strings.Contains(about, "directive"):
		return s.refuse(begun, "directives")
	case strings.Contains(about, " tag"):
		return s.refuse(begun, "tags")
	case strings.Contains(about, "mapping keys are not allowed"):
		return s.refuse(at, `keys written with "?"`)
	case strings.Contains(about, "a quoted scalar"):
		return s.quoted(e.Message, at, begun)
	case strings.HasPrefix(behind, "\t"):
		return s.fault(at, "a tab stands where lines are indented", "indent with spaces")
	case strings.Contains(about, "a flow"):
		return s.flow(at, begun, first(behind))
	case strings.HasPrefix(behind, "]"), strings.HasPrefix(behind, "}"):
		return s.fault(at, fmt.Sprintf("%q closes nothing", first(behind)), "")
	case strings.Contains(about, "a simple key"):
		return s.fault(begun, `this is no key: no ": " follows it`, syntaxHint)
	case strings.Contains(about, "mapping values are not allowed"):
		return s.value(at, before)
	case strings.Contains(about, "entries are not allowed"):
		return s.fault(at, `"- " cannot begin here`, syntaxHint)
	case strings.Contains(about, "cannot start any token"):
		return s.fault(at, fmt.Sprintf("text without quotes cannot begin with %q", first(behind)), "put quotes around it")
	case strings.Contains(about, "a block scalar: did not find"):
		return s.fault(at, `text of several lines begins on the line below "|" or ">"`, "")
	case strings.Contains(about, "a block"):
		return s.block(at, before)
	}
	return s.fault(at, e.Message, syntaxHint)
}

// around gives what stands before and behind a place on its line.
func (s *source) around(at position) (before, behind string) {
	line := []rune(string(s.line(at.line)))
	column := min(at.column-1, len(line))
	return string(line[:column]), string(line[column:])
}

// first gives the first character of text; empty when there is none.
func first(text string) string {
	for i := range text {
		if i > 0 {
			return text[:i]
		}
	}
	return text
}

// escape is what stands for a character in double quotes, or for none.
const escape = `^\\(?:x[[:graph:]]{0,2}|u[[:graph:]]{0,4}|U[[:graph:]]{0,8}|[[:print:]]?)`

// quoted names what is wrong in the quotes that were begun.
func (s *source) quoted(message string, at, begun position) error {
	next := `write \\ for a backslash, or put the text into single quotes or below "run: |"`
	switch message {
	case "found unexpected end of stream", "found unexpected document indicator":
		_, quote := s.around(begun)
		return s.fault(begun, fmt.Sprintf("this %s is never closed", first(quote)), `close it; within single quotes '' is one of them, within double quotes \"`)
	case "found invalid Unicode character escape code":
		next = "write the character itself, or " + strings.TrimPrefix(next, "write ")
		fallthrough
	case "did not find expected hexadecimal number":
		at.column -= len(`\u`)
	}
	_, text := s.around(at)
	return s.fault(at, regexp.MustCompile(escape).FindString(text)+" in double quotes is no character", next)
}

// flow names what is wrong in the brackets that were begun, in front of the character next.
func (s *source) flow(at, begun position, next string) error {
	_, behind := s.around(begun)
	switch open := first(behind); {
	case open != "[" && open != "{":
		return s.fault(at, "a value is missing here", syntaxHint)
	case next == "":
		return s.fault(begun, fmt.Sprintf("this %q is never closed", open), "")
	case next == "]" || next == "}":
		return s.fault(at, fmt.Sprintf("%q does not close the %q of line %d", next, open, begun.line), "")
	default:
		return s.fault(at, fmt.Sprintf("a comma, or the end of the %q of line %d, is missing before this", open, begun.line), syntaxHint)
	}
}

// value names what is wrong with a ":" before which no key can stand.
func (s *source) value(at position, before string) error {
	if strings.Contains(before, ": ") {
		return s.fault(at, `": " stands in text without quotes`, `put quotes around the text, or write it below "run: |"`)
	}
	at.column = 1 + len(before) - len(strings.TrimLeft(before, " "))
	return s.fault(at, "this key is indented further than the line above allows", syntaxHint)
}

// block names what is wrong with what stands where a key or an entry is expected.
func (s *source) block(at position, before string) error {
	if strings.TrimSpace(before) != "" {
		return s.fault(at, "this stands behind the end of a value", "put quotes around all of the text; '' is a quote within single quotes")
	}
	if above := s.line(at.line - 1); strings.Contains(" "+string(above), " #") {
		return s.fault(at, "a comment stands within text without quotes", `remove it, or put the text below "run: |"`)
	}
	return s.fault(at, "this line is indented like none above it", syntaxHint)
}
