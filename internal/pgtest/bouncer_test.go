package pgtest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/acode-dev/acode/internal/pgtest"
	"github.com/jackc/pgx/v5"
)

// In transaction mode a client's settings remain for the next client, and prepared
// statements belong to another connection. The control does the same without PgBouncer.
func TestBouncerLeaksSettings(t *testing.T) {
	t.Parallel()
	direct := pgtest.Database(t)
	for name, c := range map[string]struct {
		address string
		want    string
	}{
		"direct":  {direct, "0"},
		"bouncer": {pgtest.Bouncer(t, direct), "4242ms"},
	} {
		first := simple(t, c.address)
		if _, err := first.Exec(t.Context(), "SET statement_timeout = 4242"); err != nil {
			t.Fatal(err)
		}
		second := simple(t, c.address)
		var got string
		if err := second.QueryRow(t.Context(), "SHOW statement_timeout").Scan(&got); err != nil || got != c.want {
			t.Errorf("%s: statement_timeout of the second client: got %q, %v, want %s", name, got, err, c.want)
		}
	}
}

func simple(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	conf, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	conf.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// PgBouncer refuses a setting in the address that the server accepts.
func TestBouncerRefusesStartupSettings(t *testing.T) {
	t.Parallel()
	direct := pgtest.Database(t)
	const setting = "&statement_timeout=5000"
	simple(t, direct+setting)
	_, err := pgx.Connect(t.Context(), pgtest.Bouncer(t, direct)+setting)
	if err == nil || !strings.Contains(err.Error(), "unsupported startup parameter") {
		t.Errorf("Connect: got %v, want an unsupported startup parameter", err)
	}
}

// Roles log in with their own password, as at the server.
func TestBouncerAsksForPasswords(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t, pgtest.Options{Scram: true})
	s.Psql("CREATE ROLE device LOGIN PASSWORD 'its own'")
	through := pgtest.Bouncer(t, s.URL("postgres", "postgres"))
	device := strings.Replace(through, "postgres:"+s.Password, "device:its%20own", 1)
	for address, want := range map[string]string{through: "postgres", device: "device"} {
		if got := pgtest.Psql(t, address, "SELECT current_user"); got != want {
			t.Errorf("current_user: got %s, want %s", got, want)
		}
	}
	if _, err := pgx.Connect(t.Context(), strings.Replace(device, "own", "none", 1)); err == nil {
		t.Error("Connect with a wrong password: got nil, want an error")
	}
}
