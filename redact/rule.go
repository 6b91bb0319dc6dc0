package redact

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"
	"sync"
)

// class is a set of bytes.
type class [256]bool

func classOf(chars string) (c class) {
	for i := range len(chars) {
		c[chars[i]] = true
	}
	return c
}

const (
	digits   = "0123456789"
	capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	letters  = "abcdefghijklmnopqrstuvwxyz" + capitals
)

// Sets of bytes in tokens. They are never changed.
var (
	digit   = classOf(digits)
	alnum   = classOf(digits + letters)
	upper   = classOf(digits + capitals)
	word    = classOf(digits + letters + "_-")
	wordDot = classOf(digits + letters + "_-.")
	bearer  = classOf(digits + letters + "_-.~+/=")
	base    = classOf(digits + letters + "+/=_-")
	pemBody = classOf(digits + letters + "+/=\\ \t\r\n")
)

// run returns the end of the bytes of c that start at i.
func (c *class) run(b []byte, i int) int {
	for i < len(b) && c[b[i]] {
		i++
	}
	return i
}

// rule finds one form of secret. match is called with the place of one of its words. It
// returns the span, whose end is 0 if there is none. It also returns the place before
// which the rule need not look again. Without that, hostile text would cost the square
// of its length.
type rule struct {
	words []string
	// the words match in upper and lower case
	fold  bool
	match func(b []byte, i int, word string) (s span, seen int)
}

// rules returns the rules for forms and contexts of secrets. Their minimal lengths are
// a little below those of real tokens, and above those of names that only look alike.
func rules() []rule {
	contextWords := telling()
	return append(vendorRules(), []rule{
		token(&alnum, 20, "ghp_", "gho_", "ghs_", "ghu_", "ghr_", "hf_", "npm_"),
		token(&word, 20, "github_pat_", "AIza"),
		token(&word, 16, "glpat-", "sk-ant-", "sk-proj-", "sk-svcacct-", "sk-admin-", "sk-or-v1-"),
		token(&alnum, 20, "sk-"),
		token(&word, 32, "pypi-"),
		token(&alnum, 16, "sk_live_", "rk_live_", "sk_test_", "rk_test_", "whsec_"),
		token(&word, 10, "xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxo-", "xoxe-", "xapp-"),
		{words: []string{"aws_", "github_", "stripe_"}, fold: true, match: matchThreat4},
		{words: []string{"AKIA", "ASIA"}, match: matchAWS},
		token(&wordDot, 33, "SG."),
		{words: []string{"eyJ"}, match: matchJWT},
		{words: []string{keyBegin}, match: matchPrivateKey},
		{words: []string{"bearer"}, fold: true, match: matchBearer},
		{words: []string{"basic "}, fold: true, match: matchBasic},
		{words: []string{"://"}, match: matchURL},
		{words: contextWords[:], fold: true, match: matchContext},
	}...)
}

// ruleSet holds the rules arranged for one pass. The first two bytes of a word lead to
// its rules.
type ruleSet struct {
	rules []rule
	// by pair of bytes: the index of its words in groups, or 0 for none
	group  [1 << 16]uint8
	groups [][]entry
}

type entry struct {
	word string
	rule int
}

// theRules builds the set once. It is never changed.
var theRules = sync.OnceValue(func() *ruleSet {
	set := &ruleSet{rules: rules(), groups: make([][]entry, 1)}
	for i, r := range set.rules {
		for _, w := range r.words {
			pairs := []uint16{pair(w[0], w[1])}
			if r.fold {
				lower, upper := strings.ToLower(w), strings.ToUpper(w)
				pairs = []uint16{pair(lower[0], lower[1]), pair(lower[0], upper[1]), pair(upper[0], lower[1]), pair(upper[0], upper[1])}
			}
			slices.Sort(pairs)
			for _, p := range slices.Compact(pairs) {
				if set.group[p] == 0 {
					set.group[p] = uint8(len(set.groups))
					set.groups = append(set.groups, nil)
				}
				set.groups[set.group[p]] = append(set.groups[set.group[p]], entry{word: w, rule: i})
			}
		}
	}
	return set
})

func pair(a, b byte) uint16 { return uint16(a)<<8 | uint16(b) }

func findByRule(b []byte, found []span) []span {
	set := theRules()
	// by rule; made at the first word that is found
	var seen []int
	for i := 0; i+1 < len(b); i++ {
		group := set.group[pair(b[i], b[i+1])]
		if group == 0 {
			continue
		}
		for _, e := range set.groups[group] {
			if !set.rules[e.rule].has(b[i:], e.word) {
				continue
			}
			if seen == nil {
				seen = make([]int, len(set.rules))
			}
			if i < seen[e.rule] {
				continue
			}
			s, until := set.rules[e.rule].match(b, i, e.word)
			seen[e.rule] = until
			if s.to > s.from {
				found = append(found, s)
			}
		}
	}
	return found
}

func (r *rule) has(b []byte, word string) bool {
	if len(b) < len(word) {
		return false
	}
	if r.fold {
		return strings.EqualFold(string(b[:len(word)]), word)
	}
	return string(b[:len(word)]) == word
}

