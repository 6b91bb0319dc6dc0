package engine

import (
	"context"

	"github.com/acode-dev/acode/session"
)

// read executes a read or search step. The step has no effect, so a step in progress is
// done again under the same key (FR-024).
func (b *branch) read(ctx context.Context, it *session.Item, step *session.Step) error {
	again := b.inProgress(it)
	if err := b.enter(ctx, it, session.StepStartedData{Digest: step.Digest()}); err != nil {
		return err
	}
	if again {
		b.handling(it, it.Action)
	}
	var receipt session.StepCompletedData
	var err error
	if step.Kind == session.KindRead {
		receipt.Files, err = b.Files.Read(ctx, *step.Read)
	} else {
		var matches string
		var cut bool
		matches, cut, receipt.Files, err = b.Files.Search(ctx, *step.Search)
		if err == nil {
			receipt.Matches, err = b.output(ctx, matches, int64(len(matches)), cut)
		}
	}
	if err != nil {
		return fileFailure(err)
	}
	b.done(it, receipt)
	return nil
}

// enter begins a new attempt, or continues the one in progress.
func (b *branch) enter(ctx context.Context, it *session.Item, d session.StepStartedData) error {
	if b.inProgress(it) {
		return b.again(ctx, it)
	}
	d.By = retriedBy(it)
	return b.begin(ctx, it, d)
}

// inProgress reports whether the item's attempt has a durable intent and no receipt.
func (b *branch) inProgress(it *session.Item) bool {
	st := b.book.step(it.ID)
	return st.Attempt == it.Attempt && (st.Status == session.InProgress || st.Status == session.StepUncertain)
}

func retriedBy(it *session.Item) string {
	if it.Attempt > 1 {
		return "resume"
	}
	return ""
}
