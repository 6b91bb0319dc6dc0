package plan

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"
)

// escaped refuses the escapes of double quotes that are none: the scanner takes whatever stands behind \x,
// \u and \U for digits, so that "C:\users" lost four letters to a character that nobody wrote.
func (g *guard) escaped(t *token.Token) (why, next string) {
	g.pass(t)
	if t.Type != token.DoubleQuoteType || !strings.Contains(t.Origin, `\`) {
		return "", ""
	}
	text := g.quoted(place(t))
	for at := bytes.IndexByte(text, '\\'); at >= 0 && at+1 < len(text); at = bytes.IndexByte(text, '\\') {
		text = text[at:]
		n, ok := escape(text)
		if !ok {
			return fmt.Sprintf("%s in double quotes is no character", printable(string(text[:min(n, len(text))]))),
				`write \\ for a backslash, or put the text into single quotes or below "run: |"`
		}
		text = text[n:]
	}
	return "", ""
}

// quoted gives what stands behind the double quotes that open at p, up to the closing ones.
func (g *guard) quoted(p position) []byte {
	g.reach(p, '"')
	text := g.src.text[min(g.offset+1, len(g.src.text)):]
	for end := 0; end < len(text); end++ {
		switch text[end] {
		case '\\':
			end++
		case '"':
			return text[:end]
		}
	}
	return text
}

// reach goes on to the quotes that open at p. In its columns the scanner does not count the tabs between two
// tokens.
func (g *guard) reach(p position, quote byte) {
	text := g.src.text
	for ; g.reached.line < p.line; g.reached.line++ {
		g.offset += bytes.IndexByte(text[g.offset:], '\n') + 1
		g.reached.column = 1
	}
	for ; g.offset < len(text) && (g.reached.column < p.column || text[g.offset] != quote); g.offset++ {
		if text[g.offset] != '\t' && utf8.RuneStart(text[g.offset]) {
			g.reached.column++
		}
	}
}

// pass goes behind single quotes with tabs, which the scanner counts.
func (g *guard) pass(t *token.Token) {
	_, text, _ := strings.Cut(t.Origin, "'")
	if t.Type == token.SingleQuoteType && strings.Contains(text, "\t") && !strings.Contains(text, "\n") {
		g.reach(place(t), '\'')
		g.offset = min(g.offset+1+len(text), len(g.src.text))
		g.reached.column += 1 + utf8.RuneCountInString(text)
	}
}

// escape gives the length of the escape that text begins with, and whether there is such a character. Which
// letters may follow the backslash is the scanner's to say.
func escape(text []byte) (n int, ok bool) {
	switch text[1] {
	case 'x':
		n = 4
	case 'u':
		n = 6
	case 'U':
		n = 10
	default:
		return 2, true
	}
	r, ok := hexadecimal(text, n)
	if text[1] == 'u' && utf16.IsSurrogate(r) && len(text) > n+1 && string(text[n:n+2]) == `\u` {
		low, _ := hexadecimal(text[n:], n)
		n, r = 2*n, utf16.DecodeRune(r, low)
		return n, r != utf8.RuneError
	}
	return n, ok && utf8.ValidRune(r)
}

// hexadecimal reads what stands behind two characters, up to the n-th.
func hexadecimal(text []byte, n int) (rune, bool) {
	if len(text) < n {
		return 0, false
	}
	v, err := strconv.ParseUint(string(text[2:n]), 16, 31)
	return rune(v), err == nil
}
