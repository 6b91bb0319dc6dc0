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
	// not terminal, was executing, and no process executes it
	Interrupted bool
	// a process executes it now
	Running bool
}

// Position says where in a plan a session stands; positions count from 1. The zero value
// is nowhere.
type Position struct {
	Task int
	// of the plan
	Tasks int
	Step  int
	// of the task
	Steps int
}

// fewRows is how many of many things a text names that must stay short.
const fewRows = 10

// List lists the sessions of the workspace, or of every one, the most recent one first.
func (s *Site) List(ctx context.Context, all bool) ([]Row, error) {
	if all {
		return s.rows(ctx, "")
	}
	return s.rows(ctx, s.Workspace)
}

// Resumable keeps those of rows that a resume would take: no session that runs, is over,
// or continued elsewhere.
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
	return slices.DeleteFunc(rows, func(r Row) bool { return r.State.Terminal() || r.Running || elsewhere[r.ID] }), nil
}

// Asks reports whether a session has a question without an answer, which stays open when
// a signal pauses the session.
func (s *Site) Asks(ctx context.Context, r Row) bool {
	if r.State != session.Paused {
		return r.State == session.AwaitingApproval
	}
	sess, err := s.store.View(ctx, r.ID)
	return err == nil && asksStill(sess)
}

// subject is the session that a command without an id means.
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

// rows lists the sessions of one workspace, "" means all, with who executes them, the one
// with the latest event first.
func (s *Site) rows(ctx context.Context, where string) ([]Row, error) {
	sums, err := s.store.Summaries(ctx, where)
	if err != nil {
		return nil, err
	}
	rows := make([]Row, len(sums))
	for i, sum := range sums {
		rows[i] = s.row(sum)
	}
	if err := s.settle(ctx, where, rows); err != nil {
		return nil, err
	}
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Compare(b.UpdatedUS, a.UpdatedUS) })
	return rows, nil
}

// settle looks again at the sessions of where that seem interrupted: one whose process
// ended between the look at the store and that at its lock has its end in the store now.
func (s *Site) settle(ctx context.Context, where string, rows []Row) error {
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
	_, r.Running, _ = lock.Read(s.lockFile(sum.ID)) // an unreadable lock file has no holder; resume says more
	r.Interrupted = !r.Running && underWay(sum.State)
	return r
}

// underWay reports whether a session in state s is executed, or was interrupted without a
// word.
func underWay(s session.State) bool { return s == session.Executing || s == session.Planning }

func summary(s *session.Session) session.Summary {
	return session.Summary{
		ID: s.ID, Short: s.Short, State: s.State, Reason: s.Reason, Task: s.Task, Workspace: s.Workspace, Tasks: s.Tasks,
		Steps: s.StepTotal, Done: s.Done, Epoch: s.Epoch, LastSeq: s.LastSeq, CreatedUS: s.CreatedUS, UpdatedUS: s.LastUS,
	}
}

// stands gives the place in p at which s stands.
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

// settledOutlook is outlook, again where the process that executed the session ended
// meanwhile, as in settle.
func (s *Site) settledOutlook(ctx context.Context, id session.ID) (*session.Session, *session.Plan, session.Continuation, error) {
	sess, p, next, err := s.outlook(ctx, id)
	if err == nil {
		if rows := []Row{s.row(summary(sess))}; s.settle(ctx, sess.Workspace, rows) == nil && rows[0].LastSeq != sess.LastSeq {
			return s.outlook(ctx, id)
		}
	}
	return sess, p, next, err
}

// outlook plans what is left without looking at files or commands.
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
