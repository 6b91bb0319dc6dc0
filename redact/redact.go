// Package redact is the one door that secrets do not pass: whatever is stored, logged or
// shown goes through it first.
//
// Two things are masked: the exact value of every secret that the process can see, also
// in its usual encodings, and text that says by its form or its context that it is a
// secret. The latter rules are narrow, since a general pattern would destroy ids and
// hashes.
//
//	D1  No secret given to New or Learn survives in what String, Bytes or Value return, except in a
//	    field that says so.
//	D2  Redacting twice changes nothing more.
//	D3  What is no secret keeps its bytes.
//	D4  A text has one result, in whatever pieces it comes.
//	D5  What one process learnt another one can know without the values.
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
	// MinSecretBytes is the length below which a value is not looked for: short values
	// occur by chance and masking them would destroy the text around.
	MinSecretBytes = 8

	// shorter secrets show nothing of themselves
	minTailBytes = 12
	tailBytes    = 4
	mark         = "***"

	// maxPasses bounds the search for a text that needs no more masking. A pass makes the
	// text shorter or masks a password in a URL, which is then left alone, so that two
	// passes are the rule and a third one takes contrived input.
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

// New returns a Redactor for exact values, which are found also in base64, also broken
// into lines, in hexadecimal, percent-encoded, backslash-escaped and as shells quote
// them. Values below MinSecretBytes are ignored.
func New(secrets []string) *Redactor {
	go theRules() // a process that starts has something else to do until they are needed
	r := &Redactor{}
	r.Learn(secrets)
	return r
}

// Learn adds exact values to those that New was given. Those that are known cost nothing.
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

// Memory gives fingerprints of all that r knows, made with key, of keyBytes. They tell
// nothing of the values but their lengths to those who do not have the key. They are for
// Remember with this key, also in another process. It is empty where nothing is known.
func (r *Redactor) Memory(key []byte) []byte {
	r.learning.Lock()
	defer r.learning.Unlock()
	r.use(key)
	return r.build().encode()
}

// Remember makes known what Memory with the same key gave. Without a memory it only tells
// the key, which spares making fingerprints with another one first.
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

// use makes key the one of all fingerprints. What was remembered with another one is of
// another store.
func (r *Redactor) use(key []byte) {
	if !bytes.Equal(r.key, key) {
		r.key, r.remembered = slices.Clone(key), nil
		r.exact.Store(nil)
	}
}

// build gives the fingerprints of what r knows. It is called with the lock.
func (r *Redactor) build() *fingerprints {
	if n := r.exact.Load(); n != nil {
		return n
	}
	if r.key == nil {
		r.key = make([]byte, keyBytes)
		_, _ = rand.Read(r.key) // it never fails
	}
	n := newFingerprints(r.key, r.secrets, r.remembered)
	r.exact.Store(n)
	return n
}

// known gives the fingerprints to look for; nil where there is none.
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

// String returns s with every secret masked: "***", and the last 4 characters of a secret
// of 12 bytes or more.
func (r *Redactor) String(s string) string {
	b := []byte(s)
	if out := r.Bytes(b); !same(out, b) {
		return string(out)
	}
	return s
}

// Bytes is String for bytes, which need not be UTF-8. It returns b itself when nothing is
// masked, and never writes to b.
func (r *Redactor) Bytes(b []byte) []byte {
	var p parts
	// nil while nothing is masked
	var out []byte
	known := r.known()
	for done := 0; done < len(b); {
		n, masked := p.take(known, b[done:], true)
		if out == nil && !same(masked, b[done:done+n]) {
			out = append(make([]byte, 0, len(b)), b[:done]...)
		}
		if out != nil {
			out = append(out, masked...)
		}
		done += n
	}
	if out == nil {
		return b
	}
	return out
}

// Changes reports whether Bytes would return something else than b.
func (r *Redactor) Changes(b []byte) bool { return !same(r.Bytes(b), b) }

// same reports whether a and b are one and the same.
func same(a, b []byte) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// span is a part of a text that must not be seen.
type span struct {
	from, to int
	// the last characters may be shown
	tail bool
}

// spans returns what to mask in b, in order and without overlap. Overlapping secrets
// become one span, so that no part of a longer one is left when a shorter one lies inside
// it.
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

func mask(b []byte, found []span) []byte {
	out := make([]byte, 0, len(b))
	at := 0
	for _, s := range found {
		out = append(out, b[at:s.from]...)
		out = append(out, mark...)
		if s.tail && s.to-s.from >= minTailBytes {
			out = append(out, tail(b[s.from:s.to])...)
		}
		at = s.to
	}
	return append(out, b[at:]...)
}

// tail returns the last bytes of b, less the rest of a character that was cut in two.
func tail(b []byte) []byte {
	t := b[len(b)-tailBytes:]
	for len(t) > 0 && !utf8.RuneStart(t[0]) {
		t = t[1:]
	}
	return t
}
