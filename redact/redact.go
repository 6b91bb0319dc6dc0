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
package redact

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

const (
	// MinSecretBytes is the length below which a value is not looked for: short values
	// occur by chance and masking them would destroy the text around.
	MinSecretBytes = 8

	minTailBytes = 12 // shorter secrets show nothing of themselves
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
	exact atomic.Pointer[needles] // nil when there is no exact value to look for

	learning sync.Mutex
	secrets  []string
}

// New returns a Redactor for exact values, which are found also in base64, also broken into
// lines, in hexadecimal, percent-encoded, backslash-escaped and as shells quote them. Values
// below MinSecretBytes are ignored.
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
	if len(r.secrets) == known {
		return
	}
	r.exact.Store(newNeedles(r.secrets))
}

// Within returns the exact values that b holds in one of their forms, each once.
func (r *Redactor) Within(b []byte) []string {
	if r == nil || r.exact.Load() == nil {
		return nil
	}
	exact := r.exact.Load()
	var out []string
	exact.each(b, func(_ int, m *needle) { out = append(out, m.of) })
	slices.Sort(out)
	return slices.Compact(out)
}

// String returns s with every secret masked: "***", and the last 4 characters of a secret
// of 12 bytes or more.
func (r *Redactor) String(s string) string {
	b := []byte(s)
	if !r.Changes(b) {
		return s
	}
	return string(r.Bytes(b))
}

// Bytes is String for bytes, which need not be UTF-8. It returns b itself when nothing is
// masked, and never writes to b.
func (r *Redactor) Bytes(b []byte) []byte {
	for range maxPasses {
		found := r.spans(b)
		if len(found) == 0 {
			break
		}
		b = mask(b, found)
	}
	return b
}

// Changes reports whether Bytes would return something else than b.
func (r *Redactor) Changes(b []byte) bool { return len(r.spans(b)) > 0 }

// span is a part of a text that must not be seen.
type span struct {
	from, to int
	tail     bool // the last characters may be shown
}

// spans returns what to mask in b, in order and without overlap. Overlapping secrets
// become one span, so that no part of a longer one is left when a shorter one lies inside
// it.
func (r *Redactor) spans(b []byte) []span {
	var found []span
	if r != nil {
		if exact := r.exact.Load(); exact != nil {
			found = exact.find(b, found)
		}
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
