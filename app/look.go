package app

import (
	"cmp"
	"context"
	"slices"

	"github.com/acode-dev/acode/lock"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
)

// Row is a session in a list.
type Row struct {
	session.Summary
	// Interrupted means that the session was executing, is not over, and no process
	// executes it.
	Interrupted bool
	// Running means that a process executes the session now.
	Running bool
}

// Waits reports whether the session is that of an agent, and no call runs.
func (r Row) Waits() bool { return r.Calls > 0 && !r.Running && underWay(r.State) }

// Position is a place in a plan. Its numbers count from 1. The zero value is no place.
type Position struct {
	Task int
	// Tasks is the number of tasks in the plan.
	Tasks int
	Step  int
	// Steps is the number of steps in the task.
	Steps int
}

// fewRows is how many items a short text lists.
const fewRows = 10

// List returns the sessions of the workspace, or of every workspace, the most recent
// first.
func (s *Site) List(ctx context.Context, all bool) ([]Row, error) {
	if all {
		return s.rows(ctx, "")
	}
	return s.rows(ctx, s.Workspace)
}

// Resumable keeps the rows that a resume would take. It drops sessions that run, are
// over, belong to an agent, or were continued elsewhere.
func (s *Site) Resumable(ctx context.Context, rows []Row) ([]Row, error) {
	elsewhere := map[session.ID]bool{}
	if s.Settings.Config.Sync.URL != "" {
		_, lanes, _, err := s.store.Sync(ctx)
		if err != nil {
			return nil, err
		}
		for _, l := range lanes {
			elsewhere[l.Session] = forked(l.Session, l.State, l.Reason) != nil
		}
	}
	return slices.DeleteFunc(rows, func(r Row) bool { return r.State.Terminal() || r.Running || r.Calls > 0 || elsewhere[r.ID] }), nil
}

// Asks reports whether a session has a question without an answer. The question stays
// open when a signal pauses the session.
func (s *Site) Asks(ctx context.Context, r Row) bool {
	if r.State != session.Paused && r.Calls == 0 {
		return r.State == session.AwaitingApproval
	}
	sess, err := s.store.View(ctx, r.ID)
	return err == nil && !r.State.Terminal() && asksStill(sess)
}

// subject returns the session that ref names. Without ref it returns the session that is
// executed in the workspace, else the most recent one there.
func (s *Site) subject(ctx context.Context, ref string) (session.ID, error) {
	if ref != "" {
		return s.store.Find(ctx, ref)
	}
	rows, err := s.rows(ctx, s.Workspace)
	if err != nil {
		return "", err
	}
	if len(rows) == 0 {
		return "", &session.Error{Code: session.ErrUnknownID, Message: "there is no session in this workspace", Next: session.Do(session.MoveList, "")}
	}
	for _, r := range rows {
		if r.Running {
			return r.ID, nil
		}
	}
	return rows[0].ID, nil
}

// rows returns the sessions of one workspace, or of all if where is empty. The session
// with the latest event is first.
func (s *Site) rows(ctx context.Context, where string) ([]Row, error) {
	sums, err := s.store.Summaries(ctx, where)
	if err != nil {
		return nil, err
	}
	rows := make([]Row, len(sums))
	for i, sum := range sums {
		rows[i] = s.row(sum)
	}
	if err := s.refreshEnded(ctx, where, rows); err != nil {
		return nil, err
	}
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Compare(b.UpdatedUS, a.UpdatedUS) })
	return rows, nil
}

// refreshEnded reads again the rows that seem interrupted. If a session's process ended
// between the look at the store and the look at its lock, the store has its end now.
func (s *Site) refreshEnded(ctx context.Context, where string, rows []Row) error {
	if !slices.ContainsFunc(rows, func(r Row) bool { return r.Interrupted }) {
		return nil
	}
	sums, err := s.store.Summaries(ctx, where)
	if err != nil {
		return err
	}
	now := make(map[session.ID]session.Summary, len(sums))
	for _, sum := range sums {
		now[sum.ID] = sum
	}
	for i, r := range rows {
		if sum, ok := now[r.ID]; ok && r.Interrupted && sum.LastSeq != r.LastSeq {
			rows[i] = s.row(sum)
		}
	}
	return nil
}

func (s *Site) row(sum session.Summary) Row {
	r := Row{Summary: sum}
	if sum.State.Terminal() {
		return r
	}
	_, r.Running, _ = lock.Read(s.lockFile(sum.ID))                     // an unreadable lock file has no holder; resume reports the error
	r.Interrupted = !r.Running && underWay(sum.State) && sum.Calls == 0 // an agent's session waits for its agent
	return r
}

// underWay reports whether s is the state of a session that is executed or was killed.
func underWay(s session.State) bool { return s == session.Executing || s == session.Planning }

func summary(s *session.Session) session.Summary {
	return session.Summary{
		ID: s.ID, Short: s.Short, State: s.State, Reason: s.Reason, Task: s.Task, Workspace: s.Workspace, Tasks: s.Tasks,
		Steps: s.StepTotal, Done: s.Done, Calls: s.Calls, Epoch: s.Epoch, LastSeq: s.LastSeq, CreatedUS: s.CreatedUS, UpdatedUS: s.LastUS,
	}
}

// stands returns the place in p at which s stands.
func stands(s *session.Session, p *session.Plan, next session.Continuation) Position {
	it, ok := next.Stands(s)
	if !ok {
		return Position{}
	}
	return placeOf(p, it)
}

func placeOf(p *session.Plan, it session.Item) Position {
	return Position{Task: it.Task, Tasks: len(p.Tasks), Step: it.Step, Steps: len(p.Tasks[it.Task-1].Steps)}
}

// freshOutlook is outlook with the row of the session. If the executing process has ended
// between the look at the store and the look at its lock, it looks again.
func (s *Site) freshOutlook(ctx context.Context, id session.ID) (Row, *session.Session, *session.Plan, session.Continuation, error) {
	for {
		sess, p, next, err := s.outlook(ctx, id)
		if err != nil {
			return Row{}, nil, nil, next, err
		}
		rows := []Row{s.row(summary(sess))}
		if err := s.refreshEnded(ctx, sess.Workspace, rows); err != nil {
			return Row{}, nil, nil, next, err
		}
		if rows[0].LastSeq == sess.LastSeq {
			return rows[0], sess, p, next, nil
		}
	}
}

// outlook plans the remaining work without looking at files or commands.
func (s *Site) outlook(ctx context.Context, id session.ID) (*session.Session, *session.Plan, session.Continuation, error) {
	sess, err := s.store.View(ctx, id)
	if err != nil {
		return nil, nil, session.Continuation{}, err
	}
	p, err := s.store.Plan(ctx, sess)
	if err != nil {
		return nil, nil, session.Continuation{}, err
	}
	s.Learn(p)
	next, err := resume.Plan(p, sess, nil, resume.Choices{Redact: s.Redactor.String})
	return sess, p, next, err
}
