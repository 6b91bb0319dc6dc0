// Package migrations holds the SQL that makes and changes the schemas of acode's
// databases.
//
// Migrations go forward only, one transaction each. Before the first release each
// database has one file, which is edited in place. A released file is never edited, and
// a test pins its checksum.
package migrations

import (
	"embed"
	"io/fs"
)

//go:embed sqlite/*.sql postgres/*.sql postgres/prepare/roles.sql postgres/install/projection.sql
var files embed.FS

// SQLiteVersion is the schema version that this program knows. The store keeps its own
// version in PRAGMA user_version, so that one read tells whether it is up to date.
const SQLiteVersion = 1

// PostgresVersion is the server's schema version that this program knows. The server
// keeps its own version in acode.meta and returns it from hello.
const PostgresVersion = 1

// SQLite returns the migrations of the local store, for goose.
func SQLite() fs.FS { return folder("sqlite") }

// Postgres returns the migrations of the server, for goose.
func Postgres() fs.FS { return folder("postgres") }

// PostgresRoles returns the SQL that must run before the server's first migration. It
// may run before every migration. It is separate because roles belong to a cluster, not
// to a database.
func PostgresRoles() string { return text("postgres/prepare/roles.sql") }

// PostgresProjection returns the SQL that installs the functions which fill the typed
// tables. It must run in one transaction after every migration, also when the schema is
// up to date. So a server knows the event types of the last program that migrated it.
func PostgresProjection() string { return text("postgres/install/projection.sql") }

func text(name string) string {
	b, err := files.ReadFile(name)
	if err != nil {
		panic("migrations: the embedded file must be there: " + err.Error())
	}
	return string(b)
}

func folder(name string) fs.FS {
	sub, err := fs.Sub(files, name)
	if err != nil {
		panic("migrations: the embedded folder must be there: " + err.Error())
	}
	return sub
}
