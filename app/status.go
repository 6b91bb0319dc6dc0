package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/acode-dev/acode/lock"
	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
)

// Holder is the process that executes a session.
type Holder = lock.Holder

// Status is the present state of a session.
type Status struct {
	Row
	// At is the position of the step in progress or the next one; zero if none is left.
	At Position
	// Executes are the steps that run now. Took is the time since their start.
	Executes []session.Item
	// Detail explains the state in one line.
	Detail string
	// Holder is nil if no process executes the session.
	Holder *Holder
	// Notes are further lines, for example about a command that still runs.
	Notes []string
	// Gate is the question that the session waits for; nil if there is none.
	Gate *session.Gate
	// Delivery is the state of delivery of this session.
	Delivery Delivery
	// Next is the move that continues the session; empty if none does.
	Next session.Hint
}

// Status returns the present state of a session. Without ref it is the session that is
// executed in the workspace, else the most recent one there.
func (s *Site) Status(ctx context.Context, ref string) (Status, error) {
	id, err := s.subject(ctx, ref)
	if err != nil {
		return Status{}, err
	}
	row, sess, p, next, err := s.freshOutlook(ctx, id)
	if err != nil {
		return Status{}, err
	}
	return s.status(ctx, row, sess, p, next)
}

func (s *Site) status(ctx context.Context, row Row, sess *session.Session, p *session.Plan, next session.Continuation) (v Status, err error) {
	id := sess.ID
	v = Status{Row: row, Detail: sess.Detail, At: stands(sess, p, next)}
	if v.Running {
		for _, it := range next.Items {
			if st := sess.Steps[it.ID]; st != nil && st.Status == session.InProgress && it.Kind != session.KindCalls {
				it.Took = max(0, s.Now().Sub(time.UnixMicro(st.StartedUS)))
				v.Executes = append(v.Executes, it)
			}
		}
		v.Executes = append(v.Executes, s.callsNow(ctx, sess)...)
		if h, held, err := lock.Read(s.lockFile(id)); err == nil && held { // the holder may have ended since
			v.Holder, v.Notes = &h, holderNotes(h)
		}
	}
	if v.Delivery, err = s.Delivery(ctx, id); err != nil {
		return v, err
	}
	answers, open, err := s.approvals(ctx, sess, p, &next)
	if err != nil {
		return v, err
	}
	v.Gate, v.Notes = open, slices.Concat(v.Notes, s.commandNotes(id), waitNotes(p, next, v.Running), answers)
	held, err := s.heldNotes(ctx, sess)
	v.Notes = append(v.Notes, held...)
	if err != nil || sess.State.Terminal() {
		return v, err
	}
	if !v.Running {
		interrupted, err := s.interruptedNotes(ctx, sess, p)
		if err != nil {
			return v, err
		}
		v.Notes = append(v.Notes, interrupted...)
	}
	asked, err := s.store.Requests(ctx, id)
	v.Notes = append(v.Notes, requestNotes(asked, v.Running)...)
	switch {
	case s.notForked(ctx, id) != nil: // a resume would be refused; Delivery has the next step
	case len(held) > 0 && (p.Agent != nil || !v.Running && !asksQuestion(sess)):
		v.Next = session.Then("to see the held changes and decide", session.MoveApprove, sess.Short)
	case p.Agent != nil && asksQuestion(sess):
		v.Next = next.Ask(session.MoveApprove, sess)
	case p.Agent != nil: // its agent continues it
	case !v.Running:
		v.Next = nextHint(sess, p, next)
	case sess.State == session.AwaitingApproval && asksFirst(sess, next) && len(asked) == 0:
		v.Next = next.Ask(session.MoveApprove, sess) // this answer replaces the one at the session's terminal
	}
	return v, err
}

// requestNotes returns a line for each unanswered request to the process that executes
// the session, or executed it last.
func requestNotes(asked []session.Request, running bool) []string {
	var notes []string
	for _, r := range asked {
		note := requestNote(r)
		switch {
		case running:
		case r.Kind == session.RequestCancel:
			note += "; the next resume cancels the session"
		default:
			note += "; the next resume takes that answer"
		}
		notes = append(notes, note)
	}
	return notes
}

func requestNote(r session.Request) string {
	note := r.By + " asked to " + string(r.Kind)
	if r.Kind != session.RequestCancel {
		note += " " + r.Step.String()
	}
	if r.Reason != "" {
		note += " (" + r.Reason + ")"
	}
	return note + ", and got no answer"
}

// holderNotes returns a note about a holder that is stopped: it does nothing while all
// others wait for it.
func holderNotes(h lock.Holder) []string {
	if !h.Stopped() {
		return nil
	}
	return []string{fmt.Sprintf("the process that executes it is stopped, as by Ctrl-Z; fg in its terminal, or kill -CONT %d, continues it", h.PID)}
}

