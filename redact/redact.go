// Package redact masks secrets. Every text that is stored, logged or shown goes through
// it first.
//
// It masks two things: the exact value of every secret that the process can see, also
// in its usual encodings, and text whose form or context says that it is a secret. The
// rules of form and context are narrow, because a general pattern would destroy ids and
// hashes.
//
//	D1  No secret given to New or Learn remains in the results of String, Bytes or
//	    Value, except in a field with the tag redact:"-".
//	D2  Redacting a second time changes nothing more.
//	D3  Text that is not a secret keeps its bytes.
//	D4  A text has one result, however it is split into pieces.
//	D5  A process can know the secrets of another one without their values.
//	D6  A mask in a text that its author sends back for a file becomes exactly the bytes
//	    that it hides in that file, or an error. Nothing is guessed.
package redact

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"slices"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

const (
	// MinSecretBytes is the length below which a value is not searched for. Short
	// values occur by chance, and masking them would destroy the text around them.
	MinSecretBytes = 8

	// minTailBytes is the length from which a secret shows its last tailBytes bytes.
	minTailBytes = 12
	tailBytes    = 4
	mark         = "***"

	// maxPasses limits the number of passes over a text. A pass makes the text shorter
	// or masks a password in a URL, which is then left alone. Most texts need two
	// passes, and only contrived ones need a third.
	maxPasses = 32
)

// Redactor masks secrets. It is safe for concurrent use. A nil *Redactor knows no exact
// values and applies the rules of form and context only.
type Redactor struct {
	// nil until they are needed, and after each change
	exact atomic.Pointer[fingerprints]

	learning   sync.Mutex
	key        []byte
	secrets    []string
	remembered []fingerprint
}

// New returns a Redactor for exact values. It also finds them in base64, with or
// without line breaks, in hexadecimal, percent-encoded, backslash-escaped and quoted by
// shells. It ignores values below MinSecretBytes.
func New(secrets []string) *Redactor {
	// build the rules now, while a starting process has other work
	go theRules()
	r := &Redactor{}
	r.Learn(secrets)
	return r
}

// Learn adds exact values to those of New. Values that are known already cost nothing.
func (r *Redactor) Learn(secrets []string) {
	r.learning.Lock()
	defer r.learning.Unlock()
	known := len(r.secrets)
	for _, s := range secrets {
		if !slices.Contains(r.secrets, s) {
			r.secrets = append(r.secrets, s)
		}
	}
	if len(r.secrets) > known {
		r.exact.Store(nil)
	}
}

// Memory returns fingerprints of everything that r knows, made with key, which has
// keyBytes bytes. Without the key they tell only the lengths of the values. Pass them
// to Remember with the same key, also in another process. Memory returns an empty slice
// if r knows nothing.
func (r *Redactor) Memory(key []byte) []byte {
	r.learning.Lock()
	defer r.learning.Unlock()
	r.use(key)
	return r.build().encode()
}

// Remember adds the fingerprints that Memory returned for the same key. With an empty
// memory it only sets the key, so that no fingerprints are made with another key first.
// It returns an error if memory is cut off.
func (r *Redactor) Remember(key, memory []byte) error {
	more, err := decodeFingerprints(memory)
	if err != nil {
		return err
	}
	r.learning.Lock()
	defer r.learning.Unlock()
	r.use(key)
	r.remembered = append(r.remembered, more...)
	if n := r.exact.Load(); n != nil {
		r.exact.Store(n.with(more))
	}
	return nil
}

// use makes key the key of all fingerprints. It forgets fingerprints that were made
// with another key, because they belong to another store.
func (r *Redactor) use(key []byte) {
	if !bytes.Equal(r.key, key) {
		r.key, r.remembered = slices.Clone(key), nil
		r.exact.Store(nil)
	}
}

// build returns the fingerprints of everything that r knows. The caller holds the lock.
func (r *Redactor) build() *fingerprints {
	if n := r.exact.Load(); n != nil {
		return n
	}
	if r.key == nil {
		r.key = make([]byte, keyBytes)
		// rand.Read never fails
		_, _ = rand.Read(r.key)
	}
	n := newFingerprints(r.key, r.secrets, r.remembered)
	r.exact.Store(n)
	return n
}

// known returns the fingerprints to search for, or nil if there are none.
func (r *Redactor) known() *fingerprints {
	if r == nil {
		return nil
	}
	n := r.exact.Load()
	if n == nil {
		r.learning.Lock()
		n = r.build()
		r.learning.Unlock()
	}
	if n.longest == 0 {
		return nil
	}
	return n
}

// String returns s with every secret replaced by "***" and, for a secret of 12 bytes or
// more, its last 4 characters.
func (r *Redactor) String(s string) string {
	b := []byte(s)
	if out := r.Bytes(b); !same(out, b) {
		return string(out)
	}
	return s
}

// Bytes is String for bytes, which need not be UTF-8. It returns b itself if it masks
// nothing, and never writes to b.
func (r *Redactor) Bytes(b []byte) []byte {
	out, _ := r.trace(b)
	return out
}

// trace is Bytes that also returns the masks in its result.
func (r *Redactor) trace(b []byte) ([]byte, []masking) {
	var p parts
	// nil while nothing is masked
	var out []byte
	var masks []masking
	known := r.known()
	for done := 0; done < len(b); {
		n, text, found := p.take(known, b[done:], true)
		if out == nil && len(found) > 0 {
			out = append(make([]byte, 0, len(b)), b[:done]...)
		}
		if out != nil {
			masks = join(masks, found, len(out), done)
			out = append(out, text...)
		}
		done += n
	}
	if out == nil {
		return b, nil
	}
	return out, masks
}

// Changes reports whether Bytes would mask anything in b.
func (r *Redactor) Changes(b []byte) bool { return !same(r.Bytes(b), b) }

// same reports whether a and b are the same slice of memory.
func same(a, b []byte) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// span is a part of a text that must not be seen.
type span struct {
	from, to int
	// the last characters may be shown
	tail bool
}

// spans returns the parts of b to mask, in order and without overlap. It joins
// overlapping secrets, so that no part of a longer one is left when a shorter one lies
// inside it.
func spans(known *fingerprints, b []byte) []span {
	var found []span
	if known != nil {
		found = known.find(b, found)
	}
	found = findByRule(b, found)
	if len(found) < 2 {
		return found
	}
	slices.SortFunc(found, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	merged := found[:1]
	for _, s := range found[1:] {
		last := &merged[len(merged)-1]
		if s.from >= last.to {
			merged = append(merged, s)
			continue
		}
		last.to = max(last.to, s.to)
		last.tail = last.tail && s.tail
	}
	return merged
}

// mask replaces the spans and returns the masks in the result.
func mask(b []byte, found []span) ([]byte, []masking) {
	out := make([]byte, 0, len(b))
	masks := make([]masking, 0, len(found))
	done := 0
	for _, s := range found {
		out = append(out, b[done:s.from]...)
		at := len(out)
		out = append(out, mark...)
		if s.tail && s.to-s.from >= minTailBytes {
			out = append(out, tail(b[s.from:s.to])...)
		}
		masks = append(masks, masking{at: at, end: len(out), from: s.from, to: s.to})
		done = s.to
	}
	return append(out, b[done:]...), masks
}

// tail returns the last bytes of b without the rest of a character that was cut in two.
func tail(b []byte) []byte {
	t := b[len(b)-tailBytes:]
	for len(t) > 0 && !utf8.RuneStart(t[0]) {
		t = t[1:]
	}
	return t
}
