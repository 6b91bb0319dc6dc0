package app

import (
	"context"
	"io"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/workspace"
)

// FindHere returns the session of the workspace that ref names. A session of another
// workspace is ErrUnknownID.
func (s *Site) FindHere(ctx context.Context, ref string) (session.ID, error) {
	id, err := s.store.Find(ctx, ref)
	if err != nil {
		return "", err
	}
	sess, err := s.store.View(ctx, id)
	if err == nil && sess.Workspace != s.Workspace {
		err = &session.Error{Code: session.ErrUnknownID, Message: "session " + sess.Short + " belongs to another workspace; nothing was changed", Next: session.Do(session.MoveListHere, "")}
	}
	return id, err
}

// NewID returns the id of a session that StartApart can make.
func (s *Site) NewID() (session.ID, error) { return s.store.NewID() }

// Epoch returns the number of the last execution of a session.
func (s *Site) Epoch(ctx context.Context, id session.ID) (uint64, error) {
	sess, err := s.store.View(ctx, id)
	if err != nil {
		return 0, err
	}
	return sess.Epoch, nil
}

// mostPlan is the greatest size of a plan in a file of the workspace.
const mostPlan = 16 << 20

// PlanFile returns the content of a file of the workspace, with its secrets. It follows
// no link to the outside.
func (s *Site) PlanFile(name string) ([]byte, error) {
	root, err := workspace.Open(s.Workspace, s.Now)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, size, err := root.Content(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > mostPlan {
		return nil, &session.Error{Code: session.ErrPlan, Message: "the plan is larger than 16 MiB; nothing was changed", Place: name}
	}
	return io.ReadAll(io.LimitReader(f, mostPlan))
}

// Approval is a question without an answer.
type Approval struct {
	Row
	Gate session.Gate
	// Digest binds an answer to the question and to the steps after it.
	Digest string
}

// Approvals returns the questions without an answer: those of the session that ref names,
// or those of the workspace if ref is empty.
func (s *Site) Approvals(ctx context.Context, ref string) ([]Approval, error) {
	rows, err := s.rows(ctx, s.Workspace)
	if err != nil {
		return nil, err
	}
	var one session.ID
	if ref != "" {
		if one, err = s.FindHere(ctx, ref); err != nil {
			return nil, err
		}
	}
	var out []Approval
	for _, r := range rows {
		if one != "" && r.ID != one || !s.Asks(ctx, r) {
			continue
		}
		sess, p, next, err := s.outlook(ctx, r.ID)
		if err != nil {
			return nil, err
		}
		for _, it := range next.Items {
			st := sess.Steps[it.ID]
			if st == nil || st.Approval == nil || st.Approval.Answer != "" || st.Status == session.StepDone {
				continue
			}
			g, digest, err := s.asks(ctx, sess, p, &next, it)
			if err != nil {
				return nil, err
			}
			out = append(out, Approval{r, g, digest})
		}
	}
	return out, nil
}

// Checkpoint is a place from which a session can be resumed.
type Checkpoint struct {
	Seq    uint64 `json:"seq"`
	TimeUS int64  `json:"time_us"`
	// Step is the step that was completed then; empty for an extra checkpoint.
	Step  string        `json:"step,omitempty"`
	State session.State `json:"state,omitempty"`
	Epoch uint64        `json:"epoch"`
	// Damaged says that the checkpoint does not match its signature. A resume uses an
	// earlier one.
	Damaged bool `json:"damaged"`
}

// Checkpoints returns the last checkpoints of a session, oldest first, and how many there
// are. ref is as in Status.
func (s *Site) Checkpoints(ctx context.Context, ref string, limit int) (last []Checkpoint, total int, err error) {
	id, err := s.subject(ctx, ref)
	if err != nil {
		return nil, 0, err
	}
	all, damaged, err := s.store.Checkpoints(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	for _, c := range all[max(0, len(all)-limit):] {
		e, err := s.store.Events(ctx, id, c.Seq-1, 1)
		if err != nil {
			return nil, 0, err
		}
		out := Checkpoint{Seq: c.Seq, State: c.State, Epoch: c.Epoch, Damaged: damaged[c.Seq]}
		if c.Cursor != (session.StepID{}) {
			out.Step = c.Cursor.String()
		}
		if len(e) > 0 {
			out.TimeUS = e[0].TimeUS
		}
		last = append(last, out)
	}
	return last, len(all), nil
}
