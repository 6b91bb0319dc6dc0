package pgtest

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// connect opens a connection that keeps no state on the server.
func connect(ctx context.Context, address string) (*pgx.Conn, error) {
	conf, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	conf.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	return pgx.ConnectConfig(ctx, conf)
}

// query runs a statement with one value as the superuser, on its own connection.
func (s *Server) query(sql string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := connect(ctx, s.SocketURL("postgres", superuser))
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	var value string
	err = conn.QueryRow(ctx, "SELECT ("+sql+")::text").Scan(&value)
	return value, err
}

// Psql runs statements with psql in the database postgres as the superuser. It returns
// the rows: values separated by bars, rows by line ends.
func (s *Server) Psql(sql string) string {
	s.tb.Helper()
	out, err := s.psql("postgres", sql)
	if err != nil {
		s.tb.Fatalf("psql: %v", err)
	}
	return out
}

func (s *Server) psql(db, sql string) (string, error) { return psql(s.SocketURL(db, superuser), sql) }

// Psql runs statements with psql at an address, and ends the test if one fails. It
// returns the rows: values separated by bars, rows by line ends.
func Psql(tb testing.TB, address, sql string) string {
	tb.Helper()
	out, err := psql(address, sql)
	if err != nil {
		tb.Fatalf("psql: %v", err)
	}
	return out
}

func psql(address, sql string) (string, error) {
	f, err := template()
	if err != nil {
		return "", err
	}
	cmd := f.acct.command(f.program("psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", address, "-f", "-")
	cmd.Stdin = strings.NewReader(sql)
	out, err := run(cmd)
	return strings.TrimSuffix(out, "\n"), err
}
