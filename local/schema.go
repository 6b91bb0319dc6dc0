package local

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/acode-dev/acode/migrations"
	"github.com/acode-dev/acode/session"
	"github.com/pressly/goose/v3"
)

// schemaRows returns the definition of every table, index and trigger. It sorts them
// here, because a sort in SQLite costs more than reading them.
func schemaRows(ctx context.Context, q querier) ([]string, error) {
	rows, err := queryStrings(ctx, q, `SELECT type || ' ' || name || ' ' || tbl_name || ' ' || coalesce(sql, '') FROM sqlite_schema`)
	slices.Sort(rows)
	return rows, err
}

// schema is the schema that migrations make.
type schema struct {
	files   fs.FS
	version int
	// digest of schemaRows
	sum string
}

// schemaSum is the digest of the schema that the migrations of this program make.
const schemaSum = "903df67aac145d53558390899a042d785b6f8c29b9176807aa81705807929175"

func (s *Store) schema() schema {
	if s.opts.schema != nil {
		return *s.opts.schema
	}
	return schema{migrations.SQLite(), migrations.SQLiteVersion, schemaSum}
}

// version returns the schema version of a database, 0 for a new one. It returns ErrNewer
// above the version of this program.
func (s *Store) version(ctx context.Context, q querier) (int, error) {
	var v int
	if err := q.queryRow(ctx, `PRAGMA user_version`, nil, &v); err != nil {
		return 0, storeError("read schema version", err)
	}
	if v > s.schema().version {
		return v, newer(v)
	}
	if v < 0 {
		return v, &session.Error{Code: session.ErrCorrupt, Message: fmt.Sprintf("the database has the unknown schema version %d; nothing was changed; no event is trusted", v),
			Place: "user_version", Next: session.Words("put the database and its log back from a backup")}
	}
	return v, nil
}

// run migrates a database to a version.
func (c schema) run(ctx context.Context, db *sql.DB, version int) error {
	p, err := goose.NewProvider(goose.DialectSQLite3, db, c.files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	_, err = p.UpTo(ctx, int64(version))
	return err
}

// checkSchema returns ErrCorrupt unless the schema is the one that the migrations made. A
// writer checks it before it starts, because a damaged trigger fails only when a
// statement fires it, and that may be the receipt of an effect.
func (s *Store) checkSchema(ctx context.Context, q querier) error {
	rows, err := schemaRows(ctx, q)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(strings.Join(rows, "\n")))
	if hex.EncodeToString(sum[:]) == s.schema().sum {
		return nil
	}
	return &session.Error{Code: session.ErrCorrupt, Message: "the schema of the store is not the one that acode made; nothing was changed", Place: "sqlite_schema", Next: session.Do(session.MoveVerify, "")}
}

// checkWritable checks the parts of the store that every session needs, before a session
// is written.
func (s *Store) checkWritable(ctx context.Context, q querier) error {
	return errors.Join(s.checkSchema(ctx, q), checkClock(ctx, q))
}

// latestUS is a time after every real one: in the year 2255.
const latestUS = 1 << 53

// checkClock returns ErrCorrupt unless the latest time of all sessions is a valid time. A
// damaged row of one session must not stop other sessions in the middle of a step, or set
// the time of their events.
func checkClock(ctx context.Context, q querier) error {
	var wrong int
	err := q.queryRow(ctx, `SELECT count(*) FROM sessions WHERE typeof(last_us) <> 'integer' OR last_us > ?`, []any{latestUS}, &wrong)
	if err != nil || wrong == 0 {
		return storeError("read clock", err)
	}
	return &session.Error{Code: session.ErrCorrupt, Message: "the time of the last change of a session is not a valid time; nothing was changed", Place: "table sessions", Next: session.Do(session.MoveVerify, "")}
}
