package engine

import (
	"context"
	"errors"
	"time"

	"github.com/acode-dev/acode/session"
)

// failure is the error of a failed step. Its receipt records the failure, and the
// session's policy decides about the rest.
type failure struct {
	code    session.Code
	message string
	// who declared the step failed; empty if it did fail
	by      string
	command *session.CommandResult
	// last lines of the command's output
	last  []string
	files []session.FileState
	// reason of the pause; empty means task_failed
	reason session.Reason

	// manifest of the workspace after a command
	manifest string
	// changes of protected paths that were put back
	held []session.HeldChange
}

// Error implements error.
func (f *failure) Error() string {
	if f.by == "" {
		return f.message
	}
	return f.message + " by " + f.by
}

// starve changes f if a limit prevented the start of the command. Then the session pauses
// under every on_failure policy, because the plan is not at fault.
func (f *failure) starve(rec session.CommandRecord) {
	if !rec.Starved {
		return
	}
	f.code, f.reason = session.ErrInternal, session.ReasonEnvironment
	f.message += "; " + starvation
}

const starvation = "the machine gives acode no more files, processes or memory (ulimit -a)"

// errFailed is the error of a failed step in a session that continues with other tasks.
var errFailed = errors.New("the step failed")

// stepError records a failed step. The returned error says whether the session continues.
func (b *branch) stepError(ctx context.Context, it *session.Item, err error) error {
	var f *failure
	if !errors.As(err, &f) {
		return err
	}
	b.fail(it, f)
	// A failure that ends the session is committed together with that end. If acode were
	// killed between two commits, a resume would try the step again, which must not
	// happen.
	final := b.Plan.OnFailure == session.FailureFails && f.reason == "" && ctx.Err() == nil
	if !final {
		if err := b.commit(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	if err := b.requests(ctx); err != nil {
		return err
	}
	halt := &stop{to: session.Paused, reason: session.ReasonTaskFailed, code: f.code, detail: it.ID.String() + ": " + f.Error()}
	if f.reason != "" {
		halt.reason = f.reason
		return halt
	}
	switch b.Plan.OnFailure {
	case session.FailureContinues:
		return errFailed
	case session.FailureFails:
		halt.to = session.Failed
	}
	return halt
}

// fail queues the receipt of a failed attempt.
func (b *branch) fail(it *session.Item, f *failure) {
	st := b.book.step(it.ID)
	b.queue(session.Draft{Type: it.ID.Event(session.StepFailedEvent), Data: session.StepFailedData{
		StepID: it.ID, Key: st.Key, Attempt: st.Attempt, By: f.by, Code: f.code, Message: f.message, EndedUS: b.overUS, Files: f.files, Command: f.command, Manifest: f.manifest, Held: f.held,
	}}, session.Notice{Kind: session.NoticeFailed, Item: it, Text: b.Redact(f.Error()), Detail: f.last})
	b.Log.Warn("step failed", "event", "step_failed", "step", it.ID.String(), "code", string(f.code))
}

// ownSignal is how much later acode's own signal may arrive than the signal of its
// command when a whole service is stopped.
const ownSignal = 100 * time.Millisecond

// awaitEnd waits until ctx ends, at most limit.
func awaitEnd(ctx context.Context, limit time.Duration) {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// fileFailure turns an error that a person can fix in the plan or the workspace into a
// failure of the step. It returns any other error unchanged, such as a broken store or
// the end of the context.
func fileFailure(err error) error {
	code := session.CodeOf(err)
	switch code {
	case session.ErrFileStep, session.ErrEscape, session.ErrReadOnly:
		return &failure{code: code, message: err.Error()}
	case session.ErrDiskFull:
		return &failure{code: code, message: err.Error(), reason: session.ReasonDiskFull}
	}
	var known *session.Error
	if errors.As(err, &known) || ended(err) {
		return err
	}
	return &failure{code: session.ErrFileStep, message: err.Error()}
}

// ended reports whether err means that the session's context ended.
func ended(err error) bool {
	var sig Interrupted
	return errors.As(err, &sig) || errors.Is(err, session.ErrTimeout) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