// starts reports whether a token may start at i. It may start at the start of a word,
// or after an escape sequence whose last letter only seems to belong to it (\n, %3D,
// \u0022, a colour).
func starts(b []byte, i int) bool {
	if i == 0 || !alnum[b[i-1]] && b[i-1] != '_' {
		return true
	}
	for _, esc := range []struct {
		back int
		text string
	}{{2, `\`}, {3, "%"}, {4, `\x`}, {6, `\u`}} {
		if i >= esc.back && bytes.HasPrefix(b[i-esc.back:], []byte(esc.text)) {
			return true
		}
	}
	return b[i-1] == 'm' && endsColour(b[:i-1])
}

// endsColour reports whether b ends in the parameters of a terminal's colour sequence.
func endsColour(b []byte) bool {
	for n := len(b) - 1; n >= 0 && len(b)-n < 20; n-- {
		if b[n] == '[' {
			return true
		}
		if !digit[b[n]] && b[n] != ';' {
			return false
		}
	}
	return false
}

// token returns the rule of a token that is known by its first letters. At least
// atLeast bytes of c must follow them, with a digit or a capital among them.
func token(c *class, atLeast int, prefixes ...string) rule {
	return rule{words: prefixes, match: func(b []byte, i int, prefix string) (span, int) {
		if !starts(b, i) {
			return span{}, i
		}
		body := i + len(prefix)
		end := c.run(b, body)
		// words joined by hyphens have no digit and no capital
		if end-body < atLeast || !bytes.ContainsAny(b[body:end], digits+capitals) {
			return span{}, end
		}
		end = word.run(b, end)
		return span{from: i, to: end, tail: true}, end
	}}
}

// matchThreat4 finds the form of secret that 011.c names: a vendor's name and at least
// 20 letters and digits.
func matchThreat4(b []byte, i int, prefix string) (span, int) {
	end := alnum.run(b, i+len(prefix))
	if end-i-len(prefix) < 20 || !starts(b, i) {
		return span{}, i
	}
	return span{from: i, to: end, tail: true}, end
}

func matchAWS(b []byte, i int, prefix string) (span, int) {
	end := upper.run(b, i)
	if end != i+len(prefix)+16 || !starts(b, i) || end < len(b) && alnum[b[end]] {
		return span{}, i
	}
	return span{from: i, to: end, tail: true}, end
}

// matchJWT finds three parts joined by dots, of which the first two are JSON in base64.
// The signature may be empty.
func matchJWT(b []byte, i int, prefix string) (span, int) {
	if !starts(b, i) {
		return span{}, i
	}
	dot := word.run(b, i)
	if dot-i < 8 || !bytes.HasPrefix(b[dot:], []byte("."+prefix)) {
		return span{}, dot
	}
	second := word.run(b, dot+1)
	if second-dot < 8 || second == len(b) || b[second] != '.' {
		return span{}, dot
	}
	end := wordDot.run(b, second)
	return span{from: i, to: end, tail: true}, end
}

// matchPrivateKey finds a block up to its END line. If the END line is missing, it
// finds everything that can still be key material.
func matchPrivateKey(b []byte, i int, _ string) (span, int) {
	body, closing := keyHead(b, i)
	if body == 0 {
		return span{}, i
	}
	text := b[:min(len(b), body+maxKeyBytes)]
	end := pemBody.run(text, body)
	if at := bytes.Index(text[body:], closing); at >= 0 {
		end = max(end, body+at+len(closing))
		if at < 2*MinSecretBytes {
			return span{}, i
		}
	} else if end-body < 2*MinSecretBytes {
		return span{}, i
	}
	return span{from: i, to: end}, end
}

const keyBegin = "-----BEGIN "

// keyHead reads the line at i that begins a private key. It returns the start of the
// key's body and the line that ends it. body is 0 if no private key begins there.
func keyHead(b []byte, i int) (body int, closing []byte) {
	const headBytes, lineEnd = 64, "-----"
	head := b[i+len(keyBegin) : min(len(b), i+len(keyBegin)+headBytes)]
	head, _, _ = bytes.Cut(head, []byte("\n"))
	stop := bytes.Index(head, []byte(lineEnd))
	if stop < 0 || !bytes.Contains(head[:stop], []byte("PRIVATE KEY")) {
		return 0, nil
	}
	return i + len(keyBegin) + stop + len(lineEnd), []byte("-----END " + string(head[:stop+len(lineEnd)]))
}

// keyOpen reports whether a private key begins in b and its end may follow later.
func keyOpen(b []byte) bool {
	for at := 0; ; at++ {
		i := bytes.Index(b[at:], []byte(keyBegin))
		if i < 0 {
			return false
		}
		at += i
		if body, closing := keyHead(b, at); body > 0 && len(b) < body+maxKeyBytes && !bytes.Contains(b[body:], closing) {
			return true
		}
	}
}

// maxKeyBytes is more than the length of the longest private key in use.
const maxKeyBytes = 32 << 10

// matchBearer finds a token after the word bearer. In prose another word follows, which
// is shorter and has small letters only.
func matchBearer(b []byte, i int, name string) (span, int) {
	from := skipBlank(b, i+len(name))
	end := bearer.run(b, from)
	if from == i+len(name) || end == from || !starts(b, i) {
		return span{}, i
	}
	text := bytes.TrimRight(b[from:end], ".")
	if len(text) < 16 && (len(text) < MinSecretBytes || !bytes.ContainsAny(text[1:], bearerOnly)) {
		return span{}, i
	}
	return span{from: from, to: end, tail: true}, end
}

// bearerOnly has the bytes that a word of prose does not have after its first letter.
const bearerOnly = digits + capitals + "_-.~+/="

// matchBasic finds text that decodes to user:password.
func matchBasic(b []byte, i int, prefix string) (span, int) {
	from := i + len(prefix)
	end := base.run(b, from)
	if end-from < MinSecretBytes || !starts(b, i) {
		return span{}, i
	}
	text := strings.NewReplacer("-", "+", "_", "/", "=", "").Replace(string(b[from:end]))
	plain, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || !bytes.Contains(plain, []byte(":")) {
		return span{}, i
	}
	return span{from: from, to: end}, end
}
