package pgtest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// BouncerPool is the number of connections that a Bouncer keeps to the server for a role.
// It is small, so that clients share connections and see the settings of other clients.
const BouncerPool = 4

// Bouncer starts a PgBouncer in transaction mode, with the settings of its package, in
// front of the server at an address. It returns the address of the same database and role
// there. Other roles log in as at the server. The address must be the superuser's,
// because PgBouncer looks up passwords with it.
func Bouncer(tb testing.TB, address string) string {
	tb.Helper()
	f, err := template()
	if err != nil {
		tb.Fatalf("pgtest.Bouncer: %v", err)
	}
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		// Debian keeps it in a folder that is not in every PATH.
		program = "/usr/sbin/pgbouncer"
	}
	super, err := supervise(f.acct, "", func(root string) []string {
		return []string{program, "-q", filepath.Join(root, "pgbouncer.ini")}
	})
	if err != nil {
		tb.Fatalf("pgtest.Bouncer: %v", err)
	}
	tb.Cleanup(func() {
		if err := super.close(); err != nil {
			tb.Errorf("pgtest.Bouncer: %v", err)
		}
	})
	through, err := f.bounce(super, address)
	if err != nil {
		tb.Fatalf("pgtest.Bouncer: %v", err)
	}
	return through
}

// bounce starts a PgBouncer and waits until it answers.
func (f *files) bounce(super *supervisor, address string) (string, error) {
	server, err := pgx.ParseConfig(address)
	if err != nil {
		return "", err
	}
	port, err := freePort()
	if err != nil {
		return "", err
	}
	users := fmt.Sprintf("%q %q\n", server.User, server.Password)
	if err := f.write(filepath.Join(super.root, "users"), users); err != nil {
		return "", err
	}
	if err := f.write(filepath.Join(super.root, "pgbouncer.ini"), bouncerConf(super.root, port, server)); err != nil {
		return "", err
	}
	if _, err := super.start(); err != nil {
		return "", err
	}
	u := url.URL{Scheme: "postgres", User: url.User(server.User), Path: "/" + server.Database, RawQuery: "sslmode=disable",
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	if server.Password != "" {
		u.User = url.UserPassword(server.User, server.Password)
	}
	return u.String(), answers(u.String())
}

func bouncerConf(root string, port int, server *pgx.ConnConfig) string {
	auth := "trust"
	if server.Password != "" {
		auth = "scram-sha-256"
	}
	return "[databases]\n" +
		fmt.Sprintf("* = host=%s port=%d auth_user=%s\n", server.Host, server.Port, server.User) +
		"[pgbouncer]\nlisten_addr = 127.0.0.1\n" +
		fmt.Sprintf("listen_port = %d\nunix_socket_dir = %s\nauth_file = %s/users\n", port, root, root) +
		fmt.Sprintf("auth_type = %s\nauth_query = SELECT rolname, rolpassword FROM pg_authid WHERE rolname = $1\n", auth) +
		fmt.Sprintf("pool_mode = transaction\ndefault_pool_size = %d\nmax_client_conn = 500\n", BouncerPool)
}

// answers waits until a statement at an address succeeds.
func answers(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := connect(ctx, address)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}
