package local

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/acode-dev/acode/session"
)

// schemaRows gives everything that SQLite was told to make. They are put in order here because
// to begin a sort costs SQLite more than to read them.
func schemaRows(ctx context.Context, q querier) ([]string, error) {
	found, err := q.QueryContext(ctx, `SELECT type, name, tbl_name, sql FROM sqlite_schema`)
	if err != nil {
		return nil, storeError("read schema", err)
	}
	defer found.Close()
	type object struct {
		kind, name, table string
		sql               text
	}
	var all []object
	for found.Next() {
		var o object
		if err := found.Scan(&o.kind, &o.name, &o.table, &o.sql); err != nil {
			return nil, rowError("read schema", "", err)
		}
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b object) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name)) })
	rows := make([]string, len(all))
	for i, o := range all {
		rows[i] = o.kind + " " + o.name + " " + o.table + " " + o.sql.String
	}
	return rows, storeError("read schema", found.Err())
}

// schemaSum is the digest of that in a store of this version, which is newer only where
// migrations are.
const schemaSum = "023adbc1247836c12dace8e6e85e357d121e57f3bce0473f2a5208d3e6bcaced"

// checkSchema returns ErrCorrupt unless the schema is what the migrations made. A damaged
// trigger is met by the first statement that fires it, which may be the receipt of an effect:
// whoever writes looks beforehand.
func checkSchema(ctx context.Context, q querier) error {
	rows, err := schemaRows(ctx, q)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(strings.Join(rows, "\n")))
	if hex.EncodeToString(sum[:]) == schemaSum {
		return nil
	}
	return &session.Error{Code: session.ErrCorrupt, Message: "the schema of the store is not what acode made; nothing was changed", Place: "sqlite_schema", Next: "acode verify"}
}

// checkWritable looks at what every session of the store needs, before one is written.
func checkWritable(ctx context.Context, q querier) error {
	return errors.Join(checkSchema(ctx, q), checkClock(ctx, q))
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
