package plan

import (
	"strings"

	"github.com/goccy/go-yaml/token"
)

// reread gives the text of several lines the value that YAML gives it, where the scanner gives another:
//
//   - from a line without quotes that begins with "-" it keeps line ends, blanks, comments and ": " as they are;
//   - behind a doubled single quote at the beginning of a line it drops blanks, and keeps the line's end;
//   - below "|-" and ">-" it drops the blanks at the end of the last line.
func (g *guard) reread(t *token.Token) (why, next string) {
	switch {
	case t.Type != token.SingleQuoteType && t.Type != token.StringType:
	case g.follows(token.LiteralType), g.follows(token.FoldedType):
		if strings.Contains(g.last.Value, "-") && t.Value != "" && !strings.HasSuffix(t.Value, "\n") {
			t.Value += ending(t.Origin)
		}
	case !strings.Contains(strings.Trim(t.Origin, " \n"), "\n"):
	case t.Type == token.SingleQuoteType:
		_, text, _ := strings.Cut(t.Origin, "'")
		t.Value = strings.ReplaceAll(fold(strings.TrimSuffix(text, "'")), "''", "'")
	default:
		text, more := uncomment(t.Origin)
		if more {
			return "a comment stands within text without quotes", `remove it, or put the text below "run: |"`
		}
		if t.Value = fold(strings.Trim(text, " \t\n")); strings.Contains(t.Value+" ", ": ") {
			return `": " stands within text without quotes`, `indent the keys of a step alike; or put the text into quotes or below "run: |"`
		}
	}
	return "", ""
}

// ending gives the blanks at the end of the last line of text that has anything else.
func ending(text string) string {
	behind := text[len(strings.TrimRight(text, " \n")):]
	return behind[:len(behind)-len(strings.TrimLeft(behind, " "))]
}

// fold joins the lines of a text as YAML does outside of blocks: one line end is a blank, each further one
// stays, and the blanks around them go.
func fold(text string) string {
	var b strings.Builder
	lines := strings.Split(text, "\n")
	breaks := 0
	for i, line := range lines {
		if i > 0 {
			line = strings.TrimLeft(line, " \t")
			breaks++
		}
		if i < len(lines)-1 {
			if line = strings.TrimRight(line, " \t"); line == "" && i > 0 {
				continue
			}
		}
		if breaks == 1 {
			b.WriteByte(' ')
		}
		b.WriteString(strings.Repeat("\n", max(breaks-1, 0)))
		b.WriteString(line)
		breaks = 0
	}
	return b.String()
}

// uncomment cuts a text without quotes off before its first comment, and reports whether more than comments
// follows there.
func uncomment(text string) (before string, more bool) {
	var b strings.Builder
	cut := false
	for line := range strings.Lines(text) {
		at := 0
		for at < len(line) && (line[at] != '#' || at > 0 && line[at-1] != ' ' && line[at-1] != '\t') {
			at++
		}
		more = more || cut && strings.TrimSpace(line[:at]) != ""
		b.WriteString(line[:at])
		cut = cut || at < len(line)
	}
	return b.String(), more
}
