package terminal

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes s harmless and visible on one line (T1). Control characters, invalid bytes,
// and characters that reorder or hide text become escapes like \x1b.
func Clean(s string) string { return clean(s, "") }

// CleanLines is Clean for text of several lines. It keeps newlines and tabs, and drops a
// carriage return before a newline.
func CleanLines(s string) string {
	return clean(strings.ReplaceAll(s, "\r\n", "\n"), "\n\t")
}

// cleanLine is Clean for one line of a file or of the output of a command. It keeps tabs.
func cleanLine(s string) string { return clean(s, "\t") }

// cleanText is Clean for text of several lines. It indents each line but the first, so
// that no line looks like one of acode.
func cleanText(s, indent string) string {
	lines := textLines(s)
	for i, l := range lines {
		lines[i] = cleanLine(l)
	}
	return strings.Join(lines, "\n"+indent)
}

// textLines returns the lines of a text. The last line may lack its newline.
func textLines(s string) []string { return strings.Split(strings.TrimRight(s, "\n"), "\n") }

func clean(s, keep string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !unsafeRune(r) || strings.ContainsRune(keep, r):
			b.WriteString(s[i : i+n])
		default:
			b.WriteString(escape(r))
		}
		i += n
	}
	return b.String()
}

// unsafeRune reports whether r could control a terminal or deceive a reader. The two
// joiners are safe, because scripts and emoji need them.
func unsafeRune(r rune) bool {
	if r < 0x7f {
		return r < ' '
	}
	joins := r == '\u200c' || r == '\u200d'
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && !joins
}

func escape(r rune) string {
	switch {
	case r == '\n', r == '\r', r == '\t':
		return strings.Trim(strconv.QuoteRune(r), "'")
	case r < 0x100:
		return fmt.Sprintf(`\x%02x`, r)
	case r < 0x10000:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

// shorten cuts clean text to at most width columns. Cut text ends with ellipsis.
func shorten(s string, width int, ellipsis string) string {
	if columns(s) <= width {
		return s
	}
	room := width - columns(ellipsis)
	if room < 0 {
		return ""
	}
	used := 0
	for i, r := range s {
		if used += runeColumns(r); used > room {
			return s[:i] + ellipsis
		}
	}
	return s
}

// columns returns how many columns s takes. Escape sequences for colours take none.
func columns(s string) int {
	n, colour := 0, false
	for _, r := range s {
		if colour = colour || r == '\x1b'; !colour {
			n += runeColumns(r)
		}
		colour = colour && r != 'm'
	}
	return n
}

// runeColumns estimates the columns of a character. The estimate for East Asian
// characters and emoji is never less than usual terminals take, because a live line that
// wraps could not be erased.
func runeColumns(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me) || r == '\u200c' || r == '\u200d':
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2600 && r <= 0x27bf, r >= 0x2e80 && r <= 0xa4cf,
		r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff, r >= 0xfe30 && r <= 0xfe6f,
		r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6, r >= 0x1f000:
		return 2
	}
	return 1
}

// pad fills s with spaces to width columns.
func pad(s string, width int) string {
	if n := width - columns(s); n > 0 {
		return s + strings.Repeat(" ", n)
	}
	return s
}