// commandNotes names the commands that still run, and the records that cannot be read.
func (s *Site) commandNotes(id session.ID) []string {
	records, unread := command.Records(s.commandDir(id))
	var notes []string
	for _, err := range unread {
		notes = append(notes, err.Error())
	}
	for _, r := range records {
		what := r.Key
		if k, err := session.ParseKey(r.Key); err == nil {
			what = k.Step.String()
		}
		halt := ""
		if r.Stopped != "" {
			halt = "; " + r.Stopped
		}
		pid := "its pid is not known here"
		if r.PID != 0 {
			pid = fmt.Sprintf("pid %d", r.PID)
		}
		switch r.State {
		case session.CommandRunning:
			notes = append(notes, fmt.Sprintf("a command is running: %s (%s)%s", what, pid, halt))
		case session.CommandUnattended:
			notes = append(notes, fmt.Sprintf("a command is running without its supervisor: %s (%s)%s", what, pid, halt))
		case session.CommandLingering:
			notes = append(notes, "a command has ended, and processes that it started still run: "+what)
		}
	}
	return notes
}

// waitNotes names, for each next step that waits while the session is executed, the step
// in progress that it waits for.
func waitNotes(p *session.Plan, next session.Continuation, running bool) (notes []string) {
	if !running {
		return nil
	}
	var beside []session.Item
	for _, i := range next.InProgress {
		if it := next.Items[i]; it.Status == session.InProgress {
			beside = append(beside, it)
		}
	}
	if len(beside) == 0 {
		return nil
	}
	left := map[string]bool{} // tasks that are not done
	for _, it := range next.Items {
		left[it.ID.Task] = left[it.ID.Task] || it.Action != session.ActionSkip
	}
	for i, it := range next.Items {
		task := &p.Tasks[it.Task-1]
		first := it.Step == 1 || next.Items[i-1].Action == session.ActionSkip
		if it.Status != session.Pending || !first || slices.ContainsFunc(task.DependsOn, func(on string) bool { return left[on] }) {
			continue
		}
		for _, other := range beside {
			if why := task.Steps[it.Step-1].WaitsFor(&p.Tasks[other.Task-1].Steps[other.Step-1]); why != "" {
				notes = append(notes, fmt.Sprintf("%s waits for %s: %s", it.ID, other.ID, why))
				break
			}
		}
	}
	return notes
}

// nextHint returns the move that continues s. c is the remaining work.
func nextHint(s *session.Session, p *session.Plan, c session.Continuation) session.Hint {
	switch {
	case s.State == session.AwaitingApproval && asksFirst(s, c):
		return c.Ask(session.MoveApproveResume, s)
	case s.Reason == session.ReasonUncertain:
		if it, ok := c.First(); ok && it.Kind == session.KindRun {
			return p.Asks(s.Short, &it)
		}
		return session.Do(session.MoveAnswer, s.Short)
	}
	return session.Do(session.MoveResume, s.Short)
}

// asksFirst reports whether the first question of a resume of s has no answer yet. Later
// questions do not count.
func asksFirst(s *session.Session, c session.Continuation) bool {
	for _, it := range c.Items {
		if st := s.Steps[it.ID]; it.Action != session.ActionSkip && st != nil && st.Approval != nil {
			return st.Approval.Answer == ""
		}
	}
	return false
}

// asksStill reports whether any question of s has no answer yet.
func asksStill(s *session.Session) bool {
	for _, st := range s.Steps {
		if len(st.Held) > 0 {
			return true
		}
	}
	return asksQuestion(s)
}

// asksQuestion reports whether a question of the plan of s has no answer yet.
func asksQuestion(s *session.Session) bool {
	for _, st := range s.Steps {
		if st.Approval != nil && st.Approval.Answer == "" && st.Status != session.StepDone {
			return true
		}
	}
	return false
}

// interruptedNotes names the interrupted steps of sess, and how the next resume handles
// each. It reads only the records of commands.
func (s *Site) interruptedNotes(ctx context.Context, sess *session.Session, p *session.Plan) (notes []string, err error) {
	seen := map[session.StepID]resume.Seen{}
	runner := s.records(sess.ID)
	for id, st := range sess.Steps {
		if st.Status == session.InProgress {
			rec, err := traced(ctx, runner, st.Key)
			if err != nil {
				rec = session.CommandRecord{State: session.CommandUnknown, Why: "its record cannot be read"}
			}
			seen[id] = resume.Seen{Record: rec}
		}
	}
	next, err := resume.Plan(p, sess, seen, resume.Choices{Redact: s.Redactor.String})
	if err != nil {
		return nil, err
	}
	for _, it := range next.Items {
		st := sess.Steps[it.ID]
		switch {
		case st == nil || it.Action == session.ActionAttach && seen[it.ID].Record.State != session.CommandFinished: // commandNotes says that it runs
		case it.Kind == session.KindRun && (it.Status == session.InProgress || it.Status == session.StepUncertain):
			notes = append(notes, it.ID.String()+" was interrupted: "+it.Why)
		case it.Status == session.InProgress && len(p.Tasks[it.Task-1].Steps[it.Step-1].Changes) > 0:
			notes = append(notes, it.ID.String()+" was interrupted: the next resume looks at its files and finishes it or does it again")
		case it.Status == session.StepFailed && st.Code.Ordered():
			notes = append(notes, it.ID.String()+": "+it.Why)
		}
	}
	return notes, nil
}

// traced is Trace for readers: it waits at most a second for a frozen supervisor, then
// uses the record.
func traced(ctx context.Context, runner *command.Runner, key string) (session.CommandRecord, error) {
	within, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if rec, err := runner.Trace(within, key); err == nil {
		return rec, nil
	}
	return runner.Look(ctx, key)
}
