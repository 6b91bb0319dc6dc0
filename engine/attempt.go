package engine

import (
	"context"
	"time"

	"github.com/acode-dev/acode/session"
)

// took is how long a step took by the journal's own clock; 0 while that is unknown.
func took(st *session.StepState) time.Duration {
	if st == nil || st.EndedUS == 0 {
		return 0
	}
	return time.Duration(st.EndedUS-st.StartedUS) * time.Microsecond
}

// key names the attempt of it's main operation.
func (e *Engine) key(it *session.Item, attempt int) string {
	return session.Key{Session: e.id, Step: it.ID, Operation: session.OpMain, Attempt: attempt}.String()
}

// begin makes the intent of an attempt durable, then reads the fence before an effect
// (E1, E3).
func (b *branch) begin(ctx context.Context, it *session.Item, d session.StepStartedData) error {
	d.StepID, d.Kind, d.Attempt, d.Key = it.ID, it.Kind, it.Attempt, b.key(it, it.Attempt)
	if err := b.commit(ctx, session.Draft{Type: session.StepStarted, Data: d}); err != nil {
		return err
	}
	b.tell(session.Notice{Kind: session.NoticeStarted, Item: it})
	return b.fence(ctx, it)
}

// again goes on with an attempt whose intent is durable already.
func (b *branch) again(ctx context.Context, it *session.Item) error {
	if err := b.commit(ctx); err != nil {
		return err
	}
	b.tell(session.Notice{Kind: session.NoticeStarted, Item: it})
	return b.fence(ctx, it)
}

// fence reads the fence before a step that may have an effect. One that only looks needs
// none: its receipt is refused where another process has taken the session over.
func (b *branch) fence(ctx context.Context, it *session.Item) error {
	if it.Kind == session.KindRead || it.Kind == session.KindSearch {
		return nil
	}
	return b.Journal.Fence(ctx)
}

// done queues the receipt of a step that worked.
func (b *branch) done(it *session.Item, d session.StepCompletedData) {
	d.StepID, d.Attempt, d.Key, d.EndedUS = it.ID, it.Attempt, b.key(it, it.Attempt), b.overUS
	b.queue(session.Draft{Type: session.StepCompleted, Data: d}, session.Notice{Kind: session.NoticeCompleted, Item: it})
}
