package redact

import (
	"bytes"
	"slices"
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
	of   string // the secret
}

func newNeedles(secrets []string) *needles {
	n := &needles{allText: map[string]struct{}{}, byTail: map[uint16][]*needle{}}
	secrets = slices.Clone(secrets)
	// Shorter secrets first: a form that two of them share then hides its tail.
	slices.SortFunc(secrets, func(a, b string) int { return len(a) - len(b) })
	for _, s := range secrets {
		for _, v := range []string{s, strings.TrimSpace(s)} {
			if len(v) >= MinSecretBytes {
				n.addForms(v, s)
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
			n.add(line, true, s)
		}
	}
}

// addForms adds the forms of s, which is secret but for blanks around it.
func (n *needles) addForms(s, secret string) {
	showTail := len(s) >= minTailBytes
	for _, form := range forms(s) {
		n.add(form, showTail, secret)
	}
}

func (n *needles) add(text string, showTail bool, secret string) {
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
	n.byTail[p] = append(n.byTail[p], &needle{text: []byte(text), tail: showTail, of: secret})
}

func pair(a, b byte) uint16 { return uint16(a)<<8 | uint16(b) }

func (n *needles) find(b []byte, found []span) []span {
	n.each(b, func(i int, m *needle) {
		found = append(found, span{from: i, to: i + len(m.text), tail: m.tail})
	})
	return found
}

// each calls do with each place in b at which a needle stands.
func (n *needles) each(b []byte, do func(i int, m *needle)) {
	for i := 0; i+MinSecretBytes <= len(b); {
		p := pair(b[i+MinSecretBytes-2], b[i+MinSecretBytes-1])
		if s := n.shift[p]; s > 0 {
			i += int(s)
			continue
		}
		for _, needle := range n.byTail[p] {
			if bytes.HasPrefix(b[i:], needle.text) {
				do(i, needle)
			}
		}
		i++
	}
}
