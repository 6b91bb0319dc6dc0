package redact

import (
	"net/url"
	"slices"
	"strings"
)

// FromEnvironment returns the secrets in an environment of the form of os.Environ.
// These are the values of variables whose names say so, and the passwords in URLs and
// connection strings of any variable. A variable that holds the place of a secret
// (…_FILE, …_SOCK) holds no secret. The result is sorted, without duplicates and
// without values below MinSecretBytes.
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
// looks at the parts of the name, so that XAUTHORITY or GIT_AUTHOR is not a secret.
func SecretName(name string) bool {
	name = strings.ToUpper(name)
	switch name {
	case "PWD", "OLDPWD", "ACODE_IDEMPOTENCY_KEY":
		// directories, and a key that each command is meant to pass on
		return false
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
		// PAS is PASS without its last letter
		return true
	}
	for _, end := range []string{"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PWD", "CREDENTIAL"} {
		if strings.HasSuffix(part, end) {
			return true
		}
	}
	return false
}

// passwords returns the passwords of URLs in v and the values of password=… and similar
// names, as in a connection string, a query or a list with semicolons. It returns each
// one as written and decoded.
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

// lowerASCII returns s in lower case and of the same length. strings.ToLower changes
// the length of some texts.
func lowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// keywordValue returns the value after a "=" at i, or "" if there is no "=".
func keywordValue(v string, i int) string {
	b := []byte(v)
	i = skipBlank(b, i)
	if i == len(v) || v[i] != '=' {
		return ""
	}
	from, to := value(b, skipBlank(b, i+1))
	return v[from:to]
}
