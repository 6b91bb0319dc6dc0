// Package engine executes a continuation: intent, effect, receipt. Each running step has
// a branch, whose code is sequential. The book commits the drafts of the branches. The
// receipt of one step and the intent of the next are one commit, so a step costs one
// fsync of the store. Steps that run at once share it.
//
// Invariants, cited by tests:
//
//	E1  No effect begins before its intent is durable.
//	E2  No ✓ is shown before its receipt is durable.
//	E3  Just before each effect the epoch is read again (fencing).
//	E4  A receipt never waits for a slow operation: then there are two commits.
//	E5  An unknown outcome is never guessed: a check, a declared policy or a person
//	    decides.
//	E6  There is one order: that of the journal.
//	E7  A branch that fails, pauses or waits for a person stops only its own task.
//	    on_failure decides about the rest.
package engine

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"

	"github.com/acode-dev/acode/session"
)

// Engine executes one session. A field must be set unless its comment says otherwise. If
// MaxParallel is above 1, several goroutines call the functions and adapters at once.
// Only Notify, Look and Snapshot are called by one goroutine at a time.
type Engine struct {
	Journal  Journal
	Blobs    Blobs
	Files    Files
	Commands Commands
	Person   Person
	Plan     *session.Plan
	Policy   Policy
	// Environ is the environment of commands before inputs, captures and the step's own.
	Environ []string
	// Sandbox is the confinement of commands that name none; empty means Unconfined.
	Sandbox session.Confinement
	// Confine returns the sandbox of commands. It is not called for Unconfined.
	Confine func(session.Confinement) (Box, error)
	// Inputs may be nil if none were recorded.
	Inputs *session.Inputs
	// Secrets holds the available values of inputs that are not recorded.
	Secrets map[string]string
	Notify  func(session.Notice)
	// Redact redacts shown text. Journal and log redact by themselves.
	Redact func(string) string
	// Masked is Redact for text that is too long for memory.
	Masked func(io.Reader) io.Reader
	// Captured is called before any text is stored or shown that may contain a captured
	// value. It may be nil.
	Captured func(name, value string)
	Log      *slog.Logger

	// MaxParallel is how many steps may run at once; below 1 means 1. acode waits for all
	// commands that already run when the session is resumed.
	MaxParallel int

	Prompting

	// Snapshot stores the manifest of the workspace and returns its blob and the git
	// state. status returns the status of a step. A nil Snapshot stores none.
	Snapshot func(ctx context.Context, status func(session.StepID) session.Status) (manifest, git string, err error)

	// Look stores the difference between the workspace and the last Snapshot or Look, and
	// returns its blob. The blob is empty if nothing differs. A nil Look stores nothing.
	Look func(context.Context) (manifest string, err error)

	// Again is closed when a second signal asks to end the running commands too.
	Again <-chan struct{}

	// Last says that commands of this PID namespace end with this process, as with PID 1
	// of a container. Then acode ends commands that it would otherwise leave to their
	// supervisor, so that their end is recorded.
	Last bool

	// The fields below are set when the execution begins.

	// constant during the execution
	next  session.Continuation
	id    session.ID
	short string
	// epoch of this execution
	epoch     uint64
	workspace string
	// hash of the inputs
	inputs string
	book   *book
	crew   *crew

	visible *visible
	// holds a token while a person is asked
	persons chan struct{}
	// held during Look and Snapshot
	looking sync.Mutex
	// watches the protected paths while commands of an agent run
	guard *guard
	// a limit stopped the session before
	limited bool
	// held while a request to a model is compared with the limits; guards warned
	spending sync.Mutex
	// limits about which the person was warned
	warned map[session.Reason]bool
}

// Policy holds decisions that a person or the configuration made in advance.
type Policy struct {
	// Uncertain (--uncertain) replaces on_interrupt for attempts that were in progress
	// before. If it is empty, on_interrupt decides.
	Uncertain session.OnInterrupt
	// Force runs tasks even if a task that they depend on failed.
	Force bool

	// Outcomes is like Uncertain for single steps.
	Outcomes map[session.StepID]session.OnInterrupt
	// Captures (--capture) are a person's values for commands whose outcome is unknown.
	Captures map[session.StepID]string
}

// visible finds the captures that a step can see.
type visible struct {
	mu sync.Mutex
	by *session.Visibility
}

// Execute executes next from its first open step to the end and returns how it ended. The
// result is durable. begin is committed together with the first intent. An error means
// that the store failed; the session is then as its last commit left it.
func (e *Engine) Execute(ctx context.Context, next session.Continuation, begin ...session.Draft) (session.Result, error) {
	e.begins(next, begin)
	b := e.newBranch()
	b.spent = e.unforgotten()
	for i := range next.Items {
		if err := b.expect(ctx, next.Items[i].Calls); err != nil {
			return session.Result{}, err
		}
	}
	halt, err := e.crew.run(ctx, b)
	if err == nil && halt == nil {
		err = b.afterLast(ctx)
	}
	switch {
	case err != nil:
		if halt, err = b.halted(ctx, err); err != nil {
			return session.Result{}, err
		}
	case halt == nil:
		halt = b.ending()
	}
	ctx = context.WithoutCancel(ctx)
	result, err := b.finish(ctx, halt)
	if errors.Is(err, session.ErrDiskFull) {
		return b.finishFull(ctx, halt, err)
	}
	return result, err
}

// begins resets the engine for a new execution.
func (e *Engine) begins(next session.Continuation, begin []session.Draft) {
	s := e.Journal.Session()
	e.next, e.id, e.short, e.epoch, e.workspace, e.inputs = next, s.ID, s.Short, s.Epoch, s.Workspace, s.Inputs
	for _, d := range begin {
		switch data := d.Data.(type) {
		case session.ExecutionAcquiredData:
			e.epoch, e.workspace = s.Epoch+1, data.Workspace
		case session.InputsChangedData:
			e.inputs = data.Inputs.Hash
		}
	}
	e.visible = &visible{by: session.NewVisibility(e.Plan)}
	e.limited = s.Reason == session.ReasonMaxTurns
	e.persons, e.warned = make(chan struct{}, 1), map[session.Reason]bool{}
	e.book = newBook(e, begin)
	e.crew = newCrew(e)
	e.guard = newGuard()
	if e.crew.limit > 1 {
		e.book.known()
	}
}

// unforgotten returns keys whose raw output may still be there, because a process was
// killed just after its last commit. These are the key of the newest receipt and those
// that may have been in the same commit.
func (e *Engine) unforgotten() (keys []string) {
	e.book.look(func(s *session.Session) {
		var ended []*session.StepState
		var last *session.StepState
		for i := range e.next.Items {
			it := &e.next.Items[i]
			st := s.Steps[it.ID]
			switch {
			case st == nil || it.Kind != session.KindRun:
			case st.EndedUS > 0:
				ended = append(ended, st)
				if last == nil || st.LastSeq > last.LastSeq {
					last = st
				}
			case st.Attempt > 1:
				keys = append(keys, e.key(it, st.Attempt-1))
			}
		}
		for _, st := range ended {
			if st.LastSeq > last.StartSeq { // it ended after that one had begun
				keys = append(keys, st.Key)
			}
		}
	})
	return keys
}
