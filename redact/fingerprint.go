package redact

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"maps"
	"slices"
	"strings"
)

// fingerprint tells one form of a secret from other texts without its value. Its hashes
// of the first and the last MinSecretBytes are so short that many texts share them.
// Only the MAC decides.
type fingerprint struct {
	size  uint32
	first uint32
	last  uint32
	flags uint8
	// HMAC-SHA256 of the whole form
	mac [16]byte
}

const (
	// the last characters may be shown
	showsTail = 1 << iota
	// the form has a line end
	hasLines
	// the first line end is in the first MinSecretBytes
	endsEarly
)

// keyBytes is the length of a key of fingerprints, in bytes.
const keyBytes = 32

// fingerprints finds many secrets in one pass over a text. It hashes MinSecretBytes at
// each place.
type fingerprints struct {
	key []byte
	// parameters of the hash
	add     uint64
	times   uint64
	byFirst map[uint32][]fingerprint
	// one bit for the first 16 bits of each hash in byFirst
	filter  [1 << 10]uint64
	longest int
	// flags of all fingerprints together
	flags uint8
}

func newFingerprints(key []byte, secrets []string, more []fingerprint) *fingerprints {
	n := &fingerprints{key: key, byFirst: map[uint32][]fingerprint{}}
	sum := sha256.Sum256(append([]byte("window"), key...))
	n.add, n.times = binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])|1
	m := hmac.New(sha256.New, key)
	known := map[string]bool{}
	// Shorter secrets come first, so that a form that two secrets share hides its tail.
	secrets = slices.SortedFunc(slices.Values(secrets), func(a, b string) int { return len(a) - len(b) })
	for _, s := range secrets {
		for _, v := range []string{s, strings.TrimSpace(s)} {
			if len(v) < MinSecretBytes {
				continue
			}
			for _, form := range append(forms(v), keyLines(v)...) {
				// a line end around the secret is not masked
				form = strings.Trim(form, "\r\n")
				if !known[form] && len(form) >= MinSecretBytes {
					known[form] = true
					n.enter(n.of(m, form, len(v) >= minTailBytes))
				}
			}
		}
	}
	return n.with(more)
}

// with returns n and more together. It does not change n.
func (n *fingerprints) with(more []fingerprint) *fingerprints {
	c := *n
	c.byFirst = maps.Clone(n.byFirst)
	for _, f := range more {
		c.enter(f)
	}
	return &c
}

// keyLines returns the lines of a key in PEM form, which programs print one by one.
func keyLines(s string) (out []string) {
	if !strings.Contains(s, "-----BEGIN ") {
		return nil
	}
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); len(line) >= 2*MinSecretBytes && !strings.HasPrefix(line, "-----") {
			out = append(out, line)
		}
	}
	return out
}

// of returns the fingerprint of a form.
func (n *fingerprints) of(m hash.Hash, form string, tail bool) fingerprint {
	b := []byte(form)
	f := fingerprint{size: uint32(len(b)), first: n.hash(b), last: n.hash(b[len(b)-MinSecretBytes:]), mac: macOf(m, b)}
	if tail {
		f.flags |= showsTail
	}
	switch at := strings.IndexByte(form, '\n'); {
	case at >= MinSecretBytes:
		f.flags |= hasLines
	case at >= 0:
		f.flags |= hasLines | endsEarly
	}
	return f
}

func macOf(m hash.Hash, b []byte) (out [16]byte) {
	m.Reset()
	m.Write(b)
	copy(out[:], m.Sum(nil))
	return out
}

// hash returns 24 bits for the first MinSecretBytes of b.
func (n *fingerprints) hash(b []byte) uint32 {
	return uint32((binary.LittleEndian.Uint64(b) ^ n.add) * n.times >> 40)
}

// enter adds f. If f is known already, its tail is shown only if both may show it.
func (n *fingerprints) enter(f fingerprint) {
	n.longest, n.flags = max(n.longest, int(f.size)), n.flags|f.flags
	same := slices.Clone(n.byFirst[f.first])
	if i := slices.IndexFunc(same, func(g fingerprint) bool { return g.size == f.size && g.mac == f.mac }); i >= 0 {
		same[i].flags &= f.flags | ^uint8(showsTail)
	} else {
		same = append(same, f)
	}
	n.byFirst[f.first] = same
	n.filter[f.first>>14] |= 1 << (f.first >> 8 & 63)
}

// find adds to found the places in b where a secret is.
func (n *fingerprints) find(b []byte, found []span) []span {
	var m hash.Hash
	for i := 0; i+MinSecretBytes <= len(b); i++ {
		h := n.hash(b[i:])
		if !n.has(h) {
			continue
		}
		for _, f := range n.byFirst[h] {
			end := i + int(f.size)
			if end > len(b) || n.hash(b[end-MinSecretBytes:]) != f.last {
				continue
			}
			if m == nil {
				m = hmac.New(sha256.New, n.key)
			}
			if macOf(m, b[i:end]) == f.mac {
				found = append(found, span{from: i, to: end, tail: f.flags&showsTail != 0})
			}
		}
	}
	return found
}

// has reports whether byFirst may have h.
func (n *fingerprints) has(h uint32) bool { return n.filter[h>>14]&(1<<(h>>8&63)) != 0 }

// open reports whether a secret of several lines may begin within the first part bytes
// of b and end after them. If a secret has the flag endsEarly, open needs
// MinSecretBytes of b after that part.
func (n *fingerprints) open(b []byte, part int) bool {
	if n == nil || n.flags&hasLines == 0 {
		return false
	}
	if !n.startsLine() {
		b = b[:part]
	}
	for i := max(0, part-n.longest); i < part && i+MinSecretBytes <= len(b); i++ {
		for _, f := range n.byFirst[n.hash(b[i:])] {
			if f.flags&hasLines != 0 && i+int(f.size) > part {
				return true
			}
		}
	}
	return false
}

// startsLine reports whether a secret has a line end in its first MinSecretBytes.
func (n *fingerprints) startsLine() bool { return n != nil && n.flags&endsEarly != 0 }

const fingerprintBytes = 4 + 4 + 4 + 1 + 16

// encode returns the fingerprints in the form of Remember, in a fixed order.
func (n *fingerprints) encode() []byte {
	var all [][]byte
	for _, same := range n.byFirst {
		for _, f := range same {
			b := binary.BigEndian.AppendUint32(make([]byte, 0, fingerprintBytes), f.size)
			b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, f.first), f.last)
			all = append(all, append(append(b, f.flags), f.mac[:]...))
		}
	}
	slices.SortFunc(all, bytes.Compare)
	return bytes.Join(all, nil)
}

func decodeFingerprints(b []byte) ([]fingerprint, error) {
	if len(b)%fingerprintBytes != 0 {
		return nil, errors.New("the fingerprints of secrets are truncated")
	}
	var out []fingerprint
	for f := range slices.Chunk(b, fingerprintBytes) {
		out = append(out, fingerprint{
			size: max(binary.BigEndian.Uint32(f), MinSecretBytes), first: binary.BigEndian.Uint32(f[4:]) & (1<<24 - 1),
			last: binary.BigEndian.Uint32(f[8:]), flags: f[12], mac: [16]byte(f[13:]),
		})
	}
	return out, nil
}
