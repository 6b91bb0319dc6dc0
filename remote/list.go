package remote

import (
	"context"

	"github.com/acode-dev/acode/session"
)

// List returns the sessions of this role, of every device, the newest first. It returns
// at most limit sessions below the id before; the zero ID is the start. It never returns
// another role's sessions.
func (s *Server) List(ctx context.Context, before session.ID, limit int) ([]session.RemoteSummary, error) {
	if before == "" {
		before = "ffffffff-ffff-ffff-ffff-ffffffffffff"
	}
	below, err := uuid(before)
	if err != nil {
		return nil, refused(err)
	}
	c := call{`SELECT session_id, short_id, device, host, task, workspace, state, reason, tasks, steps, steps_completed,
    epoch, last_seq, projected_seq, created_us, last_us, received_us, forked FROM acode.list_sessions($1, $2)`, []any{below, int32(limit)}}
	var list []session.RemoteSummary
	var m session.RemoteSummary
	err = s.ask(ctx, []any{&m.ID, &m.Short, &m.Device, &m.Host, &m.Task, &m.Workspace, &m.State, &m.Reason, &m.Tasks, &m.Steps, &m.Done,
		&m.Epoch, &m.LastSeq, &m.Projected, &m.CreatedUS, &m.UpdatedUS, &m.ReceivedUS, &m.Forked},
		func() error { list = append(list, m); return nil }, c)
	return list, s.fault(err)
}
