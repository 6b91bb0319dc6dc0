package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/acode-dev/acode/session"
)

// Interrupted is the cause of a context that a signal ended.
type Interrupted struct{ Signal int }

// Error implements error.
func (Interrupted) Error() string { return "interrupted by a signal" }

// stop ends the execution: the session goes to a state, for a reason.
type stop struct {
	to     session.State // empty: stays as it is
	reason session.Reason
	code   session.Code // empty: no failure
	detail string
	aside  string // said after detail and not kept: it will not stay true
	next   session.Hint
	signal int
}

// Error implements error.
func (s *stop) Error() string { return s.detail + s.aside }

// finishFull finishes when the commit of was met a full disk: with all that is pending if the
// reserved room holds it, else with the pause alone.
func (e *Engine) finishFull(ctx context.Context, was *stop, cause error) (result session.Result, err error) {
	for _, alone := range []bool{false, true} {
		if was, err = e.full(ctx, was, cause); err != nil {
			return result, err
		}
		if alone {
			e.pending, e.onCommit, e.spent = nil, nil, nil // found again at the next resume
		}
		if result, cause = e.finish(ctx, was); !errors.Is(cause, session.ErrDiskFull) {
			return result, cause
		}
	}
	return result, cause
}

// outOfTime is the stop of a session whose own time is over.
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

// ending is the stop of a session that has nothing left to do now. A time-out counts as one
// only when it alone keeps the session from being completed.
func (e *Engine) ending() *stop {
	s := e.Journal.Session()
	var halt *stop
	more := -1 // than the one that is named
	for i := range e.next.Items {
		st := s.Steps[e.next.Items[i].ID]
		if st == nil || st.Status != session.StepFailed {
			continue
		}
		more++
		if halt == nil {
			halt = &stop{to: session.Paused, reason: session.ReasonTaskFailed, code: st.Code, detail: st.String() + ": " + st.Message}
		}
	}
	switch {
	case halt == nil:
		return &stop{to: session.Completed}
	case more > 0:
		halt.detail += fmt.Sprintf("; %d more failed", more)
		if halt.code == session.ErrTimeout { // it does not stand alone
			halt.code = session.ErrCommand
		}
	}
	return halt
}

// halted turns what ended the walk into a stop, or returns it when the store failed.
func (e *Engine) halted(ctx context.Context, err error) (*stop, error) {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = context.Cause(ctx) // an adapter need not know why it was interrupted
	}
	var sig Interrupted
	switch {
	case errors.As(err, &sig):
		return &stop{to: session.Paused, reason: session.ReasonSignal, signal: sig.Signal, detail: "interrupted by a signal"}, nil
	case errors.Is(err, session.ErrTimeout) || errors.Is(err, context.DeadlineExceeded):
		return outOfTime(""), nil
	case errors.Is(err, context.Canceled):
		return &stop{to: session.Paused, reason: session.ReasonUser, detail: "interrupted"}, nil
	case errors.Is(err, session.ErrFileChanged) || errors.Is(err, session.ErrEnvironment):
		return &stop{to: session.Paused, reason: session.ReasonEnvironment, code: session.CodeOf(err), detail: err.Error()}, nil
	case errors.Is(err, session.ErrDiskFull):
		return e.full(context.WithoutCancel(ctx), nil, err)
	}
	return nil, err
}

// full makes room to leave the session paused on a full disk. What is pending goes with the
// pause: nobody may be asked twice for an answer. A commit that failed may have happened all
// the same, which the journal knows now; if it was the one of was, that stands.
func (e *Engine) full(ctx context.Context, was *stop, cause error) (*stop, error) {
	if err := e.Journal.Recover(ctx); err != nil {
		return nil, errors.Join(cause, err)
	}
	s := e.Journal.Session()
	if happened := e.doubt > 0 && s.LastSeq > e.doubt; happened {
		if err := e.committed(); err != nil {
			return nil, errors.Join(cause, err)
		}
		if was != nil {
			return was, nil
		}
	}
	if s.State == session.Cancelled {
		return cancelled("", s.Detail), nil
	}
	return &stop{to: session.Paused, reason: session.ReasonDiskFull, code: session.ErrDiskFull, detail: cause.Error()}, nil
}

// finish commits what is pending with the final state and reports the result.
func (e *Engine) finish(ctx context.Context, halt *stop) (session.Result, error) {
	s := e.Journal.Session()
	var last []session.Draft
	if halt.to != "" && e.willBe(s) != halt.to {
		d := session.StateChangedData{From: e.willBe(s), To: halt.to, Reason: halt.reason, Detail: halt.detail, Code: halt.code, Signal: halt.signal}
		if halt.to == session.Paused && halt.reason != session.ReasonDiskFull {
			d.Manifest, d.Git = e.snapshot(ctx, halt.reason)
		}
		last = append(last, session.Draft{Type: session.StateChanged, Data: d})
	}
	if err := e.commit(ctx, last...); err != nil {
		return session.Result{}, err
	}
	r := session.Result{
		Session: s.ID, Short: s.Short, State: s.State, Reason: s.Reason, Done: s.Done, Left: s.StepTotal - s.Done,
		Code: halt.code, Message: e.Redact(halt.Error()), Next: halt.next, Signal: halt.signal,
	}
	if r.Next.IsZero() && !s.State.Terminal() {
		r.Next = session.Do(session.MoveResume, s.Short)
	}
	e.Log.Info("session stopped", "event", "session_stopped", "state", string(s.State), "reason", string(s.Reason), "code", string(halt.code), "done", r.Done, "left", r.Left)
	return r, nil
}

// lastLook is how long the look at the workspace may take after a signal, which ends acode within a
// second.
const lastLook = 250 * time.Millisecond

// snapshot takes the workspace as it is left for that reason. Without one the next resume compares
// with the start, which warns more and asks no less; so its failure must not keep a session from pausing.
func (e *Engine) snapshot(ctx context.Context, reason session.Reason) (manifest, git string) {
	if e.Snapshot == nil {
		return "", ""
	}
	if reason == session.ReasonSignal {
		limited, cancel := context.WithTimeout(ctx, lastLook)
		defer cancel()
		ctx = limited
	}
	manifest, git, err := e.Snapshot(ctx)
	if err != nil {
		e.Log.Warn("no manifest at the pause", "event", "snapshot_failed", "error", err.Error())
		return "", ""
	}
	return manifest, git
}
