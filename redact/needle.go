package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// needles finds many exact values in one pass (Wu and Manber): the last two bytes of a
// window of MinSecretBytes say how far it can move on, mostly all of its length.
type needles struct {
	shift   []uint8              // by pair of bytes
	byTail  map[uint16][]*needle // those whose window ends in the pair
	allText map[string]struct{}  // to know each form once
}

type needle struct {
	text []byte
	tail bool
}

func newNeedles(secrets []string) *needles {
	n := &needles{allText: map[string]struct{}{}, byTail: map[uint16][]*needle{}}
	secrets = slices.Clone(secrets)
	// Shorter secrets first: a form that two of them share then hides its tail.
	slices.SortFunc(secrets, func(a, b string) int { return len(a) - len(b) })
	for _, s := range secrets {
		for _, v := range []string{s, strings.TrimSpace(s)} {
			if len(v) >= MinSecretBytes {
				n.addForms(v)
			}
		}
		n.addKeyLines(s)
	}
	if len(n.allText) == 0 {
		return nil
	}
	return n
}

// addKeyLines adds the lines of a key in PEM form, which programs print one by one.
func (n *needles) addKeyLines(s string) {
	if !strings.Contains(s, "-----BEGIN ") {
		return
	}
	for line := range strings.Lines(s) {
		line = strings.TrimSpace(line)
		if len(line) >= 2*MinSecretBytes && !strings.HasPrefix(line, "-----") {
			n.add(line, true)
		}
	}
}

func (n *needles) addForms(s string) {
	showTail := len(s) >= minTailBytes
	for _, form := range forms(s) {
		n.add(form, showTail)
	}
}

// forms lists how s may be written.
func forms(s string) []string {
	valid := string([]rune(s)) // what encoders make of bytes that are no UTF-8
	out := []string{s, valid, hex.EncodeToString([]byte(s)), strings.ToUpper(hex.EncodeToString([]byte(s)))}
	for _, esc := range []string{url.QueryEscape(s), url.PathEscape(s), percentAll(s)} {
		out = append(out, esc, lowerPercent(esc))
	}
	for _, plain := range []string{s, valid} {
		once := escapes(plain)
		out = append(out, once...)
		for _, e := range once {
			out = append(out, escapes(e)...) // a document inside a document
		}
	}
	for skip := range 3 {
		out = append(out, base64At(base64.RawStdEncoding, s, skip), base64At(base64.RawURLEncoding, s, skip))
	}
	return out
}

// escapes gives s as it stands inside a quoted string of JSON or of Go.
func escapes(s string) []string {
	var plain bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string can always be encoded, and a buffer written
	html, _ := json.Marshal(s)
	inner := func(q string) string { return q[1 : len(q)-1] }
	return []string{inner(strings.TrimSuffix(plain.String(), "\n")), inner(string(html)),
		inner(strconv.Quote(s)), inner(strconv.QuoteToASCII(s))}
}

// base64At encodes s as it would stand inside a longer text after skip bytes more than a
// multiple of three, less the characters that also depend on its neighbours.
func base64At(enc *base64.Encoding, s string, skip int) string {
	text := enc.EncodeToString([]byte(strings.Repeat("\x00", skip) + s))
	from := []int{0, 2, 3}[skip]
	to := (skip + len(s)) / 3 * 4
	return text[from:to]
}

// percentAll escapes each byte that is no letter or digit, as some encoders do.
func percentAll(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if alnum[s[i]] {
			b.WriteByte(s[i])
			continue
		}
		b.WriteString("%" + strings.ToUpper(hex.EncodeToString([]byte{s[i]})))
	}
	return b.String()
}

func lowerPercent(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], bytes.ToLower(b[i+1:i+3]))
			i += 2
		}
	}
	return string(b)
}

func (n *needles) add(text string, showTail bool) {
	if _, known := n.allText[text]; known || len(text) < MinSecretBytes {
		return
	}
	if n.shift == nil {
		n.shift = bytes.Repeat([]byte{MinSecretBytes - 1}, 1<<16)
	}
	n.allText[text] = struct{}{}
	for i := range MinSecretBytes - 1 {
		p := pair(text[i], text[i+1])
		n.shift[p] = min(n.shift[p], uint8(MinSecretBytes-2-i))
	}
	p := pair(text[MinSecretBytes-2], text[MinSecretBytes-1])
	n.byTail[p] = append(n.byTail[p], &needle{text: []byte(text), tail: showTail})
}

func pair(a, b byte) uint16 { return uint16(a)<<8 | uint16(b) }

func (n *needles) find(b []byte, found []span) []span {
	for i := 0; i+MinSecretBytes <= len(b); {
		p := pair(b[i+MinSecretBytes-2], b[i+MinSecretBytes-1])
		if s := n.shift[p]; s > 0 {
			i += int(s)
			continue
		}
		for _, needle := range n.byTail[p] {
			if bytes.HasPrefix(b[i:], needle.text) {
				found = append(found, span{from: i, to: i + len(needle.text), tail: needle.tail})
			}
		}
		i++
	}
	return found
}
