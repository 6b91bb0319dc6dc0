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
	"io"
	"log/slog"
	"slices"

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
	Environ  []string          // of commands, before inputs, captures and the step's own
	Inputs   *session.Inputs   // nil: none were recorded
	Secrets  map[string]string // inputs that are not recorded, as far as they are at hand
	Notify   func(session.Notice)
	Redact   func(string) string       // for what is shown; journal and log have doors of their own
	Masked   func(io.Reader) io.Reader // Redact for what is too long to be in memory; nil keeps no whole outputs
	Captured func(name, value string)  // called before anything that may hold a captured value is kept or shown; nil: nobody wants to know
	Log      *slog.Logger

	// Snapshot keeps the manifest of the workspace as it is left and gives its blob and the
	// git state; nil keeps none.
	Snapshot func(context.Context) (manifest, git string, err error)

	// Look keeps what differs in the workspace from the last Snapshot or Look, and gives its blob;
	// empty: nothing does. nil keeps nothing.
	Look func(context.Context) (manifest string, err error)

	// Again is closed when a second signal asks to end the running command too.
	Again <-chan struct{}

	// Last says that commands of this PID namespace end with this process, as they do with PID 1 of a
	// container. What leaves a command to its supervisor else then ends it, so that its end is recorded.
	Last bool

	pending  []session.Draft         // receipts and acquisition that the next commit takes along
	onCommit []session.Notice        // to be shown once they are durable
	spent    []string                // keys whose raw output goes once the receipt is durable
	doubt    uint64                  // last seq before a commit that failed; 0 when none did
	answered string                  // the key that Policy.Uncertain answers for; empty: none
	overUS   int64                   // when the command that is about to get its receipt was over, if before that; else 0
	reran    int                     // how often the command at hand ran again, its outcome unknown, with nobody asked
	visible  *session.Visibility     // captures by step
	failed   map[string]bool         // tasks with a failed step, or blocked by one
	refused  map[session.StepID]bool // gates that somebody elsewhere denied while this process executes
	next     session.Continuation
}

// Policy is what a person or the configuration decided beforehand.
type Policy struct {
	Uncertain session.OnInterrupt // --uncertain: of the attempt that was in progress before, instead of on_interrupt; empty asks
	Force     bool                // run tasks although one that they depend on failed

	Captures map[session.StepID]string // --capture: values that a person gives for commands whose outcome is unknown
}

// Execute carries out next from its first open step to the end and returns how it ended; what
// the result says is durable. begin is committed together with the first intent. An error
// means that the store itself failed: the session is then as its last commit left it.
func (e *Engine) Execute(ctx context.Context, next session.Continuation, begin ...session.Draft) (session.Result, error) {
	e.begins(next)
	e.pending = begin
	e.spent = e.unforgotten()
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

// begins forgets what came before.
func (e *Engine) begins(next session.Continuation) {
	e.next = next
	e.visible = session.NewVisibility(e.Plan)
	e.failed, e.refused = map[string]bool{}, map[session.StepID]bool{}
}

// walk does the items in order. The one that was in progress comes first: its command may still
// run, and nothing that failed before it is tried again beside it.
func (e *Engine) walk(ctx context.Context) error {
	first := e.next.InProgress
	if first >= 0 {
		if err := e.item(ctx, &e.next.Items[first]); err != nil {
			return err
		}
	}
	for i := range e.next.Items {
		if i == first {
			continue
		}
		if err := e.item(ctx, &e.next.Items[i]); err != nil {
			return err
		}
	}
	return e.afterLast(ctx)
}

// afterLast completes a session that a signal paused while its last command ended.
func (e *Engine) afterLast(ctx context.Context) error {
	s := e.Journal.Session()
	if e.willBe(s) != session.Paused {
		return nil
	}
	if err := e.commit(ctx); err != nil {
		return err
	}
	if s = e.Journal.Session(); s.Done < s.StepTotal {
		return context.Cause(ctx)
	}
	e.pending = append(e.pending, session.Draft{Type: session.StateChanged, Data: session.StateChangedData{From: session.Paused, To: session.Executing}})
	return nil
}

func (e *Engine) item(ctx context.Context, it *session.Item) error {
	if it.Action == session.ActionSkip || e.blocked(it) {
		return nil
	}
	if err := e.boundary(ctx); err != nil {
		return err
	}
	if err := e.Files.InPlace(); err != nil {
		return err
	}
	e.reran = 0
	return e.stepError(ctx, it, e.step(ctx, it))
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

// answer turns a request of somebody else into an event, or drops it when it no longer fits. What
// is pending comes first: it may answer the same question.
func (e *Engine) answer(ctx context.Context, r session.Request) error {
	if err := e.commit(ctx); err != nil {
		return err
	}
	if r.Kind == session.RequestCancel {
		if err := e.cancel(ctx, r); err != nil {
			return err
		}
		return cancelled(r.By, r.Reason)
	}
	var question string
	if at := slices.IndexFunc(e.next.Items, func(it session.Item) bool { return it.ID == r.Step }); at >= 0 {
		var err error
		if question, err = e.asks(ctx, &e.next.Items[at]); err != nil {
			return err
		}
	}
	d := e.Journal.Session().Answered(r, e.epoch(), question)
	if r.Kind == session.RequestDeny && len(d) > 0 {
		e.refused[r.Step] = true
	}
	_, err := e.Journal.AppendAnswering(ctx, r.ID, d...)
	return err
}

func (e *Engine) step(ctx context.Context, it *session.Item) error {
	e.overUS = 0
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
			n.Took = took(e.Journal.Session().Steps[n.Item.ID])
		}
		e.Notify(n)
	}
	e.onCommit = nil
	return e.forget()
}

// unforgotten gives the keys whose raw output a process that was killed just after its last
// commit had no time to remove.
func (e *Engine) unforgotten() (keys []string) {
	var last *session.StepState
	for i := range e.next.Items {
		it := &e.next.Items[i]
		st := e.Journal.Session().Steps[it.ID]
		if st == nil || it.Kind != session.KindRun {
			continue
		}
		if st.EndedUS > 0 && (last == nil || st.LastSeq > last.LastSeq) {
			last = st
		}
		if st.EndedUS == 0 && st.Attempt > 1 {
			keys = append(keys, e.key(it, st.Attempt-1))
		}
	}
	if last != nil {
		keys = append(keys, last.Key)
	}
	return keys
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
