package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/acode-dev/acode/session"
)

// Interrupted is the cause of a context that a signal ended.
type Interrupted struct{ Signal int }

// Error implements error.
func (Interrupted) Error() string { return "interrupted by a signal" }

// stop ends the execution with a new state of the session and a reason.
type stop struct {
	// empty keeps the state
	to     session.State
	reason session.Reason
	// empty for no failure
	code   session.Code
	detail string
	// shown after detail but not recorded, because it is true only now
	aside  string
	next   session.Hint
	signal int
}

// Error implements error.
func (s *stop) Error() string { return s.detail + s.aside }

// finishFull finishes after the commit of was met a full disk. It commits everything
// pending if the reserved space is large enough, and otherwise only the pause.
func (b *branch) finishFull(ctx context.Context, was *stop, cause error) (result session.Result, err error) {
	for _, alone := range []bool{false, true} {
		if was, err = b.full(ctx, was, cause); err != nil {
			return result, err
		}
		if alone {
			b.pending, b.onCommit, b.spent = nil, nil, nil // the next resume finds the results again
		}
		if result, cause = b.finish(ctx, was); !errors.Is(cause, session.ErrDiskFull) {
			return result, cause
		}
	}
	return result, cause
}

// outOfTime returns the stop of a session whose timeout has passed.
func outOfTime(aside string) *stop {
	return &stop{to: session.Paused, reason: session.ReasonTimeout, code: session.ErrTimeout, detail: "the session ran out of time", aside: aside}
}

func cancelled(by, why string) *stop {
	detail := "cancelled from elsewhere"
	if by != "" {
		detail += " by " + by
	}
	if why != "" {
		detail += ": " + why
	}
	return &stop{code: session.ErrCancelled, detail: detail}
}

// interrupted returns the stop of a session that a signal interrupted.
func interrupted(sig Interrupted) *stop {
	return &stop{to: session.Paused, reason: session.ReasonSignal, signal: sig.Signal, detail: "interrupted by a signal"}
}

// drains reports whether s ends the session, with all its branches at their next
// boundary. A stop that only waits for a person or a model stops its own task.
func (s *stop) drains() bool {
	return s.to == session.Failed || s.to == session.Paused && !slices.Contains([]session.Reason{
		session.ReasonUncertain, session.ReasonApproval, session.ReasonProvider,
		session.ReasonMaxTurns, session.ReasonTokens, session.ReasonBudget, session.ReasonNoProgress, session.ReasonPlanning}, s.reason)
}

// weight orders the stops of several branches. The stop with the least weight ends the
// session.
func (s *stop) weight() int {
	switch {
	case s.reason == session.ReasonSignal:
		return 0
	case s.reason == session.ReasonTimeout, s.reason == session.ReasonUser:
		return 1
	case s.reason == session.ReasonEnvironment, s.reason == session.ReasonDiskFull:
		return 2
	case s.to == session.Failed:
		return 3
	case s.reason == session.ReasonTaskFailed:
		return 4
	case s.reason == session.ReasonUncertain:
		return 5
	case s.to == session.Paused: // denied
		return 6
	}
	return 7
}

// verdict returns the stop of the session: the one with the least weight, with the
// details of all stops of the same weight.
func (c *crew) verdict() *stop {
	slices.SortStableFunc(c.stops, func(a, b placed) int { return cmp.Or(cmp.Compare(a.weight(), b.weight()), cmp.Compare(a.at, b.at)) })
	halt := *c.stops[0].stop
	for _, other := range c.stops[1:] {
		if other.weight() != halt.weight() {
			break
		}
		if other.detail != halt.detail {
			halt.detail += "; " + other.detail
		}
		halt.aside += other.aside
		if halt.code == session.ErrTimeout && other.code != halt.code { // the timeout is not the only reason
			halt.code = other.code
		}
	}
	return &halt
}

// ending returns the stop of a session without work left. Its code is ErrTimeout only if
// the timeout alone prevents the session from being completed.
func (b *branch) ending() (halt *stop) {
	more := -1 // number of failures besides the first
	b.book.look(func(s *session.Session) {
		for i := range b.next.Items {
			st := s.Steps[b.next.Items[i].ID]
			if st == nil || st.Status != session.StepFailed {
				continue
			}
			more++
			if halt == nil {
				halt = &stop{to: session.Paused, reason: session.ReasonTaskFailed, code: st.Code, detail: st.String() + ": " + st.Message}
			}
		}
	})
	switch {
	case halt == nil:
		return &stop{to: session.Completed}
	case more > 0:
		halt.detail += fmt.Sprintf("; %d more failed", more)
		if halt.code == session.ErrTimeout { // the timeout is not the only reason
			halt.code = session.ErrCommand
		}
	}
	return halt
}

