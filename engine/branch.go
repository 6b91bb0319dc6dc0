package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/acode-dev/acode/session"
)

// branch carries out one step at a time. Nothing of it is shared, but that the book reads
// it while it commits what the branch handed over.
type branch struct {
	*Engine

	// the step at hand
	current session.StepID
	// receipts that the next commit takes along
	pending []session.Draft
	// to be shown once they are durable
	onCommit []session.Notice
	// keys whose raw output goes once the receipt is durable
	spent []string
	// those whose last receipt is pending
	over []job
	// the key that Policy answers for; empty: none
	answered string
	// when the command that is about to get its receipt was over, if before that; else 0
	overUS int64
	// how often the command at hand ran again, its outcome unknown, with nobody asked
	reran int

	// What follows is the crew's.

	// it works in the workspace
	admitted bool
	// it has not come to wait for the command that it is to attach to
	attaching bool
	// paths that others changed during a step without a receipt that names none in its
	// intent
	meanwhile map[session.StepID]map[string]bool
}

// newBranch makes a branch of the execution that begins has prepared.
func (e *Engine) newBranch() *branch { return &branch{Engine: e} }

// errDrained ends a branch at its boundary: another one has ended the session.
var errDrained = errors.New("another step ended the session")

// item carries out one step, which is a copy of an item of the continuation.
func (b *branch) item(ctx context.Context, it session.Item) error {
	if err := b.boundary(ctx); err != nil {
		return err
	}
	if err := b.crew.admit(ctx, b, &it); err != nil {
		return err
	}
	defer b.crew.dismiss(b)
	if err := b.Files.InPlace(); err != nil {
		return err
	}
	b.reran, b.overUS, b.current = 0, 0, it.ID
	if it.Status == session.Pending && it.Kind != session.KindApprove {
		b.book.fresh(it.ID)
	}
	return b.stepError(ctx, &it, b.step(ctx, &it))
}

func (b *branch) step(ctx context.Context, it *session.Item) error {
	step := &b.Plan.Tasks[it.Task-1].Steps[it.Step-1]
	switch step.Kind {
	case session.KindRead, session.KindSearch:
		return b.read(ctx, it, step)
	case session.KindRun:
		return b.run(ctx, it, step)
	case session.KindApprove:
		return b.approve(ctx, it, step)
	default:
		return b.change(ctx, it, step)
	}
}

// boundary is where a branch may stop: on a signal, a deadline, the request of somebody
// else, or since another branch has ended the session.
func (b *branch) boundary(ctx context.Context) error {
	if err := b.requests(ctx); err != nil {
		return err
	}
	if b.crew.drains() {
		return errDrained
	}
	return nil
}

// requests answers what others ask for.
func (b *branch) requests(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	requests, err := b.Journal.Requests(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	for _, r := range requests {
		if err := b.answer(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// answer turns a request of somebody else into an event, or drops it when it no longer
// fits. What is pending comes first: it may answer the same question. A request to cancel
// ends the branch; it is carried out when all have ended.
func (b *branch) answer(ctx context.Context, r session.Request) error {
	if err := b.commit(ctx); err != nil {
		return err
	}
	if r.Kind == session.RequestCancel {
		return &cancelling{r}
	}
	var question string
	if at := slices.IndexFunc(b.next.Items, func(it session.Item) bool { return it.ID == r.Step }); at >= 0 {
		var err error
		if question, err = b.asks(ctx, &b.next.Items[at]); err != nil {
			return err
		}
	}
	denied, err := b.book.answer(ctx, r, question)
	if denied {
		b.crew.refuse(r.Step)
	}
	return err
}

// cancelling ends the branches of a session that is to be cancelled.
type cancelling struct{ request session.Request }

// Error implements error.
func (*cancelling) Error() string { return "the session is to be cancelled" }

// queue lets the next commit take a draft along, and shows n after it (E2).
func (b *branch) queue(d session.Draft, n session.Notice) {
	b.pending = append(b.pending, d)
	b.onCommit = append(b.onCommit, n)
}

// hasEnded reports whether the receipt of a step is pending.
func (b *branch) hasEnded(id session.StepID) bool {
	return slices.ContainsFunc(b.pending, func(d session.Draft) bool {
		switch data := d.Data.(type) {
		case session.StepCompletedData:
			return data.StepID == id
		case session.StepFailedData:
			return data.StepID == id
		}
		return false
	})
}

// commit makes everything pending and drafts durable in one transaction.
func (b *branch) commit(ctx context.Context, drafts ...session.Draft) error {
	if err := b.book.commit(ctx, b, append(b.pending, drafts...)); err != nil {
		return err
	}
	b.crew.landed(b)
	return nil
}

// tell gives a notice of what needs no commit.
func (b *branch) tell(n session.Notice) { b.book.show(n) }
