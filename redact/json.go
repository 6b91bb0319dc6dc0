package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON masks secrets inside the strings of a JSON document, or of several in a row,
// however they are escaped. The string under a key that names a secret is masked as a
// whole. Numbers, structure and every string without a secret keep their bytes, as do
// keys of lower-case words, which belong to a format and not to a person. It returns raw
// itself when nothing changes; what is no JSON is treated as Bytes would.
func (r *Redactor) JSON(raw []byte) []byte {
	out, changed := r.strings(raw)
	if !changed && !r.Changes(raw) {
		return raw
	}
	if validJSON(raw) {
		return out
	}
	out = r.Bytes(raw)
	if validJSON(out) { // what made it invalid was masked: now its escapes count
		out, _ = r.strings(out)
	}
	return out
}

func validJSON(raw []byte) bool {
	if json.Valid(raw) {
		return true
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	for {
		var doc json.RawMessage
		if err := dec.Decode(&doc); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// strings replaces the string literals of raw that contain secrets. It returns raw itself
// when there are none, or when a literal does not end.
func (r *Redactor) strings(raw []byte) (out []byte, changed bool) {
	done := 0          // raw is copied up to here
	underName := false // the value that comes next stands under a telling key
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '{', '}', ']':
			underName = false
		case '"':
			end := literalEnd(raw, i)
			if end == len(raw) {
				return raw, false
			}
			lit := raw[i+1 : end]
			key := isKey(raw, end)
			text := unescape(lit)
			masked := r.literal(text, key, underName)
			if key {
				underName = secretName(text)
			}
			if !bytes.Equal(masked, text) {
				out = append(out, raw[done:i]...)
				out = appendQuoted(out, masked)
				done, changed = end+1, true
			}
			i = end
		}
	}
	if !changed {
		return raw, false
	}
	return append(out, raw[done:]...), true
}

// literal masks one decoded string.
func (r *Redactor) literal(text []byte, key, underName bool) []byte {
	switch {
	case key && formatName(text):
		return text
	case !key && underName && len(text) >= MinSecretBytes && !notSecret(text):
		whole := span{from: 0, to: len(text), tail: true}
		for _, s := range r.spans(text) {
			whole.tail = whole.tail && s.tail
		}
		return r.Bytes(mask(text, []span{whole}))
	}
	return r.Bytes(text)
}

// formatName reports whether a key is made of lower-case words. Masking one would make a
// record unreadable because somebody's password is the name of a field.
func formatName(key []byte) bool {
	for _, c := range key {
		if c != '_' && (c < 'a' || c > 'z') {
			return false
		}
	}
	return len(key) <= 32
}

// literalEnd returns the place of the quote that ends the literal at i, or len(raw).
func literalEnd(raw []byte, i int) int {
	for i++; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(raw)
}

func isKey(raw []byte, end int) bool {
	for end++; end < len(raw); end++ {
		switch raw[end] {
		case ' ', '\t', '\r', '\n':
		default:
			return raw[end] == ':'
		}
	}
	return false
}

// unescape decodes the inside of a literal. Unlike encoding/json it keeps bytes that are
// no UTF-8, so that a secret with such bytes is still found.
func unescape(lit []byte) []byte {
	if bytes.IndexByte(lit, '\\') < 0 {
		return lit
	}
	out := make([]byte, 0, len(lit))
	for i := 0; i < len(lit); i++ {
		if lit[i] != '\\' || i+1 == len(lit) {
			out = append(out, lit[i])
			continue
		}
		i++
		switch lit[i] {
		case 'n':
			out = append(out, '\n')
		case 't':
			out = append(out, '\t')
		case 'r':
			out = append(out, '\r')
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'u':
			c, n := unicodeEscape(lit[i-1:])
			out = utf8.AppendRune(out, c)
			i += n - 2
		default:
			out = append(out, lit[i])
		}
	}
	return out
}

// unicodeEscape decodes \uXXXX, or two that are halves of one character, at the start of
// b and says how many bytes it took.
func unicodeEscape(b []byte) (rune, int) {
	c, ok := hex4(b)
	if !ok {
		return utf8.RuneError, 2
	}
	if utf16.IsSurrogate(c) {
		if low, ok := hex4(b[6:]); ok {
			if both := utf16.DecodeRune(c, low); both != utf8.RuneError {
				return both, 12
			}
		}
		return utf8.RuneError, 6
	}
	return c, 6
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(n), err == nil
}

func appendQuoted(out, text []byte) []byte {
	const hexDigits = "0123456789abcdef"
	out = append(out, '"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c == '\n':
			out = append(out, `\n`...)
		case c == '\t':
			out = append(out, `\t`...)
		case c == '\r':
			out = append(out, `\r`...)
		case c < ' ':
			out = append(out, `\u00`...)
			out = append(out, hexDigits[c>>4], hexDigits[c&15])
		default:
			out = append(out, c)
		}
	}
	return append(out, '"')
}
