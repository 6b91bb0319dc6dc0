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

// SQLSTATEs of our own functions:
//
//   - stateNotOwner: the session belongs to another login role,
//   - stateMalformed: the request cannot be a delivery,
//   - stateBlob: a chunk does not fit the stored ones,
//   - stateEncoding: the database's encoding is not UTF8.
const (
	stateNotOwner  = "AC001"
	stateMalformed = "AC004"
	stateBlob      = "AC005"
	stateEncoding  = "AC012"
)

// classOf returns the class of an SQLSTATE. It looks for the whole code first, then for
// its class, which is its first two characters. An unknown code is passing trouble, which
// counts no attempt.
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
	case "08": // connection_exception, also from a pooler without a server
		return session.FaultOffline
	case "28": // invalid_authorization_specification
		return session.FaultAuth
	case "42", "3D", "3F": // an object, database or schema that does not exist
		return session.FaultUnmigrated
	case "22", "23", "54", "AC": // data, constraints, limits of a row; our functions' refusals
		return session.FaultRefused
	}
	return session.FaultServer
}

// fault returns err as a *session.SyncFault; nil stays nil.
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
		// the server must make the partition
		if noPartition(pe) {
			f.Class = session.FaultServer
		}
		// A connection that the server ends may have committed just before.
		f.Safe = pe.SeverityUnlocalized == "ERROR" || errors.As(err, &ce)
	case errors.As(err, &ce):
		f.Safe = true
		// the other end cannot prove that it is the server
		if untrusted(err) != nil {
			f.Class = session.FaultAuth
		}
	case errors.Is(err, errAnswer):
		f.Class = session.FaultUnmigrated
	}
	return f
}

// untrusted returns the reason why a server's certificate is not trusted, or nil. With
// sslmode=verify-ca, which compares no names, the errors are those of the certificate
// alone.
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

// noPartition reports whether the partition of the month is missing.
func noPartition(pe *pgconn.PgError) bool { return pe.Code == "23514" && pe.ConstraintName == "" }

// errAnswer marks an answer that this program does not understand.
var errAnswer = errors.New("the server's answer is not one that this program knows")

// scrubber removes the password from texts for people. The zero value removes nothing.
type scrubber struct{ secrets *strings.Replacer }

// leastSecret is the least length in bytes of a password that is removed: a shorter one
// may be part of any word.
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

// wrap returns err, with another text if its own holds the password.
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
