package redact

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Original is a text before it was masked. It puts back what the masks in another text
// stand for, if the author of that text saw this one masked. It is safe for concurrent
// use.
type Original struct {
	r      *Redactor
	text   []byte
	masked []byte
	masks  []masking
	known  map[string]bool
	// sizes has the lengths of the known masks, the longest first, by the number of
	// asterisks that they begin with.
	sizes map[int][]int
	// values has what masks stand for, and texts that only look like masks.
	values map[string]meaning
}

// meaning is what a mask stands for.
type meaning struct {
	text []byte
	// doubt says that the mask also stands for something else.
	doubt bool
}

// HasMask reports whether text has what looks like a mask.
func HasMask(text string) bool { return strings.Contains(text, mark) }

// MaskError says why a text with masks cannot be written.
type MaskError struct {
	Reason Reason
	// Mask is the mask, or what looks like one. It is empty for SecretTouched.
	Mask string
	// Line is a line of the text that was sent, from 1. It is a line of the original for
	// SecretTouched, and a line of the result for SecretShown.
	Line int
}

// Reason is a reason for a MaskError.
type Reason int

const (
	// MaskUnknown means that the mask stands for nothing in the original.
	MaskUnknown Reason = iota + 1
	// MaskAmbiguous means that the mask stands for more than one value of the original.
	MaskAmbiguous
	// SecretTouched means that a text to replace occurs in a part of a secret.
	SecretTouched
	// SecretShown means that a masked value would no longer be masked in the result.
	SecretShown
)

// Error implements error. It shows no secret.
func (e *MaskError) Error() string {
	switch e.Reason {
	case MaskAmbiguous:
		return fmt.Sprintf("the mask %q on line %d stands for more than one value of the file", e.Mask, e.Line)
	case SecretTouched:
		return fmt.Sprintf("the text to replace also occurs in a part of the masked secret on line %d of the file", e.Line)
	case SecretShown:
		return fmt.Sprintf("line %d of the result would show the secret that is masked as %q", e.Line, e.Mask)
	}
	return fmt.Sprintf("the mask %q on line %d stands for nothing in the file", e.Mask, e.Line)
}

// Original returns the original of what Bytes returns for text. The caller does not
// change text afterwards.
func (r *Redactor) Original(text []byte) *Original {
	o := &Original{r: r, text: text, known: map[string]bool{}, sizes: map[int][]int{}, values: map[string]meaning{}}
	o.masked, o.masks = r.trace(text)
	o.learnMasks()
	for at, token := range o.tokens(string(o.masked)) {
		from, whole := o.place(at)
		to, ends := o.place(at + len(token))
		v := meaning{doubt: true}
		if whole && ends {
			v = meaning{text: text[from:to]}
		}
		if old, ok := o.values[token]; ok && (old.doubt || !bytes.Equal(old.text, v.text)) {
			v.doubt = true
		}
		o.values[token] = v
	}
	return o
}

// learnMasks fills known with the masks of the masked text. A mask that touches an
// asterisk includes it, so that a mask begins and ends where a row of asterisks does.
func (o *Original) learnMasks() {
	star := func(i int) bool { return i >= 0 && i < len(o.masked) && o.masked[i] == '*' }
	for i := 0; i < len(o.masks); {
		at, end := o.masks[i].at, o.masks[i].end
		for star(at - 1) {
			at--
		}
		for i++; ; {
			for star(end-1) && star(end) {
				end++
			}
			if i == len(o.masks) || o.masks[i].at >= end {
				break
			}
			end = max(end, o.masks[i].end)
			i++
		}
		if token := string(o.masked[at:end]); !o.known[token] {
			o.known[token] = true
			o.sizes[stars(token)] = append(o.sizes[stars(token)], end-at)
		}
	}
	for row, sizes := range o.sizes {
		slices.Sort(sizes)
		sizes = slices.Compact(sizes)
		slices.Reverse(sizes)
		o.sizes[row] = sizes
	}
}

// stars returns the number of asterisks that s begins with.
func stars(s string) int { return len(s) - len(strings.TrimLeft(s, "*")) }

// place returns the place in the original for one in the masked text. ok is false inside
// a mask.
func (o *Original) place(at int) (from int, ok bool) {
	i, _ := slices.BinarySearchFunc(o.masks, at, func(m masking, at int) int { return m.end - at })
	// the masks before i end before at
	if i < len(o.masks) && o.masks[i].end == at {
		i++
	}
	if i < len(o.masks) && o.masks[i].at < at {
		return 0, false
	}
	if i == 0 {
		return at, true
	}
	return at + o.masks[i-1].to - o.masks[i-1].end, true
}

// tokens returns what looks like a mask in text, with its place.
func (o *Original) tokens(text string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for at := 0; ; {
			next := strings.Index(text[at:], mark)
			if next < 0 {
				return
			}
			at += next
			token := o.token(text[at:])
			if !yield(at, token) {
				return
			}
			at += len(token)
		}
	}
}

