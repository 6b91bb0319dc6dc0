// Package engine carries out a continuation step by step: intent, effect, receipt. The
// receipt of one step and the intent of the next are one commit, so that a step costs one
// fsync of the store; nothing is reported before the commit that holds it.
//
// Invariants, cited by tests:
//
//	E1  No effect begins before its intent is durable.
//	E2  No ✓ is shown before its receipt is durable.
//	E3  Just before each effect the epoch is read again (fencing).
//	E4  A receipt never waits for something slow: then there are two commits.
//	E5  What cannot be known is never guessed: check, declared policy or a person decide.
package engine

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/acode-dev/acode/session"
)

// Engine executes one session. Every field is needed unless it says otherwise.
type Engine struct {
	Journal  Journal
	Blobs    Blobs
	Files    Files
	Commands Commands
	Person   Person
	Plan     *session.Plan
	Policy   Policy
	Environ  []string // of commands, before captures and the step's own
	Notify   func(session.Notice)
	Redact   func(string) string // for what is shown; journal and log have doors of their own
	Log      *slog.Logger

	// Snapshot keeps the manifest of the workspace as it is left and gives its blob and the
	// git state; nil keeps none.
	Snapshot func(context.Context) (manifest, git string, err error)

	// Again is closed when a second signal asks to end the running command too.
	Again <-chan struct{}

	pending  []session.Draft     // receipts and acquisition that the next commit takes along
	onCommit []session.Notice    // to be shown once they are durable
	spent    []string            // keys whose raw output goes once the receipt is durable
	doubt    uint64              // last seq before a commit that failed; 0 when none did
	visible  *session.Visibility // captures by step
	failed   map[string]bool     // tasks with a failed step, or blocked by one
	next     session.Continuation
}

// Policy is what a person or the configuration decided beforehand.
type Policy struct {
	Uncertain session.OnInterrupt // --uncertain: answers what on_interrupt would ask; empty asks
	Force     bool                // run tasks although one that they depend on failed
}

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
	next   string
	signal int
}

// Error implements error.
func (s *stop) Error() string { return s.detail }

// Execute carries out next from its first open step to the end and returns how it ended; what
// the result says is durable. begin is committed together with the first intent. An error
// means that the store itself failed: the session is then as its last commit left it.
func (e *Engine) Execute(ctx context.Context, next session.Continuation, begin ...session.Draft) (session.Result, error) {
	e.next, e.pending = next, begin
	e.visible = session.NewVisibility(e.Plan)
	e.failed = map[string]bool{}
	err := e.walk(ctx)
	var halt *stop
	switch {
	case err == nil:
		halt = e.ending()
	case errors.As(err, &halt):
	default:
		halt, err = e.halted(ctx, err)
		if err != nil {
			return session.Result{}, err
		}
	}
	ctx = context.WithoutCancel(ctx)
	result, err := e.finish(ctx, halt)
	if errors.Is(err, session.ErrDiskFull) {
		return e.finishFull(ctx, halt, err)
	}
	return result, err
}

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

// walk does the items in order.
func (e *Engine) walk(ctx context.Context) error {
	for i := range e.next.Items {
		it := &e.next.Items[i]
		if it.Action == session.ActionSkip || e.blocked(it) {
			continue
		}
		if err := e.boundary(ctx); err != nil {
			return err
		}
		err := e.step(ctx, it)
		if err := e.stepError(ctx, it, err); err != nil {
			return err
		}
	}
	return nil
}

// blocked reports whether it cannot run because a step before it, or a task that its task
// depends on, failed.
func (e *Engine) blocked(it *session.Item) bool {
	if e.failed[it.ID.Task] {
		return true
	}
	if e.Policy.Force {
		return false
	}
	for _, d := range e.Plan.Tasks[it.Task-1].DependsOn {
		if e.failed[d] {
			e.failed[it.ID.Task] = true
			return true
		}
	}
	return false
}

