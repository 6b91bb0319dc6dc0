package remote

import "context"

// Project lets the server fill its typed tables with at most limit of this role's events that
// were delivered since the last time, and says whether there is more. What PostgreSQL cannot
// hold is flagged there and stops nothing.
func (s *Server) Project(ctx context.Context, limit int) (more bool, err error) {
	return s.work(ctx, `SELECT acode.project($1)`, limit)
}
