package migrations_test

import (
	"strings"
	"testing"

	"github.com/acode-dev/acode/migrations"
)

// The server's files are numbered, and a released file is never edited, because it has
// made servers that exist. No file is released yet. The checksums of released files
// belong here.
func TestServerMigrations(t *testing.T) {
	pin(t, migrations.Postgres(), migrations.PostgresVersion, nil)
}

// The roles are embedded with the migrations.
func TestPostgresRoles(t *testing.T) {
	roles := migrations.PostgresRoles()
	for _, name := range []string{"acode_owner", "acode_writer", "acode_reader"} {
		if !strings.Contains(roles, name) {
			t.Errorf("PostgresRoles: no %s", name)
		}
	}
}
