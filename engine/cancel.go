package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/acode-dev/acode/session"
)

// Cancel ends a session that no process executes, in one commit. It records the outcome
// of each step in progress, then the end of the session, so that no step of a cancelled
// session is in progress.
//
// It takes the recorded result of a command that has ended, and first terminates one that
// runs. It records an outcome that it cannot find out as unknown. request is the request
// to answer; its ID is 0 for none. ops are the operations in progress. Files may be nil
// if the workspace is gone.
func (e *Engine) Cancel(ctx context.Context, next session.Continuation, request session.Request, ops ...session.Item) error {
	e.begins(next, nil)
	return e.newBranch().cancel(ctx, request, ops...)
}

// cancelled is Cancel for the process that executes the session, after all branches have
// ended.
func (b *branch) cancelled(ctx context.Context, r session.Request) (*stop, error) {
	b.crew.collect(b)
	err := b.commit(ctx)
	var calls []session.Item
	for i := range b.next.Items {
		calls = append(calls, b.next.Items[i].Calls...)
	}
	for _, o := range b.crew.branches {
		if o.calling != nil && !slices.ContainsFunc(calls, func(it session.Item) bool { return it.ID == o.calling.ID }) {
			calls = append(calls, *o.calling)
		}
	}
	if err == nil {
		err = b.cancel(ctx, r, calls...)
	}
	if err != nil {
		return nil, err
	}
	return cancelled(r.By, r.Reason), nil
}

func (b *branch) cancel(ctx context.Context, r session.Request, ops ...session.Item) error {
	ctx = context.WithoutCancel(ctx)
	for _, it := range slices.Concat(ops, b.next.Items) {
		st := b.book.step(it.ID)
		if st.Status != session.InProgress {
			continue
		}
		b.current, it.Attempt = it.ID, st.Attempt
		if err := b.close(ctx, &it, st); err != nil {
			return err
		}
	}
	return b.book.answering(ctx, b, r.ID, append(b.pending, session.Draft{Type: session.StateChanged, Actor: "user", Data: session.StateChangedData{
		To: session.Cancelled, Reason: session.ReasonUser, Detail: r.Reason, Code: session.ErrCancelled}}))
}

// close queues the outcome of a step that is in progress when its session is cancelled.
func (b *branch) close(ctx context.Context, it *session.Item, st session.StepState) error {
	step := it.Of(b.Plan)
	b.overUS = 0
	switch {
	case step.Kind == session.KindRun:
		return b.closeCommand(ctx, it, step, st.Key)
	case len(step.Changes) > 0:
		return b.closeChange(ctx, it, st)
	}
	b.fail(it, &failure{code: session.ErrCancelled, message: "the session was cancelled before the step was done"})
	return nil
}

func (b *branch) closeCommand(ctx context.Context, it *session.Item, step *session.Step, key string) error {
	rec, err := b.Commands.Look(ctx, key) // the continuation has looked for other traces
	if err == nil && b.runsOn(ctx, key) {
		rec, err = b.terminate(ctx, key)
	}
	if err != nil && !errors.Is(err, session.ErrCorrupt) {
		return err
	}
	doubt := rec.Why
	switch {
	case err != nil:
		doubt = "its record is damaged"
	case rec.State == session.CommandUnclaimed && (it.Action == session.ActionDecide || b.leaves(ctx, key)):
		doubt = session.RecordLost
	case rec.State == session.CommandUnclaimed, rec.State == session.CommandVoid:
		b.fail(it, &failure{code: session.ErrCancelled, message: "the session was cancelled before the command was started"})
		return nil
	case rec.State == session.CommandFinished:
		var f *failure
		it.Action = session.ActionAttach // so that the receipt has the time of the end
		doubt, err = b.take(ctx, it, step, rec)
		switch {
		case errors.As(err, &f):
			b.fail(it, f)
			return nil
		case errors.Is(err, session.ErrEnvironment):
			doubt = "its result was not taken: " + err.Error()
		case err != nil || doubt == "":
			return err // nil: the receipt is queued
		}
	}
	rec.Key, rec.Why = key, doubt
	return b.recordUnknown(ctx, it, rec)
}

// closeChange records a change of files that was completely applied. It records a partial
// one as unknown, because acode undoes nothing for a session that has ended. It removes
// temporary files.
func (b *branch) closeChange(ctx context.Context, it *session.Item, st session.StepState) error {
	d, err := b.intent(ctx, it)
	if err != nil {
		return err
	}
	why := "the session was cancelled, and its workspace is gone"
	if b.Files != nil {
		progress, _, err := b.Files.Inspect(ctx, d.Key, d.Files)
		if err == nil && progress == session.Applied {
			return b.applied(ctx, it)
		}
		if err == nil {
			err = b.Files.Tidy(ctx, d.Key, d.Files)
		}
		switch {
		case err != nil:
			why = "the session was cancelled, and its files cannot be read: " + err.Error()
		case progress == session.NotApplied:
			b.fail(it, &failure{code: session.ErrCancelled, message: "the session was cancelled before its files were changed"})
			return nil
		default:
			why = "the session was cancelled while it changed its files, which stay as they are"
		}
	}
	b.queue(session.Draft{Type: it.ID.Event(session.StepUnknown), Data: session.StepUnknownData{StepID: it.ID, Key: st.Key, Attempt: st.Attempt, Why: why}},
		session.Notice{Kind: session.NoticeUncertain, Item: it, Text: why})
	return nil
}
