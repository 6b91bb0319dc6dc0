package redact

import (
	"net/url"
	"slices"
	"strings"
)

// FromEnvironment returns the secrets of an environment in the form of os.Environ: the
// values of variables whose names say so, and the passwords in URLs and connection
// strings of any variable. Names that say where a secret lies (…_FILE, …_SOCK) hold none.
func FromEnvironment(environ []string) []string {
	var out []string
	for _, kv := range environ {
		name, v, ok := strings.Cut(kv, "=")
		if !ok || v == "" {
			continue
		}
		if SecretName(name) {
			out = append(out, v)
		}
		out = append(out, passwords(v)...)
	}
	out = slices.DeleteFunc(out, func(v string) bool { return len(v) < MinSecretBytes })
	slices.Sort(out)
	return slices.Compact(out)
}

// SecretName reports whether the name of a variable says that its value is a secret. It
// judges the parts of the name, so that XAUTHORITY or GIT_AUTHOR is none.
func SecretName(name string) bool {
	name = strings.ToUpper(name)
	switch name {
	case "PWD", "OLDPWD", "ACODE_IDEMPOTENCY_KEY":
		return false // directories, and a name that each command is meant to pass on
	}
	parts := strings.FieldsFunc(name, func(c rune) bool { return c == '_' || c == '-' || c == '.' })
	if len(parts) == 0 {
		return false
	}
	switch parts[len(parts)-1] {
	case "SOCK", "FILE", "PATH", "DIR", "HOME", "NAME", "TYPE", "MODE", "METHOD", "TTL", "URL", "HOST", "PORT":
		return false
	}
	return slices.ContainsFunc(parts, secretPart)
}

func secretPart(part string) bool {
	switch part = strings.TrimSuffix(part, "S"); part {
	case "PAS", "AUTH", "DSN", "JWT", "PAT", "COOKIE", "AUTHORIZATION":
		return true // PAS is PASS without its last letter
	}
	for _, end := range []string{"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PWD", "CREDENTIAL"} {
		if strings.HasSuffix(part, end) {
			return true
		}
	}
	return false
}

// passwords returns those of URLs and the values of password=… and its kin in v, as in a
// connection string, a query or a list with semicolons: as written and decoded.
func passwords(v string) (out []string) {
	lower := lowerASCII(v)
	for _, word := range []string{"://", "password", "passwd", "pwd", "secret", "accountkey", "sharedaccesskey", "token"} {
		for from := 0; ; {
			at := strings.Index(lower[from:], word)
			if at < 0 {
				break
			}
			from += at + len(word)
			secret := keywordValue(v, from)
			if word == "://" {
				s, _ := matchURL([]byte(v), from-len(word), word)
				secret = v[s.from:s.to]
			}
			out = append(out, secret)
			if plain, err := url.PathUnescape(secret); err == nil {
				out = append(out, plain)
			}
		}
	}
	return out
}

// lowerASCII keeps the length, which strings.ToLower does not for every text.
func lowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// keywordValue reads = and a value at i.
func keywordValue(v string, i int) string {
	b := []byte(v)
	i = skipBlank(b, i)
	if i == len(v) || v[i] != '=' {
		return ""
	}
	from, to := value(b, skipBlank(b, i+1))
	return v[from:to]
}
