package remote

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/acode-dev/acode/session"
)

// SQLSTATEs of our own functions.
const (
	// the session belongs to another login role
	stateNotOwner = "AC001"
	// what was sent cannot be a delivery
	stateMalformed = "AC004"
	// a chunk does not fit what is there
	stateBlob = "AC005"
	// the database's encoding is not UTF8
	stateEncoding = "AC012"
)

// classOf says whose trouble an SQLSTATE is: the whole code first, then its class, which
// is its first two characters. What is not listed is passing trouble, which consumes
// nothing.
func classOf(state string) session.SyncFaultClass {
	switch state {
	case "25006": // read_only_sql_transaction
		return session.FaultReadOnly
	case "53100": // disk_full
		return session.FaultDiskFull
	case "42501": // insufficient_privilege
		return session.FaultAuth
	}
	switch state[:min(2, len(state))] {
	case "08": // connection_exception, and what a pooler says that has no server
		return session.FaultOffline
	case "28": // invalid_authorization_specification
		return session.FaultAuth
	case "42", "3D", "3F": // an object, database or schema that is not there
		return session.FaultUnmigrated
	case "22", "23", "54", "AC": // data, constraints, limits of a row; our functions' refusals
		return session.FaultRefused
	}
	return session.FaultServer
}

// fault makes a *session.SyncFault of err; nil stays nil.
func (s *Server) fault(err error) error {
	var done *session.SyncFault
	if err == nil || errors.As(err, &done) {
		return err
	}
	return classify(err, *s.scrub.Load())
}

func classify(err error, clean scrubber) *session.SyncFault {
	f := &session.SyncFault{Class: session.FaultOffline, Safe: pgconn.SafeToRetry(err), Cause: clean.wrap(brief(err))}
	var pe *pgconn.PgError
	var ce *pgconn.ConnectError
	switch {
	case errors.As(err, &pe):
		f.Class, f.SQLState = classOf(pe.Code), pe.Code
		if noPartition(pe) { // the server's own trouble
			f.Class = session.FaultServer
		}
		// A connection that the server ends may have committed just before.
		f.Safe = pe.SeverityUnlocalized == "ERROR" || errors.As(err, &ce)
	case errors.As(err, &ce):
		f.Safe = true
		if untrusted(err) != nil { // whoever answers cannot show that it is the server
			f.Class = session.FaultAuth
		}
	case errors.Is(err, errAnswer):
		f.Class = session.FaultUnmigrated
	}
	return f
}

// untrusted says why a server's certificate is not trusted; nil: that is not what is
// wrong. Who compares no names, as sslmode=verify-ca does, meets the errors of a
// certificate alone.
func untrusted(err error) error {
	var tried *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &tried):
		return tried.Err
	case errors.As(err, &authority):
		return authority
	case errors.As(err, &invalid):
		return invalid
	}
	return nil
}

// noPartition reports whether there is no partition for the month.
func noPartition(pe *pgconn.PgError) bool { return pe.Code == "23514" && pe.ConstraintName == "" }

// errAnswer marks an answer that this program does not understand.
var errAnswer = errors.New("the server's answer is not one that this program knows")

// scrubber takes the password out of what people read. The zero value takes nothing out.
type scrubber struct{ secrets *strings.Replacer }

// leastSecret is how many bytes a password has at least to be known by its value: a
// shorter one may be part of any word.
const leastSecret = 8

func newScrubber(cfg *pgconn.Config) scrubber {
	if len(cfg.Password) < leastSecret {
		return scrubber{}
	}
	const mark = "[password]"
	return scrubber{secrets: strings.NewReplacer(cfg.Password, mark, url.QueryEscape(cfg.Password), mark, url.PathEscape(cfg.Password), mark)}
}

func (c scrubber) text(s string) string {
	if c.secrets == nil {
		return s
	}
	return c.secrets.Replace(s)
}

// wrap gives err another text where its own holds the password.
func (c scrubber) wrap(err error) error {
	if text := c.text(err.Error()); text != err.Error() {
		return &scrubbed{text: text, err: err}
	}
	return err
}

// scrubbed is an error with another text.
type scrubbed struct {
	text string
	err  error
}

func (e *scrubbed) Error() string { return e.text }
func (e *scrubbed) Unwrap() error { return e.err }
