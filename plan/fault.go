package plan

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"

	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
)

// hint is the next step of an error that has no better one.
const hint = "correct the plan file and run the command again; acode schema plan prints the format"

// source is the file under examination.
type source struct {
	name  string
	text  []byte   // valid UTF-8 once Parse has begun to read it
	lines [][]byte // nil until split is called
	bare  bool     // errors do not show the text: it may hold secrets
}

// position counts lines and columns from 1; a column is a code point.
type position struct{ line, column int }

// fault makes the error for a place: the message, then the source line with a caret.
func (s *source) fault(at position, message, next string) error {
	if next == "" {
		next = hint
	}
	return &session.Error{
		Code:    session.ErrPlan,
		Message: message + s.excerpt(at),
		Place:   fmt.Sprintf("%s:%d:%d", s.name, at.line, at.column),
		Next:    next,
	}
}

// excerptWidth is how many code points stand before and after the caret at most.
const excerptWidth = 60

// excerpt shows the line of a place with a caret below it. What cannot be printed becomes a
// replacement character, so that a plan cannot steer the terminal through its own error. Secrets
// are masked before the line is cut, which would leave parts that nobody recognises.
func (s *source) excerpt(at position) string {
	if s.bare {
		return ""
	}
	line := []rune(string(s.line(at.line)))
	column := min(max(at.column-1, 0), len(line))
	if r := redact.New(nil); r.Changes([]byte(string(line))) {
		column = len([]rune(r.String(string(line[:column]))))
		line = []rune(r.String(string(line)))
		column = min(column, len(line))
	}
	from, to := max(column-excerptWidth, 0), min(column+excerptWidth, len(line))
	var shown, under strings.Builder
	if from > 0 {
		shown.WriteString("…")
		under.WriteString(" ")
	}
	for i, r := range line[from:to] {
		blank := " "
		switch {
		case r == '\t':
			blank = "\t"
		case !unicode.IsPrint(r):
			r = unicode.ReplacementChar
		case unicode.In(r, unicode.Mn, unicode.Me):
			blank = ""
		case wide(r):
			blank = "  "
		}
		shown.WriteRune(r)
		if from+i < column {
			under.WriteString(blank)
		}
	}
	if to < len(line) {
		shown.WriteString("…")
	}
	label := fmt.Sprintf("%4d", at.line)
	return fmt.Sprintf("\n%s | %s\n%s | %s^", label, shown.String(), strings.Repeat(" ", len(label)), under.String())
}

// wide reports whether terminals give r two columns, as they do for East Asian text and emoji.
func wide(r rune) bool {
	return r >= 0x1f300 || r >= 0xff01 && r <= 0xff60 || r >= 0x3000 && r <= 0x303e ||
		unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}

// line gives line n, counted from 1, without its end; empty when there is none.
func (s *source) line(n int) []byte {
	if lines := s.split(); n > 0 && n <= len(lines) {
		return lines[n-1]
	}
	return nil
}

// split gives all lines. Few plans need them: they are found when first asked for.
func (s *source) split() [][]byte {
	if s.lines == nil {
		s.lines = bytes.Split(s.text, []byte("\n"))
	}
	return s.lines
}
