package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
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
	dec := json.NewDecoder(bytes.NewReader(raw))
	for {
		if err := dec.Decode(new(json.RawMessage)); err != nil {
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
			key := isKey(raw, end)
			text := decoded(raw[i : end+1])
			masked := r.literal(text, key, underName)
			if key {
				underName = secretName(text)
			}
			if !bytes.Equal(masked, text) {
				out = append(out, raw[done:i]...)
				out = append(out, quoteJSON(string(masked))...)
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
	return bytes.HasPrefix(bytes.TrimLeft(raw[end+1:], " \t\r\n"), []byte(":"))
}

// decoded gives the text of a literal, or what stands in its quotes where that is no JSON.
func decoded(literal []byte) []byte {
	if bytes.IndexByte(literal, '\\') >= 0 {
		var text string
		if json.Unmarshal(literal, &text) == nil {
			return []byte(text)
		}
	}
	return literal[1 : len(literal)-1]
}

// quoteJSON writes s as a string of JSON in which <, > and & stand as they are.
func quoteJSON(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string can always be encoded, and a builder written
	return strings.TrimSuffix(b.String(), "\n")
}
