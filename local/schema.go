package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/acode-dev/acode/session"
)

// schemaQuery gives everything that SQLite was told to make.
const schemaQuery = `SELECT type || ' ' || name || ' ' || tbl_name || ' ' || coalesce(sql, '') FROM sqlite_schema ORDER BY type, name`

// schemaSum is the digest of that in a store of this version, which is newer only where
// migrations are.
const schemaSum = "4c3cb400bdb182a6de5ad8366df8b26c32b86aa6197c0969b50465eae86d2abb"

// checkSchema returns ErrCorrupt unless the schema is what the migrations made. A damaged
// trigger is met by the first statement that fires it, which may be the receipt of an effect:
// whoever writes looks beforehand.
func checkSchema(ctx context.Context, q querier) error {
	rows, err := queryStrings(ctx, q, schemaQuery)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(strings.Join(rows, "\n")))
	if hex.EncodeToString(sum[:]) == schemaSum {
		return nil
	}
	return &session.Error{Code: session.ErrCorrupt, Message: "the schema of the store is not what acode made; nothing was changed", Place: "sqlite_schema", Next: "acode verify"}
}

// latestUS is a time that no clock tells before the year 2255.
const latestUS = 1 << 53

// checkClock returns ErrCorrupt unless the store's clock, the latest time of all its sessions,
// is a time: a damaged row of one session must not stop the others in the middle of a step, nor
// date their events.
func checkClock(ctx context.Context, q querier) error {
	var wrong int
	err := q.QueryRowContext(ctx, `SELECT count(*) FROM sessions WHERE typeof(last_us) <> 'integer' OR last_us > ?`, latestUS).Scan(&wrong)
	if err != nil || wrong == 0 {
		return storeError("read clock", err)
	}
	return &session.Error{Code: session.ErrCorrupt, Message: "a session of the store was last changed at no time that a clock tells; nothing was changed", Place: "table sessions", Next: "acode verify"}
}
