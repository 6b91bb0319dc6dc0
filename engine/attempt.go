package engine

import (
	"context"
	"time"

	"github.com/acode-dev/acode/session"
)

// willBe is the state of s once what is pending is committed.
func (e *Engine) willBe(s *session.Session) session.State {
	state := s.State
	for _, d := range e.pending {
		if c, ok := d.Data.(session.StateChangedData); ok {
			state = c.To
		}
	}
	return state
}

// took is how long a step took by the journal's own clock; 0 while that is unknown.
func took(st *session.StepState) time.Duration {
	if st == nil || st.EndedUS == 0 {
		return 0
	}
	return time.Duration(st.EndedUS-st.StartedUS) * time.Microsecond
}

// key names the attempt of it's main operation.
func (e *Engine) key(it *session.Item, attempt int) string {
	return session.Key{Session: e.Journal.Session().ID, Step: it.ID, Operation: session.OpMain, Attempt: attempt}.String()
}

// begin makes the intent of an attempt durable, then reads the fence (E1, E3).
func (e *Engine) begin(ctx context.Context, it *session.Item, d session.StepStartedData) error {
	d.StepID, d.Kind, d.Attempt, d.Key = it.ID, it.Kind, it.Attempt, e.key(it, it.Attempt)
	if err := e.commit(ctx, session.Draft{Type: session.StepStarted, Data: d}); err != nil {
		return err
	}
	e.Notify(session.Notice{Kind: session.NoticeStarted, Item: it})
	return e.Journal.Fence(ctx)
}

// again goes on with an attempt whose intent is durable already.
func (e *Engine) again(ctx context.Context, it *session.Item) error {
	if err := e.commit(ctx); err != nil {
		return err
	}
	e.Notify(session.Notice{Kind: session.NoticeStarted, Item: it})
	return e.Journal.Fence(ctx)
}

// done queues the receipt of a step that worked.
func (e *Engine) done(it *session.Item, d session.StepCompletedData) {
	d.StepID, d.Attempt, d.Key, d.EndedUS = it.ID, it.Attempt, e.key(it, it.Attempt), e.overUS
	e.queue(session.Draft{Type: session.StepCompleted, Data: d}, session.Notice{Kind: session.NoticeCompleted, Item: it})
}
