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

// queue lets the next commit take a draft along, and shows n after it (E2).
func (e *Engine) queue(d session.Draft, n session.Notice) {
	e.pending = append(e.pending, d)
	e.onCommit = append(e.onCommit, n)
}

// commit makes everything pending and drafts durable in one transaction, which a signal
// does not cut short: its outcome would be unknown.
func (e *Engine) commit(ctx context.Context, drafts ...session.Draft) error {
	ctx = context.WithoutCancel(ctx)
	all := append(e.pending, drafts...)
	if len(all) == 0 {
		return nil
	}
	e.doubt = e.Journal.Session().LastSeq
	if _, err := e.Journal.Append(ctx, all...); err != nil {
		return err
	}
	return e.committed()
}

// committed shows and removes what waited for the commit that has just happened.
func (e *Engine) committed() error {
	e.pending, e.doubt = nil, 0
	for _, n := range e.onCommit {
		if n.Item != nil {
			n.Took = e.since(e.Journal.Session().Steps[n.Item.ID])
		}
		e.Notify(n)
	}
	e.onCommit = nil
	return e.forget()
}

// forget removes the raw outputs whose receipts are durable now.
func (e *Engine) forget() error {
	for _, key := range e.spent {
		if err := e.Commands.Forget(key); err != nil {
			return err
		}
	}
	e.spent = nil
	return nil
}

// since is how long a step took by the journal's own clock; 0 while that is unknown.
func (e *Engine) since(st *session.StepState) time.Duration {
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
	d.StepID, d.Attempt, d.Key = it.ID, it.Attempt, e.key(it, it.Attempt)
	e.queue(session.Draft{Type: session.StepCompleted, Data: d}, session.Notice{Kind: session.NoticeCompleted, Item: it})
}
