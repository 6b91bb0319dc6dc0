// Package migrations holds the SQL that makes and changes the schemas of acode's databases.
//
// Migrations go forward only, one transaction each, and a released file is never edited: a
// test pins the checksum of each one.
package migrations

import (
	"embed"
	"io/fs"
)

//go:embed sqlite/*.sql
var files embed.FS

// SQLiteVersion is the schema version that this program knows; the store keeps its own in
// PRAGMA user_version, so that an up-to-date store is recognised by one read.
const SQLiteVersion = 2

// SQLite gives the migrations of the local store, for goose.
func SQLite() fs.FS {
	sub, err := fs.Sub(files, "sqlite")
	if err != nil {
		panic("migrations: the embedded folder must be there: " + err.Error())
	}
	return sub
}
