package remote

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// brief shortens err to the first reason. The driver lists every address that it tried,
// each on a line; a person who reads a status needs only one.
func brief(err error) error {
	text := briefly(err)
	if text == "" || text == err.Error() {
		return err
	}
	return &scrubbed{text: text, err: err}
}

func briefly(err error) string {
	var pe *pgconn.PgError
	var dns *net.DNSError
	var errno syscall.Errno
	cert := untrusted(err)
	switch {
	case cert != nil:
		return cert.Error()
	case errors.As(err, &pe):
		return pe.Message
	case errors.As(err, &dns):
		return "the name " + dns.Name + " cannot be resolved"
	case errors.As(err, &errno):
		return errno.Error() + at(err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "no answer in time" + at(err)
	}
	text := err.Error()
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		text = strings.TrimSuffix(text[:i], ":")
	}
	return text
}

// at names the address that was tried.
func at(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Addr != nil {
		return " (" + op.Addr.String() + ")"
	}
	return ""
}
