package remote

import (
	"context"

	"github.com/acode-dev/acode/session"
)

// List lists the sessions of this role, of every device, the newest first, at most limit of them
// below the id before. The zero ID begins. Another role's are never among them.
func (s *Server) List(ctx context.Context, before session.ID, limit int) ([]session.RemoteSummary, error) {
	if before == "" {
		before = "ffffffff-ffff-ffff-ffff-ffffffffffff"
	}
	below, err := session.ParseUUID(string(before))
	if err != nil {
		return nil, refused(err)
	}
	c := newCall(`SELECT session_id, short_id, device, host, task, workspace, state, reason, coalesce(tasks, 0), coalesce(steps, 0), steps_completed,
    epoch, last_seq, projected_seq, coalesce(created_us, 0), coalesce(last_us, 0), received_us, forked FROM acode.list_sessions($1, $2)`)
	rows, err := s.ask(ctx, c.uuid(below).int4(limit))
	if err != nil {
		return nil, s.fault(err)
	}
	list := make([]session.RemoteSummary, len(rows))
	for i := range rows {
		r, m := &rows[i], &list[i]
		m.ID, m.Short, m.Device, m.Host = session.ID(r.text()), r.text(), r.text(), r.text()
		m.Task, m.Workspace, m.State, m.Reason = r.text(), r.text(), session.State(r.text()), session.Reason(r.text())
		m.Tasks, m.Steps, m.Done = int(r.int()), int(r.int()), int(r.int())
		m.Epoch, m.LastSeq, m.Projected = uint64(r.int()), uint64(r.int()), uint64(r.int())
		m.CreatedUS, m.UpdatedUS, m.ReceivedUS, m.Forked = r.int(), r.int(), r.int(), r.bool()
		if r.err != nil {
			return nil, s.fault(r.err)
		}
	}
	return list, nil
}
