package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/workspace"
)

// waitsForAgent describes an agent's session while no call runs.
const waitsForAgent = "waits for its client"

// settleCalls gives each call of an agent's session that was in progress its outcome. The
// session then waits for its agent again.
func (w *work) settleCalls(ctx context.Context, root *workspace.Root, runner *command.Runner) (session.Result, error) {
	s := w.writer.Session()
	open := 0
	for _, op := range s.Ops {
		if op.Status == session.InProgress {
			open++
		}
	}
	r := session.Result{Session: s.ID, Short: s.Short, State: s.State, Left: s.StepTotal - s.Done, Calls: s.Calls, Message: "no call is open; it " + waitsForAgent}
	if open == 0 {
		return r, nil
	}
	calls, items, err := w.calls(ctx, root, runner, newEnvironment(root, w.writer, w.plan, w.Redactor))
	if err != nil {
		return session.Result{}, err
	}
	for _, it := range items {
		if err := calls.Do(ctx, it); err != nil {
			return session.Result{}, err
		}
		calls.Look(func(s *session.Session) {
			w.info(fmt.Sprintf("%s: %s: %s", it.ID, it.Label, s.Status(it.ID)))
		})
	}
	r.State = w.writer.Session().State
	r.Message = fmt.Sprintf("%s settled; it %s", plural(uint64(len(items)), "open call"), waitsForAgent)
	return r, nil
}

// callsNow returns the calls that run.
func (s *Site) callsNow(ctx context.Context, sess *session.Session) (now []session.Item) {
	for _, op := range sess.Operations() {
		var d session.OperationStartedData
		if op.Status != session.InProgress || s.eventAt(ctx, sess.ID, op.StartSeq, &d) != nil || d.Call == nil {
			continue
		}
		now = append(now, session.Item{ID: op.StepID, Title: op.Tool, Label: s.Redactor.String(d.Call.Label), Kind: d.Kind, Status: op.Status, Attempt: op.Attempt,
			Took: max(0, s.Now().Sub(time.UnixMicro(op.StartedUS)))})
	}
	return now
}

// Complete ends the session of an agent. The next connection of the agent begins another
// one. ref is as in Status. It returns ErrUsage for any other session, and ErrLocked
// while a call runs.
func (s *Site) Complete(ctx context.Context, ref, by string) (*session.Session, error) {
	id, err := s.subject(ctx, ref)
	if err != nil {
		return nil, err
	}
	held, err := s.hold(id, s.commandLine())
	if err != nil {
		return nil, s.lockedOut(ctx, id, err)
	}
	sess, err := s.complete(ctx, id, by)
	return sess, errors.Join(err, held.Release())
}

func (s *Site) complete(ctx context.Context, id session.ID, by string) (*session.Session, error) {
	w, err := s.store.Load(ctx, id)
	if err != nil {
		return nil, err
	}
	sess := w.Session()
	return sess, errors.Join(s.completeAs(ctx, w, by), w.Close())
}

func (s *Site) completeAs(ctx context.Context, w *local.Writer, by string) error {
	sess := w.Session()
	p, err := w.Plan(ctx)
	switch {
	case err != nil:
		return err
	case sess.State.Terminal():
		return &session.Error{Code: session.ErrTerminal, Message: fmt.Sprintf("the session is %s already; nothing was changed", sess.State)}
	case p.Agent == nil:
		return &session.Error{Code: session.ErrUsage, Message: "only the session of an agent is completed by a person; nothing was changed",
			Next: session.Then("this one ends with its plan", session.MoveResume, sess.Short)}
	}
	for _, op := range sess.Operations() {
		if op.Status == session.InProgress {
			return &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("the call %s has no outcome yet; nothing was changed", op.Op),
				Next: session.Then("settle it first", session.MoveResume, sess.Short)}
		}
	}
	if held, err := s.holds(ctx, sess); err != nil || len(held) > 0 {
		return cmp.Or(err, error(&session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("changes of %d calls wait for an answer; nothing was changed", len(held)),
			Next: session.Then("answer them first", session.MoveApprove, sess.Short)}))
	}
	var drafts []session.Draft
	if st := sess.Steps[session.CallsStep()]; st != nil {
		drafts = append(drafts, session.Draft{Type: session.StepCompleted, Actor: "user", Data: session.StepCompletedData{StepID: st.StepID, Key: st.Key, Attempt: st.Attempt, By: "person"}})
	}
	drafts = append(drafts, session.Draft{Type: session.StateChanged, Actor: "user", Data: session.StateChangedData{From: sess.State, To: session.Completed, Detail: "completed by " + by}})
	_, err = w.Append(ctx, drafts...)
	return err
}
