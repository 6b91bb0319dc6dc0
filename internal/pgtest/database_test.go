package pgtest_test

import (
	"testing"

	"github.com/acode-dev/acode/internal/pgtest"
	"github.com/jackc/pgx/v5"
)

// Databases of one cluster are separate, and are dropped after their test despite open
// connections.
func TestDatabase(t *testing.T) {
	a, b := pgtest.Database(t), pgtest.Database(t)
	pgtest.Psql(t, a, "CREATE TABLE only_a ()")
	const exists = "SELECT to_regclass('only_a') IS NOT NULL, current_setting('is_superuser')"
	if got := pgtest.Psql(t, a, exists); got != "t|on" {
		t.Errorf("in the first: got %s, want t|on", got)
	}
	if got := pgtest.Psql(t, b, exists); got != "f|on" {
		t.Errorf("in the second: got %s, want f|on", got)
	}
	var name string
	said := record(func(tb testing.TB) {
		conn, err := pgx.Connect(t.Context(), pgtest.Database(tb))
		if err != nil {
			tb.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(t.Context()) })
		if err := conn.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
			tb.Fatal(err)
		}
	})
	if said != "" || name == "" {
		t.Fatalf("Database: got %q, name %q", said, name)
	}
	if got := pgtest.Psql(t, a, "SELECT count(*) FROM pg_database WHERE datname = '"+name+"'"); got != "0" {
		t.Errorf("databases %s after the test: got %s, want 0", name, got)
	}
}
