package local

import "context"

// Checkpoint copies the log into the database.
func (s *Store) Checkpoint(ctx context.Context) error { return s.wr.restart(ctx) }

// Exec runs a statement on the connection that writes.
func (s *Store) Exec(ctx context.Context, query string, args ...any) error {
	_, err := s.wr.conn.ExecContext(ctx, query, args...)
	return err
}
