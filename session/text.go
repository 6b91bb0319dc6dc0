package session

import (
	"fmt"
	"strings"
)

// ShellQuote writes a path as one word of the shell, for a command in Next: what is
// copied from there must run.
func ShellQuote(path string) string {
	if path != "" && strings.Trim(path, letters+digits+"/._-+=:,@%") == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// Few names the first of many: at most so many, and how many more there are.
func Few(names []string, most int) string {
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// LastLines gives the end of text as a person is shown it: at most so many lines, and of
// them no more than limit bytes, with "…" before what is left of a line; 0 is no limit.
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
