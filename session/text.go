package session

import (
	"fmt"
	"strings"
	"unicode"
)

// ShellQuote quotes path as one word of a shell command. Commands in hints use it, so a
// person can copy and run them.
func ShellQuote(path string) string {
	if path != "" && strings.Trim(path, letters+digits+"/._-+=:,@%") == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// Few joins at most the first most names and adds how many more there are.
func Few(names []string, most int) string {
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// LastLines returns the last count lines of text, for display. It keeps at most limit
// bytes of them and puts "…" before a line that it cut. A limit of 0 means no limit.
func LastLines(text string, count, limit int) []string {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	lines = lines[max(0, len(lines)-count):]
	if text = strings.Join(lines, "\n"); limit == 0 || len(text) <= limit {
		return lines
	}
	return strings.Split("…"+strings.ToValidUTF8(text[len(text)-limit:], ""), "\n")
}

// Invisible reports whether a person could not see r in a text. A tab is seen; a line
// break is not.
func Invisible(r rune) bool {
	return r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp)
}
