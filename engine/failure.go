package engine

import (
	"context"
	"errors"
	"time"

	"github.com/acode-dev/acode/session"
)

// failure is a step that went wrong; its receipt says so and the session's policy
// decides.
type failure struct {
	code    session.Code
	message string
	// who declared it failed; empty: it did fail
	by      string
	command *session.CommandResult
	// of what the command wrote
	last  []string
	files []session.FileState
	// of the pause; empty means task_failed
	reason session.Reason

	// of a command: as it left the workspace
	manifest string
}

// Error implements error.
func (f *failure) Error() string {
	if f.by == "" {
		return f.message
	}
	return f.message + " by " + f.by
}

// starve makes f, of a command that a limit kept from starting, stop the session for a
// while whatever its policy is: the plan is not at fault.
func (f *failure) starve(rec session.CommandRecord) {
	if !rec.Starved {
		return
	}
	f.code, f.reason = session.ErrInternal, session.ReasonEnvironment
	f.message += "; " + starvation
}

const starvation = "the machine gives acode no more files, processes or memory (ulimit -a)"

// errFailed is a step that failed in a session that continues with other tasks.
var errFailed = errors.New("the step failed")

// stepError records a failed step and says, as an error, whether the session goes on.
func (b *branch) stepError(ctx context.Context, it *session.Item, err error) error {
	var f *failure
	if !errors.As(err, &f) {
		return err
	}
	b.fail(it, f)
	// One that ends the session goes with that end: were acode killed between the two, a
	// resume would try again what must not be.
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

// fail queues the receipt of an attempt that went wrong.
func (b *branch) fail(it *session.Item, f *failure) {
	st := b.book.step(it.ID)
	b.queue(session.Draft{Type: session.StepFailedEvent, Data: session.StepFailedData{
		StepID: it.ID, Key: st.Key, Attempt: st.Attempt, By: f.by, Code: f.code, Message: f.message, EndedUS: b.overUS, Files: f.files, Command: f.command, Manifest: f.manifest,
	}}, session.Notice{Kind: session.NoticeFailed, Item: it, Text: b.Redact(f.Error()), Detail: f.last})
	b.Log.Warn("step failed", "event", "step_failed", "step", it.ID.String(), "code", string(f.code))
}

// ownSignal is how long acode's own signal may be behind the one that a command ended by,
// where the whole service was told to end.
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

// fileFailure makes a step's failure of what a person can mend in the plan or the
// workspace; anything else, like a broken store or the end of the context, stays what it
// is.
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

// ended reports whether err is the end of the session's context, for whatever reason.
func ended(err error) bool {
	var sig Interrupted
	return errors.As(err, &sig) || errors.Is(err, session.ErrTimeout) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
