// Package migrations holds the SQL that makes and changes the schemas of acode's databases.
//
// Migrations go forward only, one transaction each. Before the first release each database has one file,
// which is edited in place; a released file is never edited, and a test pins the checksum of each one.
package migrations

import (
	"embed"
	"io/fs"
)

//go:embed sqlite/*.sql postgres/*.sql postgres/prepare/roles.sql
var files embed.FS

// SQLiteVersion is the schema version that this program knows; the store keeps its own in
// PRAGMA user_version, so that an up-to-date store is recognised by one read.
const SQLiteVersion = 1

// PostgresVersion is the schema version of the server that this program knows; the server
// keeps its own in acode.meta and says it in hello.
const PostgresVersion = 1

// SQLite gives the migrations of the local store, for goose.
func SQLite() fs.FS { return folder("sqlite") }

// Postgres gives the migrations of the server, for goose.
func Postgres() fs.FS { return folder("postgres") }

// PostgresRoles gives what must be run before the first of the server's migrations, and may be
// run before every one: roles belong to a cluster, not to a database.
func PostgresRoles() string {
	b, err := files.ReadFile("postgres/prepare/roles.sql")
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
