package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/acode-dev/acode/session"
)

// schemaQuery gives everything that SQLite was told to make.
const schemaQuery = `SELECT type || ' ' || name || ' ' || tbl_name || ' ' || coalesce(sql, '') FROM sqlite_schema ORDER BY type, name`

// schemaSum is the digest of that in a store of this version, which is newer only where
// migrations are.
const schemaSum = "cf63df776c1eefbfd1ad9486bbecfb1ab6174b3adf15be3b98523912e314d68f"

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

// checkTypes returns ErrCorrupt when a row that the session's next commit may rewrite holds a
// value of another type than its column: it reads the same, and SQLite would refuse to write
// it, perhaps only after an effect.
func checkTypes(ctx context.Context, q querier, no int64) error {
	for _, t := range []struct{ table, key string }{{"sessions", "no"}, {"steps", "session_no"}, {"files", "session_no"}} {
		wrong, err := queryStrings(ctx, q, `SELECT printf('typeof("%w") NOT IN (''null'', %Q)', name, lower(type)) FROM pragma_table_info(?)`, t.table)
		if err != nil {
			return err
		}
		found, err := queryStrings(ctx, q, fmt.Sprintf(`SELECT 1 FROM %s WHERE %s = ? AND (%s) LIMIT 1`, t.table, t.key, strings.Join(wrong, " OR ")), no)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			return &session.Error{Code: session.ErrCorrupt, Message: "a row of the session holds a value of the wrong type; nothing was changed", Place: "table " + t.table, Next: "acode verify"}
		}
	}
	return nil
}
