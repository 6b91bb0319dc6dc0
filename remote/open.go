package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/acode-dev/acode/session"
)

// Schema is the schema that holds all objects of acode.
const Schema = "acode"

// DefaultTimeout is the default of Options.Timeout.
const DefaultTimeout = 10 * time.Second

// Grace is how much longer the client waits for an answer than the server works on it. So
// the server gives up first: a deadline of the client costs the connection.
const Grace = 2 * time.Second

// Options name a server and say how to connect to it.
type Options struct {
	// URL is postgres://user@host/database. PGPASSFILE and the other variables of libpq
	// apply.
	URL string
	// Now is required.
	Now func() time.Time
	// AllowPlaintext permits connections without TLS to other machines.
	AllowPlaintext bool
	// Timeout limits a statement on the server; 0 means DefaultTimeout.
	Timeout time.Duration
}

// Server is a PostgreSQL server. It is safe for concurrent use. Its calls return
// *session.SyncFault.
type Server struct {
	pool    *pgxpool.Pool
	now     func() time.Time
	timeout time.Duration
	address string
	// scrub removes the password that was read last.
	scrub atomic.Pointer[scrubber]
}

// Open reads the options; it does not connect. A URL that cannot be used is
// session.ErrConfig.
func Open(o Options) (*Server, error) {
	cfg, err := parse(o.URL, o.AllowPlaintext)
	if err != nil {
		return nil, err
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	s := &Server{now: o.Now, timeout: o.Timeout, address: address(&cfg.Config)}
	clean := newScrubber(&cfg.Config)
	s.scrub.Store(&clean)
	if s.pool, err = newPool(o, cfg, &s.scrub); err != nil {
		return nil, fmt.Errorf("make pool: %w", err)
	}
	return s, nil
}

// Address returns host, port and database for people; never user or password.
func (s *Server) Address() string { return s.address }

// closeTimeout is the time to close the connections to a server that answers.
const closeTimeout = time.Second

// Close ends the connections; those in use end after their calls. It does not wait for a
// server that has become silent: a call that was cancelled there ends by itself, or with
// this process.
func (s *Server) Close() error {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.pool.Close()
	}()
	limit := time.NewTimer(closeTimeout)
	defer limit.Stop()
	select {
	case <-closed:
	case <-limit.C:
	}
	return nil
}

// parse reads the URL and never repeats it in an error: any part of an invalid URL may
// hold a password.
func parse(url string, plaintext bool) (*pgx.ConnConfig, error) {
	if url == "" {
		return nil, &session.Error{Code: session.ErrSyncOff, Message: "no server is configured; everything stays in the local store",
			Next: session.Words("set sync.url in the user configuration, or ACODE_POSTGRES_URL")}
	}
	cfg, err := pgx.ParseConfig(url)
	var file *fs.PathError
	if errors.As(err, &file) {
		return nil, &session.Error{Code: session.ErrConfig, Message: "a file that the server's address or its environment names cannot be read", Place: file.Path, Cause: file.Err,
			Next: session.Words("look at sslrootcert, sslcert, sslkey and service of the address, and at PGSSLROOTCERT, PGSSLCERT, PGSSLKEY and PGSERVICEFILE")}
	}
	if err != nil {
		return nil, &session.Error{Code: session.ErrConfig, Message: "the server's address cannot be read, and is not repeated here as it may hold a password",
			Next: session.Words("write it as postgres://user@host:5432/database?sslmode=verify-full and keep the password in ~/.pgpass; sslrootcert, sslcert and sslkey name files in PEM")}
	}
	if !plaintext && !encrypted(&cfg.Config) {
		return nil, &session.Error{Code: session.ErrConfig, Message: "the server is not on this machine and its address allows no TLS; nothing was sent",
			Next: session.Words("use sslmode=verify-full (or require), or set sync.allow_plaintext where the network is trusted")}
	}
	cfg.ConnectTimeout = connectTimeout
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "acode"
	}
	maps.Copy(cfg.RuntimeParams, reading)
	// no statement stays prepared, because a pooler may be between
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	cfg.OnNotice = func(*pgconn.PgConn, *pgconn.Notice) {}
	return cfg, nil
}

// reading are the settings for statements and answers, which override the defaults of the
// server, the database and the role. With them a backslash in a migration is a plain
// character, and a time can be parsed. PgBouncer passes each of them on.
var reading = map[string]string{"client_encoding": "UTF8", "standard_conforming_strings": "on", "DateStyle": "ISO"}

// encrypted removes the ways without TLS from cfg, except those that stay on this
// machine. It reports whether any way is left.
func encrypted(cfg *pgconn.Config) bool {
	ways := []*pgconn.FallbackConfig{{Host: cfg.Host, Port: cfg.Port, TLSConfig: cfg.TLSConfig}}
	var kept []*pgconn.FallbackConfig
	for _, w := range append(ways, cfg.Fallbacks...) {
		if w.TLSConfig != nil || onThisMachine(w.Host) {
			kept = append(kept, w)
		}
	}
	if len(kept) == 0 {
		return false
	}
	cfg.Host, cfg.Port, cfg.TLSConfig, cfg.Fallbacks = kept[0].Host, kept[0].Port, kept[0].TLSConfig, kept[1:]
	return true
}

func onThisMachine(host string) bool {
	if strings.HasPrefix(host, "/") || host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// address names every host, because any of them may answer.
func address(cfg *pgconn.Config) string {
	at := func(host string, port uint16) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }
	hosts := []string{at(cfg.Host, cfg.Port)}
	// the same host without TLS counts once
	for _, f := range cfg.Fallbacks {
		if host := at(f.Host, f.Port); !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return strings.Join(hosts, ",") + "/" + cfg.Database
}

// budget returns how long the server may work on a statement, and a context that ends
// Grace later. It respects an earlier deadline of ctx.
func (s *Server) budget(ctx context.Context) (context.Context, context.CancelFunc, time.Duration) {
	limit := s.timeout
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, max(deadline.Sub(s.now())-Grace, time.Second))
	}
	ctx, cancel := context.WithTimeout(ctx, limit+Grace)
	return ctx, cancel, limit
}
