package remote

import (
	"context"
	"io"
	"io/fs"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/acode-dev/acode/migrations"
	"github.com/acode-dev/acode/session"
)

// MigrateTo is Migrate with other files, of which the last has this version.
func MigrateTo(ctx context.Context, o Options, files fs.FS, version int) (Migrated, error) {
	return migrateTo(ctx, o, schema{files, version, migrations.PostgresProjection()}, nil)
}

// Install is Migrate with other projection functions.
func Install(ctx context.Context, o Options, projection string) error {
	_, err := migrateTo(ctx, o, schema{migrations.Postgres(), migrations.PostgresVersion, projection}, nil)
	return err
}

// ShowPending writes the SQL that MigrateTo would run.
func ShowPending(ctx context.Context, o Options, files fs.FS, version int, w io.Writer) (Migrated, error) {
	return migrateTo(ctx, o, schema{files, version, migrations.PostgresProjection()}, w)
}

// Classify returns err as a fault.
func Classify(err error) *session.SyncFault { return classify(err, scrubber{}) }

// Scrub removes password from err.
func Scrub(password string, err error) error {
	return newScrubber(&pgconn.Config{Password: password}).wrap(err)
}

// Ways counts the ways to a server that are left.
func Ways(t *testing.T, address string) int {
	t.Helper()
	cfg, err := parse(address, false)
	if err != nil {
		t.Fatal(err)
	}
	return 1 + len(cfg.Fallbacks)
}
