package resume

import (
	"context"
	"fmt"

	"github.com/acode-dev/acode/session"
)

// Operations returns an item for each operation of the session that was in progress, in
// the order of the intents. work reads the step of a call. A caller that executes nothing
// leaves r.Files nil. Nothing is changed.
func (r *Resumer) Operations(ctx context.Context, work func(context.Context, session.BlobRef) (*session.Step, error)) ([]session.Item, error) {
	var items []session.Item
	for _, op := range r.Journal.Session().Operations() {
		if op.Status != session.InProgress {
			continue
		}
		it, err := r.operation(ctx, op, work)
		if err != nil {
			return nil, fmt.Errorf("look at %s, which was in progress: %w", op.StepID, err)
		}
		items = append(items, it)
	}
	return items, nil
}

func (r *Resumer) operation(ctx context.Context, op *session.StepState, work func(context.Context, session.BlobRef) (*session.Step, error)) (it session.Item, err error) {
	ev, err := r.Journal.Event(ctx, op.StartSeq)
	if err != nil {
		return it, err
	}
	var d session.OperationStartedData
	if err := ev.Decode(&d); err != nil {
		return it, err
	}
	if d.Call == nil {
		return it, &session.Error{Code: session.ErrCorrupt, Message: "the intent of an operation names no call", Place: fmt.Sprintf("seq %d", ev.Seq)}
	}
	it = session.Item{ID: op.StepID, Title: d.Call.Tool, Label: d.Call.Label, Kind: d.Kind, Status: op.Status, Attempt: op.Attempt, Call: d.Call}
	// The reply of a model has the rest of a call that only reads.
	if reads := d.Kind == session.KindRead || d.Kind == session.KindSearch; reads && d.Call.Work.Hash == "" {
		it.Work = &session.Step{Kind: d.Kind}
	} else if it.Work, err = work(ctx, d.Call.Work); err != nil {
		return it, err
	}
	seen, err := r.observed(ctx, r.Journal.Session(), d)
	if err != nil {
		return it, err
	}
	inProgress(&it, it.Work, seen, Choices{})
	if it.Action == session.ActionRetry && d.Kind == session.KindRun && seen.Record.WasCancelled() {
		// A person ended it. The agent decides whether to call again.
		it.Action, it.Attempt, it.Why = session.ActionAttach, op.Attempt, cancelledBefore
	}
	return it, nil
}
