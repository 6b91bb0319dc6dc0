package config

import (
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// parseServer parses the URL of a database. Its canonical text, which appears in output
// and logs, has no password. Errors have no password either.
func (k key) parseServer(text string) (parsed, error) {
	if text == "" {
		return parsed{"", ""}, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Opaque != "" || u.Fragment != "" {
		return parsed{}, errors.New("must be " + k.wants())
	}
	return parsed{withoutPassword(u), text}, nil
}

// hidden replaces a password, as in url.URL.Redacted.
const hidden = "xxxxx"

func withoutPassword(u *url.URL) string {
	shown := *u
	q := shown.Query()
	for name := range q {
		if strings.Contains(strings.ToLower(name), "password") {
			q.Set(name, hidden)
			shown.RawQuery = q.Encode()
		}
	}
	return shown.Redacted()
}

// hidePasswords replaces the passwords in a line of a file, even if its URL is malformed,
// and a key that stands in the place of its name.
func hidePasswords(line string) string {
	password := regexp.MustCompile(`(://[^:@/\s]*:)[^@\s]*(@)|((?i:password)=)[^&\s"']*`)
	key := regexp.MustCompile(`((?i:api_?key\w*)["']?\s*:\s*)[^\s,}]+`)
	line = key.ReplaceAllString(line, "${1}"+hidden)
	return password.ReplaceAllString(line, "${1}${3}"+hidden+"${2}")
}

// listenable reports whether text is an address on which a server can listen.
func listenable(text string) bool {
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		return filepath.IsAbs(path)
	}
	host, port, err := net.SplitHostPort(text)
	n, perr := strconv.Atoi(port)
	return err == nil && perr == nil && host != "" && n >= 0 && n < 1<<16
}
