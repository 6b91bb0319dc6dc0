package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// forms returns the ways in which s may be written.
func forms(s string) []string {
	// Encoders replace bytes that are not UTF-8 by one mark each, or by one mark for
	// several in a row.
	plains := slices.Compact([]string{s, string([]rune(s)), strings.ToValidUTF8(s, "\ufffd")})
	out := append(plains, hex.EncodeToString([]byte(s)), strings.ToUpper(hex.EncodeToString([]byte(s))))
	out = slices.Concat(out, percents(s), shellQuotes(s), base64Lines(s))
	for _, plain := range plains {
		once := escapes(plain)
		out = append(out, once...)
		for _, e := range once {
			if strings.Contains(e, "/") {
				// as PHP writes it
				out = append(out, strings.ReplaceAll(e, "/", `\/`))
			}
			// a document inside a document
			out = append(out, escapes(e)...)
		}
	}
	for skip := range 3 {
		out = append(out, base64At(base64.RawStdEncoding, s, skip), base64At(base64.RawURLEncoding, s, skip))
	}
	return out
}

// escapes returns s as it is written inside a quoted string of JSON or Go.
func escapes(s string) []string {
	// a string can always be encoded
	html, _ := json.Marshal(s)
	inner := func(q string) string { return q[1 : len(q)-1] }
	text := inner(quoteJSON(s))
	out := []string{text, inner(string(html)), inner(strconv.Quote(s)), inner(strconv.QuoteToASCII(s)), asciiOnly(text)}
	slices.Sort(out)
	// most texts have one form, s itself
	return slices.Compact(out)
}

// quoteJSON returns s as a string of JSON in which <, > and & are not escaped.
func quoteJSON(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	// a string can always be encoded, and a builder always written
	_ = enc.Encode(s)
	return strings.TrimSuffix(b.String(), "\n")
}

// asciiOnly escapes the non-ASCII characters of a JSON string, as Python and PHP do.
func asciiOnly(text string) string {
	if !strings.ContainsFunc(text, func(c rune) bool { return c >= utf8.RuneSelf }) {
		return text
	}
	var b strings.Builder
	for _, c := range text {
		if c < utf8.RuneSelf {
			b.WriteRune(c)
			continue
		}
		for _, half := range utf16.Encode([]rune{c}) {
			fmt.Fprintf(&b, `\u%04x`, half)
		}
	}
	return b.String()
}

// shellQuotes returns s as a shell's trace shows it. It has one form for each way to
// write a quote inside quotes, and one with a backslash before each special character,
// as printf %q of bash writes it.
func shellQuotes(s string) (out []string) {
	for _, quote := range []string{`'\''`, `'"'"'`} {
		out = append(out, strings.ReplaceAll(s, "'", quote))
	}
	var b strings.Builder
	for i := range len(s) {
		if s[i] < utf8.RuneSelf && !alnum[s[i]] && !strings.ContainsRune("@%_+=:./-", rune(s[i])) {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return append(out, b.String())
}

// base64Lines returns the lines of s in base64 as base64(1) and openssl break it, for s
// alone and for s as a line of text. It returns nothing for a text that fits in one
// line, which forms finds already.
func base64Lines(s string) (out []string) {
	for _, text := range []string{s, s + "\n"} {
		encoded := base64.StdEncoding.EncodeToString([]byte(text))
		for _, width := range []int{76, 64} {
			if len(encoded) <= width {
				continue
			}
			for line := range slices.Chunk([]byte(encoded), width) {
				out = append(out, string(line))
			}
		}
	}
	return out
}

// base64At encodes s as part of a longer text in which skip bytes, more than a multiple
// of three, come before it. It omits the characters that also depend on the bytes
// around s.
func base64At(enc *base64.Encoding, s string, skip int) string {
	text := enc.EncodeToString([]byte(strings.Repeat("\x00", skip) + s))
	from := []int{0, 2, 3}[skip]
	to := (skip + len(s)) / 3 * 4
	return text[from:to]
}

// percents returns s in percent-encoding. Encoders differ in the characters that they
// leave as they are, and in case.
func percents(s string) (out []string) {
	// RFC 3986
	const unreserved = "-_.~"
	for _, keep := range []string{"", unreserved, unreserved + "/", unreserved + "!*'()", unreserved + "!*'();/?:@&=+$,#",
		unreserved + "$&+:=@", unreserved + " "} {
		for _, signs := range []string{"0123456789ABCDEF", "0123456789abcdef"} {
			b := make([]byte, 0, 3*len(s))
			for i := range len(s) {
				switch c := s[i]; {
				case c == ' ' && strings.HasSuffix(keep, " "):
					b = append(b, '+') // as a query has it
				case alnum[c] || strings.IndexByte(keep, c) >= 0:
					b = append(b, c)
				default:
					b = append(b, '%', signs[c>>4], signs[c&15])
				}
			}
			out = append(out, string(b))
		}
	}
	return out
}
