package migrations_test

import (
	"strings"
	"testing"

	"github.com/acode-dev/acode/migrations"
)

// The server's files are numbered, and what is released is never edited: servers exist that it made. Nothing is
// released yet; from the first release on its files stand here with their checksums.
func TestServerMigrations(t *testing.T) {
	pin(t, migrations.Postgres(), migrations.PostgresVersion, nil)
}

// The roles come with the migrations.
func TestPostgresRoles(t *testing.T) {
	roles := migrations.PostgresRoles()
	for _, name := range []string{"acode_owner", "acode_writer", "acode_reader"} {
		if !strings.Contains(roles, name) {
			t.Errorf("PostgresRoles: no %s", name)
		}
	}
}