// token returns the longest known mask with which s begins, or else a row of asterisks.
// If it is shorter than a mask can be, the token has the rest of the word too, because
// that could be the end of a mask of another file.
func (o *Original) token(s string) string {
	row := stars(s)
	end := row
	for _, n := range o.sizes[row] {
		if n <= len(s) && o.known[s[:n]] && (s[n-1] != '*' || n == len(s) || s[n] != '*') {
			end = n
			break
		}
	}
	for end < len(s) && end < maskBytes && !delimiter(s[end]) {
		end++
	}
	return s[:end]
}

// delimiter reports whether c ends the word after a row of asterisks.
func delimiter(c byte) bool {
	return c <= ' ' || quote(c) || strings.IndexByte("*@,;&)]}<>|\\", c) >= 0
}

// maskBytes is the length of the longest mask, apart from masks that are joined. It is
// also the greatest number of asterisks that one has in a row.
const maskBytes = len(mark) + tailBytes

// Restore replaces each mask in text by the bytes that it stands for, and returns a text
// without masks as it is. A text of the original that looks like a mask stands for
// itself. So does a row of more asterisks than a mask can have, unless it is part of a
// mask of the original. A mask without visible characters of its secret counts only
// with the rest of the word after it, because that could be the end of another mask.
// Restore returns a *MaskError for a mask that does not stand for exactly one value of
// the original (D6).
func (o *Original) Restore(text string) (string, error) {
	var b strings.Builder
	done := 0
	for at, token := range o.tokens(text) {
		v, ok := o.values[token]
		if !ok && strings.Trim(token, "*") == "" && len(token) > maskBytes {
			continue
		}
		if !ok || v.doubt {
			reason := MaskUnknown
			if ok {
				reason = MaskAmbiguous
			}
			return "", &MaskError{Reason: reason, Mask: token, Line: 1 + strings.Count(text[:at], "\n")}
		}
		b.WriteString(text[done:at])
		b.Write(v.text)
		done = at + len(token)
	}
	if done == 0 {
		return text, nil
	}
	b.WriteString(text[done:])
	return b.String(), nil
}

// RestoreOld is Restore for a text that an edit searches for in the original. It returns
// SecretTouched if the text also occurs in a part of a secret, because the author of the
// edit did not see that place.
func (o *Original) RestoreOld(text string) (string, error) {
	old, err := o.Restore(text)
	if err != nil || old == "" || len(o.masks) == 0 {
		return old, err
	}
	sought := []byte(old)
	for from := 0; ; from++ {
		next := bytes.Index(o.text[from:], sought)
		if next < 0 {
			return old, nil
		}
		from += next
		if o.inside(from) || o.inside(from+len(sought)) {
			return "", &MaskError{Reason: SecretTouched, Line: 1 + bytes.Count(o.text[:from], []byte("\n"))}
		}
	}
}

// inside reports whether a place in the original lies between two bytes of a secret.
func (o *Original) inside(at int) bool {
	i, _ := slices.BinarySearchFunc(o.masks, at, func(m masking, at int) int { return m.to - at })
	if i < len(o.masks) && o.masks[i].to == at {
		i++
	}
	return i < len(o.masks) && o.masks[i].from < at
}

// Hides returns a *MaskError if result, which is the original after a change, would show
// a value that the original masks. That happens if a change gives a secret another name
// or place, where no rule finds it. sent is the new text as its author sent it; the
// author knows the values in it. As everywhere, values below MinSecretBytes are not
// searched for.
func (o *Original) Hides(result []byte, sent string) error {
	hidden := prefixed{}
	// true for a value that the author knows
	known := map[string]bool{}
	for _, m := range o.masks {
		v := string(o.text[m.from:m.to])
		if _, ok := known[v]; !ok && len(v) >= MinSecretBytes {
			known[v] = false
			start := [MinSecretBytes]byte([]byte(v))
			hidden[start] = append(hidden[start], v)
		}
	}
	if len(hidden) == 0 {
		return nil
	}
	for _, text := range [][]byte{o.masked, []byte(sent)} {
		for _, v := range hidden.find(text) {
			known[v] = true
		}
	}
	shown := o.r.Bytes(result)
	for at, v := range hidden.find(shown) {
		if !known[v] {
			masked, _ := mask([]byte(v), []span{{to: len(v), tail: true}})
			return &MaskError{Reason: SecretShown, Mask: string(masked), Line: 1 + bytes.Count(shown[:at], []byte("\n"))}
		}
	}
	return nil
}

// prefixed has values by their first MinSecretBytes.
type prefixed map[[MinSecretBytes]byte][]string

// find returns the places of values in text.
func (p prefixed) find(text []byte) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for at := 0; at+MinSecretBytes <= len(text); at++ {
			for _, v := range p[[MinSecretBytes]byte(text[at:])] {
				if bytes.HasPrefix(text[at:], []byte(v)) && !yield(at, v) {
					return
				}
			}
		}
	}
}
