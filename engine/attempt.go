package engine

import (
	"context"
	"time"

	"github.com/acode-dev/acode/session"
)

// took returns the duration of a step by the journal's clock. It returns 0 if the step
// has not ended.
func took(st *session.StepState) time.Duration {
	if st == nil || st.EndedUS == 0 {
		return 0
	}
	return time.Duration(st.EndedUS-st.StartedUS) * time.Microsecond
}

// key returns the key of an attempt of the step or the operation.
func (e *Engine) key(it *session.Item, attempt int) string {
	return session.KeyOf(e.id, it.ID, attempt).String()
}

// begin makes the intent of an attempt durable, then checks the fence before an effect
// (E1, E3).
func (b *branch) begin(ctx context.Context, it *session.Item, d session.StepStartedData) error {
	d.StepID, d.Kind, d.Call, d.Attempt, d.Key = it.ID, it.Kind, it.Call, it.Attempt, b.key(it, it.Attempt)
	if it.Call != nil {
		d.Approval, b.approved = b.approved.digest, approved{}
	}
	if err := b.commit(ctx, session.Draft{Type: it.ID.Event(session.StepStarted), Data: d}); err != nil {
		return err
	}
	b.tell(session.Notice{Kind: session.NoticeStarted, Item: it})
	return b.fence(ctx, it)
}

// again continues an attempt whose intent is already durable.
func (b *branch) again(ctx context.Context, it *session.Item) error {
	if err := b.commit(ctx); err != nil {
		return err
	}
	b.tell(session.Notice{Kind: session.NoticeStarted, Item: it})
	return b.fence(ctx, it)
}

// fence checks the fence before a step that may have an effect. A step that only reads
// needs no check: its receipt is refused if another process took the session over.
func (b *branch) fence(ctx context.Context, it *session.Item) error {
	if it.Kind == session.KindRead || it.Kind == session.KindSearch {
		return nil
	}
	return b.Journal.Fence(ctx)
}

// done queues the receipt of a step that succeeded.
func (b *branch) done(it *session.Item, d session.StepCompletedData) {
	d.StepID, d.Attempt, d.Key, d.EndedUS = it.ID, it.Attempt, b.key(it, it.Attempt), b.overUS
	b.queue(session.Draft{Type: it.ID.Event(session.StepCompleted), Data: d}, session.Notice{Kind: session.NoticeCompleted, Item: it})
}
