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

// MaskError says why a mask cannot be replaced by what it stands for.
type MaskError struct {
	// Mask is the mask, or what looks like one. It is empty if the text to replace is
	// part of a secret.
	Mask string
	// Line is the line of the mask in the text, from 1. If Mask is empty, it is the line
	// of the secret in the original.
	Line int
	// Several says that the mask stands for more than one value.
	Several bool
}

// Error implements error. It shows no secret.
func (e *MaskError) Error() string {
	switch {
	case e.Mask == "":
		return fmt.Sprintf("the text to replace also occurs inside a masked secret on line %d of the file", e.Line)
	case e.Several:
		return fmt.Sprintf("the mask %q on line %d stands for more than one value of the file", e.Mask, e.Line)
	}
	return fmt.Sprintf("the mask %q on line %d stands for nothing in the file", e.Mask, e.Line)
}

// Original returns the original of what Bytes returns for text. The caller does not
// change text afterwards.
func (r *Redactor) Original(text []byte) *Original {
	o := &Original{text: text, known: map[string]bool{}, sizes: map[int][]int{}, values: map[string]meaning{}}
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

// token returns the longest known mask with which s begins, or else what could be a mask
// of another file: a row of asterisks and the rest of a word.
func (o *Original) token(s string) string {
	row := stars(s)
	for _, n := range o.sizes[row] {
		if n <= len(s) && o.known[s[:n]] && (s[n-1] != '*' || n == len(s) || s[n] != '*') {
			return s[:n]
		}
	}
	end := row
	for row <= mostStars && end < len(s) && end < row+tailBytes && s[end] > ' ' && s[end] != '*' && !quote(s[end]) {
		end++
	}
	return s[:end]
}

// mostStars is the greatest number of asterisks in a row that one mask can have. Only
// its last characters can be asterisks of the secret.
const mostStars = len(mark) + tailBytes

// Restore replaces each mask in text by the bytes that it stands for, and returns a text
// without masks as it is. A text of the original that looks like a mask stands for
// itself. So does a row of more asterisks than a mask can have, unless it is part of a
// mask of the original. Restore returns a *MaskError for a mask that does not stand for
// exactly one value of the original.
func (o *Original) Restore(text string) (string, error) {
	var b strings.Builder
	done := 0
	for at, token := range o.tokens(text) {
		v, ok := o.values[token]
		if !ok && strings.Trim(token, "*") == "" && len(token) > mostStars {
			continue
		}
		if !ok || v.doubt {
			return "", &MaskError{Mask: token, Line: 1 + strings.Count(text[:at], "\n"), Several: ok}
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
// a *MaskError without a mask if the text also occurs in a part of a secret, because the
// author of the edit did not see that place.
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
			return "", &MaskError{Line: 1 + bytes.Count(o.text[:from], []byte("\n"))}
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
