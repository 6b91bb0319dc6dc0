package redact

import (
	"bytes"
	"strings"
)

// maxQuotedBytes is how far the end of a quoted value is searched for.
const maxQuotedBytes = 16 << 10

// matchURL finds the password of scheme://user:password@host, of any length.
func matchURL(b []byte, i int, prefix string) (span, int) {
	from := i + len(prefix)
	end, at, colon := from, -1, -1
	for ; end < len(b) && !bytes.ContainsRune([]byte("/?#\"'`<>\\ \t\r\n"), rune(b[end])); end++ {
		switch {
		case b[end] == '@':
			at = end
		case b[end] == ':' && colon < 0:
			colon = end
		}
	}
	if i == 0 || !alnum[b[i-1]] || colon < 0 || at <= colon+1 {
		return span{}, i
	}
	if v := b[colon+1 : at]; placeholder(v) {
		return span{}, i
	}
	return span{from: colon + 1, to: at, tail: true}, end
}

// matchContext finds the value after a name that stands for a secret, as in
// password=value, "api_key": "value" or token: value.
func matchContext(b []byte, i int, word string) (span, int) {
	end := skipNameEnd(b, i+len(word))
	at := skipBlank(b, skipQuote(b, end))
	bare := end == len(b) || !quote(b[end]) && b[end] != '\\'
	sep := at
	for at < len(b) && at < sep+2 && (b[at] == ':' || b[at] == '=' || at > sep && b[at] == '>') {
		at++
	}
	if at == sep {
		return span{}, i
	}
	at = skipBlank(b, at)
	from, to := value(b, at)
	if to-from < MinSecretBytes && !(bare && to > from && quoted(b, from, to)) {
		return span{}, i
	}
	if notSecret(b[from:to]) || bytes.HasPrefix(b[sep:], []byte(":=")) && calls(b[from:to]) {
		return span{}, to
	}
	return span{from: from, to: to, tail: true}, to
}

// calls reports whether v begins with a call, as in tokens := strings.Split(text, ",").
// The name of a variable then only looks like that of a secret.
func calls(v []byte) bool {
	name, _, ok := bytes.Cut(v, []byte("("))
	return ok && len(name) > 0 && bytes.Trim(name, letters+digits+"_.") == nil
}

// skipNameEnd skips the rest of a name after the word that tells of a secret:
// secret_key, tokens.
func skipNameEnd(b []byte, i int) int {
	end := i
	for end < len(b) && end < i+16 && (alnum[b[end]] || b[end] == '_' || b[end] == '-') {
		end++
	}
	if nameEnd(string(b[i:end])) {
		return end
	}
	return i
}

func nameEnd(s string) bool {
	switch strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s)) {
	case "", "s", "key", "keys", "accesskey", "value", "base64":
		return true
	}
	return false
}

// secretName reports whether a key of a document names a secret.
func secretName(name []byte) bool {
	for i := range name {
		for _, w := range telling() {
			end := i + len(w)
			if end <= len(name) && strings.EqualFold(string(name[i:end]), w) && nameEnd(string(name[end:])) {
				return true
			}
		}
	}
	return false
}

// telling returns the words that make a name the name of a secret.
func telling() [15]string {
	return [15]string{"api_key", "api-key", "apikey", "password", "passwd", "token", "secret", "credential",
		"access_key", "access-key", "accesskey", "account_key", "accountkey", "signing_key", "encryption_key"}
}

// quoted reports whether the value from from to to is in quotes. A quoted value is a
// secret however short it is. In a document even flags have quotes, but there the names
// have them too.
func quoted(b []byte, from, to int) bool {
	return quote(b[from-1]) && to < len(b) && b[to] == b[from-1]
}

func skipQuote(b []byte, i int) int {
	for i < len(b) && b[i] == '\\' {
		i++
	}
	if i < len(b) && quote(b[i]) {
		i++
	}
	return i
}

func quote(c byte) bool { return c == '"' || c == '\'' || c == '`' }

func skipBlank(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t') {
		i++
	}
	return i
}

// value returns the bounds of the value at i, without its quotes.
func value(b []byte, i int) (from, to int) {
	open := skipQuote(b, i)
	if open == i || !quote(b[open-1]) {
		return i, bareEnd(b, i)
	}
	// A quote of a document inside a document has depth backslashes before it. Inside
	// its text each backslash is doubled, and the quote adds as many as its own depth.
	depth, slashes := open-1-i, 0
	line := b[open:min(len(b), open+maxQuotedBytes)]
	for at := 0; at < len(line) && line[at] != '\n'; at++ {
		switch {
		case depth == 0 && slashes == 0 && line[at] == b[open-1] && at > 0 && at+1 < len(line) && line[at+1] == b[open-1]:
			// a doubled quote belongs to the value
			at++
			continue
		case line[at] == '\\':
			slashes++
			continue
		case line[at] == b[open-1] && slashes%(2*depth+2) == depth:
			return open, open + at - depth
		}
		slashes = 0
	}
	return open, bareEnd(b, open)
}

// bareEnd returns the end of a value without quotes. A comma, semicolon or ampersand
// ends the value only if the next pair or nothing follows, because passwords contain
// these characters too.
func bareEnd(b []byte, i int) int {
	for ; i < len(b); i++ {
		c := b[i]
		if c <= ' ' || quote(c) || c == '\\' && i+1 < len(b) && (quote(b[i+1]) || b[i+1] == 'n') {
			return i
		}
		if (c == ',' || c == ';' || c == '&') && pairFollows(b, i+1) {
			return i
		}
	}
	return i
}

func pairFollows(b []byte, i int) bool {
	if i == len(b) || b[i] <= ' ' || quote(b[i]) {
		return true
	}
	end := i
	for end < len(b) && end < i+64 && word[b[end]] {
		end++
	}
	return end > i && end < len(b) && (b[end] == '=' || b[end] == ':')
}

// notSecret reports whether v is not a secret although it is in the place of one. It is
// then a placeholder for a secret, or an id or a hash.
func notSecret(v []byte) bool { return placeholder(v) || identity(v) }

// placeholder reports whether v is ${NAME}, $NAME, $(command), <text>, {{text}}, or
// masked already.
func placeholder(v []byte) bool {
	s := string(v)
	switch {
	case s == "" || strings.Trim(s, "*") == "":
		return true
	case strings.HasPrefix(s, mark) && len(s) <= len(mark)+tailBytes:
		return true
	case strings.HasPrefix(s, "$("):
		return true
	case strings.HasPrefix(s, "${") && strings.HasSuffix(s, "}"),
		strings.HasPrefix(s, "{{") && strings.HasSuffix(s, "}}"),
		strings.HasPrefix(s, "<") && strings.HasSuffix(s, ">"):
		return strings.Trim(s, letters+digits+"_-. ${}<>") == ""
	}
	return s[0] == '$' && strings.Trim(s[1:], capitals+"_") == ""
}

// identity reports whether v is a UUID or a SHA-256. These name things and are not
// secret.
func identity(v []byte) bool {
	s := strings.TrimRight(string(v), ".,;:)]}")
	for _, algorithm := range []string{"sha256:", "sha256-"} {
		if strings.HasPrefix(s, algorithm) {
			return true
		}
	}
	switch len(s) {
	case 64:
		return strings.Trim(s, "0123456789abcdefABCDEF") == ""
	case 36:
		return s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' &&
			strings.Trim(s, "0123456789abcdefABCDEF-") == ""
	}
	return false
}
