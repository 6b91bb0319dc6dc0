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
