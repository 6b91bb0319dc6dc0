package engine

import (
	"context"
	"encoding/json"

	"github.com/acode-dev/acode/session"
)

// AskedError is the error of a call of an outside agent that a person must allow first.
// Nothing was changed.
type AskedError struct {
	// Question is what the person is asked. It is in the journal.
	Question session.ApprovalRequestedData
	// Refusal says so to the agent.
	Refusal *session.Error
}

// Error implements error.
func (e *AskedError) Error() string { return e.Refusal.Error() }

// Unwrap returns an error with ErrApproval.
func (e *AskedError) Unwrap() error { return e.Refusal }

// Permit returns nil if the powers of the agent, or a person, allow the call. A yes of a
// person is used by the intent of the call. Otherwise the call ends without a trace,
// except for the question about it: Permit returns an AskedError, or ErrDenied after a
// no. Then the caller must not call Do.
func (a *Admitted) Permit(ctx context.Context, v session.Permission) error {
	err := a.b.refusal(&a.it, a.permit(ctx, v))
	if err != nil {
		a.b.crew.dismiss(a.b)
		a.c.giveUp(a.b, a.it.ID)
	}
	return err
}

func (a *Admitted) permit(ctx context.Context, v session.Permission) error {
	b := a.b
	switch {
	case v.Deny:
		return &session.Error{Code: session.ErrDenied, Message: "the rules of the user deny this call: " + v.Reason + "; nothing was changed",
			Next: session.Words("do not try the same in another way")}
	case !v.Ask:
		return nil
	}
	work, err := json.Marshal(a.it.Work)
	if err != nil {
		return err
	}
	q, err := b.wants(ctx, &a.it, v, work, "The agent", a.it.Call.Tool)
	if err != nil {
		return err
	}
	q.Call = a.it.Call.Digest
	a.c.asking.Lock()
	defer a.c.asking.Unlock()
	if err := a.c.hear(ctx, b); err != nil {
		return err
	}
	last := b.book.step(a.it.ID.Of()).Approval
	switch {
	case last == nil:
	case last.Digest == q.Digest && last.Valid(b.epoch):
		b.approved = q.approved()
		return nil
	case last.Digest == q.Digest && last.Answer == "denied":
		return b.refusedBy(*last)
	case last.Digest == q.Digest && last.Answer == "":
		q.Op = last.Op
		return b.waitsFor(q)
	case last.Call != q.Call && last.Valid(b.epoch):
		return anotherFirst(last.Op)
	}
	if err := b.commit(ctx, session.Draft{Type: session.ApprovalRequested, Data: q.ApprovalRequestedData}); err != nil {
		return err
	}
	return b.waitsFor(q)
}

func anotherFirst(op string) error {
	return &session.Error{Code: session.ErrApproval, Message: "a person approved another call (" + op + "), which was not made again yet, and this call needs a yes, too; nothing was changed",
		Next: session.Words("make the approved call first, then this one")}
}

func (b *branch) waitsFor(q question) error {
	return &AskedError{q.ApprovalRequestedData, &session.Error{Code: session.ErrApproval, Message: "this call needs the yes of a person: " + q.Question + "; nothing was changed",
		Next: session.Hint{Text: "tell the person; then make the same call again. The person allows it with", Do: session.MoveApprove, Session: b.short, Step: q.StepID}}}
}

func (b *branch) refusedBy(a session.Approval) error {
	message := "a person denied this call"
	if a.Reason != "" {
		message += ": " + a.Reason
	}
	id := session.CallsStep()
	id.Op = a.Op
	return &session.Error{Code: session.ErrDenied, Message: message + "; nothing was changed",
		Next: session.Hint{Text: "do not try the same in another way. The person can still allow it with", Do: session.MoveApprove, Session: b.short, Step: id}}
}

// hear takes the answers that other processes left for this one.
func (c *Calls) hear(ctx context.Context, b *branch) error {
	requests, err := b.Journal.Requests(ctx)
	if err != nil || len(requests) == 0 {
		return err
	}
	if err := b.commit(ctx); err != nil { // the execution may not have begun yet
		return err
	}
	for _, r := range requests {
		if r.Kind == session.RequestCancel {
			continue
		}
		again, err := b.lastQuestion(ctx)
		if err == nil {
			_, err = b.book.answer(ctx, r, again)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lastQuestion returns the last question about a call of the agent; zero if there is
// none.
func (b *branch) lastQuestion(ctx context.Context) (q session.ApprovalRequestedData, err error) {
	a := b.book.step(session.CallsStep()).Approval
	if a == nil {
		return q, nil
	}
	e, err := b.Journal.Event(ctx, a.Asked)
	if err == nil {
		err = e.Decode(&q)
	}
	return q, err
}

// Answer records the answer of a person to a question that an AskedError holds. It asks
// the question again if another one has followed. An answer that was given before
// stands.
func (c *Calls) Answer(ctx context.Context, q session.ApprovalRequestedData, a Answer) error {
	b := c.join()
	defer c.giveUp(b, q.StepID) // it keeps the drafts of others, unless they were committed
	c.asking.Lock()
	defer c.asking.Unlock()
	last := b.book.step(q.Of()).Approval
	var drafts []session.Draft
	switch {
	case last != nil && last.Call != q.Call && last.Valid(b.epoch):
		return anotherFirst(last.Op)
	case last == nil || last.Digest != q.Digest:
		drafts = append(drafts, session.Draft{Type: session.ApprovalRequested, Data: q})
	case last.Answer == "denied" || last.Valid(b.epoch):
		return nil
	case last.Answer != "":
		drafts = append(drafts, session.Draft{Type: session.ApprovalRequested, Data: q})
	default:
		q.Op = last.Op
	}
	return b.commit(ctx, append(drafts, b.decision(q.StepID, q.Digest, a))...)
}

// usable returns an error if an equal call used the yes that b is about to use.
func (b *branch) usable() error {
	used := b.approved.digest
	if used == "" {
		return nil
	}
	if last := b.book.step(session.CallsStep()).Approval; last != nil && last.Digest == used && last.Valid(b.epoch) {
		return nil
	}
	return &session.Error{Code: session.ErrApproval, Message: "the yes of a person was used by an equal call; nothing was changed", Next: session.Words("make the call again to ask once more")}
}
