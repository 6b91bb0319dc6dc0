package app

import (
	"context"
	"errors"
	"time"

	"github.com/acode-dev/acode/session"
)

// tally counts the work of this process that no stored session shows.
type tally struct {
	session.Work
	now func() time.Time
	// start of the current phase
	since time.Time
	// a session was chosen to be resumed
	resumes bool
	// how the resume found the session; empty if it was not loaded
	mode string
	// the process before it had also resumed the session, and was killed
	killed bool
	// epoch of the session when it was loaded
	epoch uint64
}

// begin starts the first phase.
func (t *tally) begin() { t.since = t.now() }

// ended ends a phase and starts the next one.
func (t *tally) ended(p session.ResumePhase) {
	now := t.now()
	t.Observe(p, max(0, now.Sub(t.since))) // the clock may have been set back
	t.since = now
}

// lock counts a session that could not be locked.
func (t *tally) lock(err error) {
	switch {
	case err == nil: // the session's epoch counts it
	case errors.Is(err, session.ErrLocked):
		t.Add(session.WorkKey{Kind: session.WorkLocks, Outcome: session.LockHeld}, 1)
	default:
		t.Add(session.WorkKey{Kind: session.WorkLocks, Outcome: session.LockRefused}, 1)
	}
}

// found notes how the resume found its session.
func (t *tally) found(s *session.Session) {
	t.mode, t.epoch = session.ResumeContinue, s.Epoch
	if s.State == session.Executing {
		t.mode, t.killed = session.ResumeRecover, s.Epoch > 1
	}
}

// resumed counts a resume under the state in which it left the session.
func (t *tally) resumed(left session.State) {
	add := func(mode, outcome string) {
		t.Add(session.WorkKey{Kind: session.WorkResumes, Mode: mode, Outcome: outcome}, 1)
	}
	if t.killed {
		add(session.ResumeNone, session.ResumeInterrupted)
	}
	if left != session.Created && !underWay(left) { // else the next resume counts it
		add(t.mode, string(left))
	}
}

// note adds the tally to the store after all messages. err is the error that ended the
// work; if it is nil, r is the result. note never fails or waits, and does not write to a
// store that may be damaged or cannot be written.
func (w *work) note(ctx context.Context, r session.Result, err error) {
	switch {
	case !w.tally.resumes:
	case w.writer == nil || w.writer.Session().Epoch == w.tally.epoch:
		w.tally.Add(session.WorkKey{Kind: session.WorkResumes, Mode: session.ResumeNone, Outcome: session.ResumeRefused}, 1)
	default:
		w.tally.resumed(w.writer.Session().State)
	}
	var code session.Code
	switch {
	case errors.Is(err, ErrDeclined):
	case err != nil:
		code = CodeOf(err)
	case r.Signal == 0 && r.State != session.Failed && r.Reason != session.ReasonTaskFailed: // other results do not concern the store
		code = r.Code
	}
	if w.tally.Empty() || doubtful(code) {
		return
	}
	if nerr := w.store.NoteWork(context.WithoutCancel(ctx), w.tally.Work); nerr != nil {
		w.Log.Debug("the work was not counted", "event", "work_not_counted", "error", nerr.Error())
	}
}

// doubtful reports whether code c means that the store may be damaged or cannot be
// written.
func doubtful(c session.Code) bool {
	switch c {
	case session.ErrInternal, session.ErrStoreIO, session.ErrDiskFull, session.ErrReadOnly,
		session.ErrNoCheckpoint, session.ErrTampered, session.ErrOrder, session.ErrCorrupt:
		return true
	}
	return false
}
