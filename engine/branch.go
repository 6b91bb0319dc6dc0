package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/acode-dev/acode/session"
)

// branch executes one step at a time. Nothing of it is shared, except that the book reads
// it during a commit of its drafts.
type branch struct {
	*Engine

	// the step that it executes
	current session.StepID
	// receipts for the next commit
	pending []session.Draft
	// notices to show once they are durable
	onCommit []session.Notice
	// keys whose raw output is removed once the receipt is durable
	spent []string
	// keys of replies whose files are removed once the receipt is durable
	received []string
	// the yes that the next intent of a call uses
	approved approved
	// call of a model that is carried out; nil for none
	calling *session.Item
	// jobs whose last receipt is pending
	over []job
	// the key for which Policy may answer; empty for none
	answered string
	// when the command ended, if that was before its receipt; otherwise 0
	overUS int64
	// how often the current command ran again without a person's answer because its
	// outcome was unknown
	reran int

	// The fields below belong to the crew.

	// it works in the workspace
	admitted bool
	// it is to attach to a command and does not wait for it yet
	attaching bool
	// for each step whose intent names no paths: the paths that others changed during the
	// step
	meanwhile map[session.StepID]map[string]bool
}

// newBranch returns a branch of the current execution.
func (e *Engine) newBranch() *branch { return &branch{Engine: e} }

// errDrained ends a branch at its boundary after another branch ended the session.
var errDrained = errors.New("another step ended the session")

// item executes one step, a copy of an item of the continuation.
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
	step := it.Of(b.Plan)
	switch step.Kind {
	case session.KindRead, session.KindSearch:
		return b.read(ctx, it, step)
	case session.KindRun:
		return b.run(ctx, it, step)
	case session.KindApprove:
		return b.approve(ctx, it, step)
	case session.KindPrompt:
		return b.prompt(ctx, it, step)
	default:
		return b.change(ctx, it, step)
	}
}

// boundary is the point between steps where a branch may stop: for a signal, a deadline,
// a request, or because another branch ended the session.
func (b *branch) boundary(ctx context.Context) error {
	if err := b.requests(ctx); err != nil {
		return err
	}
	if b.crew.drains() {
		return errDrained
	}
	return nil
}

// requests answers the requests of other processes.
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

// answer turns a request of another process into an event, or drops one that no longer
// fits. It commits pending drafts first, because they may answer the same question. A
// request to cancel ends the branch. The session is cancelled when all branches have
// ended.
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
	denied, err := b.book.answer(ctx, r, session.ApprovalRequestedData{Question: question})
	if denied {
		b.crew.refuse(r.Step)
	}
	return err
}

// cancelling ends the branches of a session that is to be cancelled.
type cancelling struct{ request session.Request }

// Error implements error.
func (*cancelling) Error() string { return "the session is to be cancelled" }

// queue adds a draft to the next commit, and shows n after it (E2).
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

// commit makes all pending receipts and drafts durable in one transaction.
func (b *branch) commit(ctx context.Context, drafts ...session.Draft) error {
	if err := b.book.commit(ctx, b, append(b.pending, drafts...)); err != nil {
		return err
	}
	b.crew.landed(b)
	return nil
}

// tell shows a notice that needs no commit.
func (b *branch) tell(n session.Notice) { b.book.show(n) }