// boundary is where a session may stop between two steps: on a signal, a deadline, or the
// request of somebody else.
func (e *Engine) boundary(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	requests, err := e.Journal.Requests(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	for _, r := range requests {
		if err := e.answer(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// answer turns a request of somebody else into an event, or drops it when it no longer fits.
func (e *Engine) answer(ctx context.Context, r session.Request) error {
	s := e.Journal.Session()
	var d []session.Draft
	switch st := s.Steps[r.Step]; {
	case r.Kind == session.RequestCancel:
		if err := e.commit(ctx); err != nil {
			return err
		}
		d = []session.Draft{{Type: session.StateChanged, Actor: "user", Data: session.StateChangedData{
			From: s.State, To: session.Cancelled, Reason: session.ReasonUser, Detail: r.Reason}}}
		if _, err := e.Journal.AppendAnswering(ctx, r.ID, d...); err != nil {
			return err
		}
		return cancelled()
	case st == nil || st.Approval == nil || st.Approval.Digest != r.Digest || st.Status == session.StepDone:
	case r.Kind == session.RequestApprove && st.Approval.Answer == "":
		d = []session.Draft{grant(r.Step, r.Digest, r.By, e.epoch())}
	case r.Kind == session.RequestDeny && st.Approval.Answer != "denied":
		d = []session.Draft{{Type: session.ApprovalDenied, Actor: "user", Data: session.ApprovalDeniedData{
			StepID: r.Step, Digest: r.Digest, By: r.By, Reason: r.Reason}}}
	}
	_, err := e.Journal.AppendAnswering(ctx, r.ID, d...)
	return err
}

func cancelled() *stop {
	return &stop{code: session.ErrCancelled, detail: "cancelled from elsewhere"}
}

func (e *Engine) step(ctx context.Context, it *session.Item) error {
	step := &e.Plan.Tasks[it.Task-1].Steps[it.Step-1]
	switch step.Kind {
	case session.KindRead, session.KindSearch:
		return e.read(ctx, it, step)
	case session.KindRun:
		return e.run(ctx, it, step)
	case session.KindApprove:
		return e.approve(ctx, it, step)
	default:
		return e.change(ctx, it, step)
	}
}

// failure is a step that went wrong; its receipt says so and the session's policy decides.
type failure struct {
	code    session.Code
	message string
	by      string // who declared it failed; empty: it did fail
	command *session.CommandResult
	last    []string // of what the command wrote to its standard error
	files   []session.FileState
	reason  session.Reason // of the pause; empty means task_failed
}

// Error implements error.
func (f *failure) Error() string {
	if f.by == "" {
		return f.message
	}
	return f.message + " by " + f.by
}

// stepError records a failed step and says, as an error, whether the session goes on.
func (e *Engine) stepError(ctx context.Context, it *session.Item, err error) error {
	var f *failure
	if !errors.As(err, &f) {
		return err
	}
	st := e.Journal.Session().Steps[it.ID]
	e.queue(session.Draft{Type: session.StepFailedEvent, Data: session.StepFailedData{
		StepID: it.ID, Key: st.Key, Attempt: st.Attempt, By: f.by, Code: f.code, Message: f.message, Files: f.files, Command: f.command,
	}}, session.Notice{Kind: session.NoticeFailed, Item: it, Text: e.Redact(f.Error()), Detail: f.last})
	e.Log.Warn("step failed", "event", "step_failed", "step", it.ID.String(), "code", string(f.code))
	if err := e.commit(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if f.command != nil && f.command.Cancelled { // what asked for it also says where the session goes
		if err := e.boundary(ctx); err != nil {
			return err
		}
	}
	halt := &stop{to: session.Paused, reason: session.ReasonTaskFailed, code: f.code, detail: it.ID.String() + ": " + f.Error()}
	if f.reason != "" {
		halt.reason = f.reason
		return halt
	}
	switch e.Plan.OnFailure {
	case session.FailureContinues:
		e.failed[it.ID.Task] = true
		return nil
	case session.FailureFails:
		halt.to = session.Failed
	}
	return halt
}

// ending is the stop of a session that has nothing left to do now. A time-out counts as one
// only when it alone keeps the session from being completed.
func (e *Engine) ending() *stop {
	s := e.Journal.Session()
	var halt *stop
	for i := range e.next.Items {
		st := s.Steps[e.next.Items[i].ID]
		if st == nil || st.Status != session.StepFailed {
			continue
		}
		if halt != nil {
			halt.code = session.ErrCommand
			return halt
		}
		halt = &stop{to: session.Paused, reason: session.ReasonTaskFailed, code: st.Code, detail: st.String() + ": " + st.Message}
	}
	if halt == nil {
		halt = &stop{to: session.Completed}
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
		return &stop{to: session.Paused, reason: session.ReasonTimeout, code: session.ErrTimeout, detail: "the session ran out of time"}, nil
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
		return cancelled(), nil
	}
	return &stop{to: session.Paused, reason: session.ReasonDiskFull, code: session.ErrDiskFull, detail: cause.Error()}, nil
}

// finish commits what is pending with the final state and reports the result.
func (e *Engine) finish(ctx context.Context, halt *stop) (session.Result, error) {
	s := e.Journal.Session()
	var last []session.Draft
	if halt.to != "" && e.willBe(s) != halt.to {
		d := session.StateChangedData{From: e.willBe(s), To: halt.to, Reason: halt.reason, Detail: halt.detail}
		if halt.to == session.Paused && halt.reason != session.ReasonDiskFull {
			d.Manifest, d.Git = e.snapshot(ctx)
		}
		last = append(last, session.Draft{Type: session.StateChanged, Data: d})
	}
	if err := e.commit(ctx, last...); err != nil {
		return session.Result{}, err
	}
	r := session.Result{
		Session: s.ID, Short: s.Short, State: s.State, Reason: s.Reason, Done: s.Done, Left: s.StepTotal - s.Done,
		Code: halt.code, Message: e.Redact(halt.detail), Next: halt.next, Signal: halt.signal,
	}
	if r.Next == "" && !s.State.Terminal() {
		r.Next = "acode resume " + s.Short
	}
	e.Log.Info("session stopped", "event", "session_stopped", "state", string(s.State), "reason", string(s.Reason), "code", string(halt.code), "done", r.Done, "left", r.Left)
	return r, nil
}

// snapshot takes the workspace as it is left. Without one the next resume compares with the
// start, which warns more and asks no less; so its failure must not keep a session from pausing.
func (e *Engine) snapshot(ctx context.Context) (manifest, git string) {
	if e.Snapshot == nil {
		return "", ""
	}
	manifest, git, err := e.Snapshot(ctx)
	if err != nil {
		e.Log.Warn("no manifest at the pause", "event", "snapshot_failed", "error", err.Error())
		return "", ""
	}
	return manifest, git
}

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