// afterLast completes a session that a signal paused while its last command ended.
func (b *branch) afterLast(ctx context.Context) error {
	b.crew.collect(b)
	if b.book.willBe(b.pending) != session.Paused {
		return nil
	}
	if err := b.commit(ctx); err != nil {
		return err
	}
	left := 0
	b.book.look(func(s *session.Session) { left = s.StepTotal - s.Done })
	if left > 0 {
		return context.Cause(ctx)
	}
	b.pending = append(b.pending, session.Draft{Type: session.StateChanged, Data: session.StateChangedData{To: session.Executing}})
	return nil
}

// pause turns the error of a branch into a stop. It returns nil for an error of the
// store.
func pause(ctx context.Context, err error) *stop {
	var halt *stop
	if errors.As(err, &halt) {
		return halt
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = context.Cause(ctx) // an adapter may not know the cause
	}
	var sig Interrupted
	switch {
	case errors.As(err, &sig):
		return interrupted(sig)
	case errors.Is(err, session.ErrTimeout) || errors.Is(err, context.DeadlineExceeded):
		return outOfTime("")
	case errors.Is(err, context.Canceled):
		return &stop{to: session.Paused, reason: session.ReasonUser, detail: "interrupted"}
	case errors.Is(err, session.ErrFileChanged) || errors.Is(err, session.ErrEnvironment):
		return &stop{to: session.Paused, reason: session.ReasonEnvironment, code: session.CodeOf(err), detail: err.Error()}
	}
	return nil
}

// halted turns the error of the branches into a stop. It returns an error of the store.
func (b *branch) halted(ctx context.Context, err error) (*stop, error) {
	if halt := pause(ctx, err); halt != nil {
		return halt, nil
	}
	if errors.Is(err, session.ErrDiskFull) {
		return b.full(context.WithoutCancel(ctx), nil, err)
	}
	return nil, err
}

// full frees space and returns the stop that leaves the session paused on a full disk.
// Pending drafts are committed with the pause, so that no person is asked twice for an
// answer. The failed commit may have happened, as the recovered journal shows. If that
// commit was the one of was, full returns was.
func (b *branch) full(ctx context.Context, was *stop, cause error) (*stop, error) {
	if err := b.Journal.Recover(ctx); err != nil {
		return nil, errors.Join(cause, err)
	}
	happened, err := b.book.happened()
	if err != nil {
		return nil, errors.Join(cause, err)
	}
	if happened && was != nil {
		return was, nil
	}
	halt := &stop{to: session.Paused, reason: session.ReasonDiskFull, code: session.ErrDiskFull, detail: cause.Error()}
	b.book.look(func(s *session.Session) {
		if s.State == session.Cancelled {
			halt = cancelled("", s.Detail)
		}
	})
	return halt, nil
}

// finish commits pending drafts with the final state and returns the result.
func (b *branch) finish(ctx context.Context, halt *stop) (r session.Result, err error) {
	b.crew.collect(b)
	var last []session.Draft
	if halt.to != "" && b.book.willBe(b.pending) != halt.to {
		d := session.StateChangedData{To: halt.to, Reason: halt.reason, Detail: halt.detail, Code: halt.code, Signal: halt.signal}
		if halt.to == session.Paused && halt.reason != session.ReasonDiskFull {
			d.Manifest, d.Git = b.snapshot(ctx, halt.reason)
		}
		last = append(last, session.Draft{Type: session.StateChanged, Data: d})
	}
	if err := b.commit(ctx, last...); err != nil {
		return session.Result{}, err
	}
	b.book.look(func(s *session.Session) {
		r = session.Result{
			Session: s.ID, Short: s.Short, State: s.State, Reason: s.Reason, Done: s.Done, Left: s.StepTotal - s.Done,
			Code: halt.code, Message: b.Redact(halt.Error()), Next: halt.next, Signal: halt.signal,
		}
	})
	if r.Code == session.ErrApproval {
		b.book.look(func(s *session.Session) { r.Next = b.next.Ask(session.MoveApproveResume, s) })
	}
	if r.Next.IsZero() && !r.State.Terminal() {
		r.Next = session.Do(session.MoveResume, r.Short)
	}
	b.Log.Info("session stopped", "event", "session_stopped", "state", string(r.State), "reason", string(r.Reason), "code", string(halt.code), "done", r.Done, "left", r.Left)
	return r, nil
}

// lastLook limits the look at the workspace after a signal, because acode ends within a
// second.
const lastLook = 250 * time.Millisecond

// snapshot stores the manifest of the workspace at a pause. Without it, the next resume
// compares with the start and warns about more files, but asks no less. Therefore a
// failure must not prevent the pause.
func (b *branch) snapshot(ctx context.Context, reason session.Reason) (manifest, git string) {
	if b.Snapshot == nil {
		return "", ""
	}
	if reason == session.ReasonSignal {
		limited, cancel := context.WithTimeout(ctx, lastLook)
		defer cancel()
		ctx = limited
	}
	b.looking.Lock()
	defer b.looking.Unlock()
	manifest, git, err := b.Snapshot(ctx, b.book.status)
	if err != nil {
		b.Log.Warn("the manifest could not be stored at the pause", "event", "snapshot_failed", "error", err.Error())
		return "", ""
	}
	b.crew.looked(manifest)
	return manifest, git
}
