package local

import (
	"context"
	"fmt"
	"strings"
)

// Checkpoint copies the log into the database.
func (s *Store) Checkpoint(ctx context.Context) error { return s.wr.restart(ctx) }

// Exec runs a statement on the connection that writes.
func (s *Store) Exec(ctx context.Context, query string, args ...any) error {
	_, err := s.wr.conn.ExecContext(ctx, query, args...)
	return err
}

// Dump gives every row that has a meaning, as text.
func (s *Store) Dump(ctx context.Context) (string, error) {
	var out strings.Builder
	err := s.read(ctx, func(q querier) error {
		for _, table := range []string{"store", "sessions", "events", "checkpoints", "steps", "files", "blobs", "requests"} {
			rows, err := q.QueryContext(ctx, `SELECT * FROM `+table)
			if err != nil {
				return err
			}
			cols, err := rows.Columns()
			if err != nil {
				return err
			}
			vals := make([]any, len(cols))
			for rows.Next() {
				for i := range vals {
					vals[i] = new(any)
				}
				if err := rows.Scan(vals...); err != nil {
					return err
				}
				for i := range vals {
					fmt.Fprintf(&out, "%s.%s=%v\n", table, cols[i], *vals[i].(*any))
				}
			}
			if err := rows.Err(); err != nil {
				return err
			}
		}
		return nil
	})
	return out.String(), err
}
