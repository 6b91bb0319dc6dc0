// Command least does the least work to continue in a store. It opens a database through
// SQLite's driver, reads a row, commits a change to it and ends as if killed.
package main

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"

	"modernc.org/sqlite"
)

func main() {
	if err := advance(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "least:", err)
		os.Exit(1)
	}
}

// advance adds one to the counter in the database at path, durably. It creates a missing
// database.
func advance(ctx context.Context, path string) error {
	_, missing := os.Stat(path)
	conn, err := new(sqlite.Driver).Open("file:" + path + "?_pragma=page_size(8192)&_pragma=synchronous(FULL)")
	if err != nil {
		return err
	}
	exec := conn.(driver.ExecerContext).ExecContext
	if missing != nil {
		_, err = exec(ctx, `PRAGMA journal_mode=WAL; CREATE TABLE sessions (no INTEGER PRIMARY KEY, seq INTEGER); INSERT INTO sessions VALUES (1, 0)`, nil)
		if err != nil {
			return err
		}
	}
	rows, err := conn.(driver.QueryerContext).QueryContext(ctx, `SELECT seq FROM sessions WHERE no = 1`, nil)
	if err != nil {
		return err
	}
	seq := make([]driver.Value, 1)
	if err := errors.Join(rows.Next(seq), rows.Close()); err != nil {
		return err
	}
	_, err = exec(ctx, fmt.Sprintf(`UPDATE sessions SET seq = %d WHERE no = 1`, seq[0].(int64)+1), nil)
	return err
}
