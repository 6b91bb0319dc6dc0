// Package engine carries out a continuation: intent, effect, receipt. Each running step
// has a branch, whose code is a straight line. The book commits what the branches hand
// over: the receipt of one step and the intent of the next are one commit, so that a step
// costs one fsync of the store, and steps that run at once share it.
//
// Invariants, cited by tests:
//
//	E1  No effect begins before its intent is durable.
//	E2  No ✓ is shown before its receipt is durable.
//	E3  Just before each effect the epoch is read again (fencing).
//	E4  A receipt never waits for something slow: then there are two commits.
//	E5  What cannot be known is never guessed: check, declared policy or a person decide.
//	E6  There is one order: that of the journal.
//	E7  A branch that fails, pauses or waits for a person stops only its own task; on_failure decides about the rest.
package engine

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"

	"github.com/acode-dev/acode/session"
)

// Engine executes one session. Every field is needed unless it says otherwise. The
// functions and the adapters are called from several goroutines at once where MaxParallel
// is above 1, Notify, Look and Snapshot from one at a time.
type Engine struct {
	Journal  Journal
	Blobs    Blobs
	Files    Files
	Commands Commands
	Person   Person
	Plan     *session.Plan
	Policy   Policy
	// of commands, before inputs, captures and the step's own
	Environ []string
	// nil: none were recorded
	Inputs *session.Inputs
	// inputs that are not recorded, as far as they are at hand
	Secrets map[string]string
	Notify  func(session.Notice)
	// for what is shown; journal and log have doors of their own
	Redact func(string) string
	// Redact for what is too long to be in memory
	Masked func(io.Reader) io.Reader
	// called before anything that may hold a captured value is kept or shown; nil: nobody
	// wants to know
	Captured func(name, value string)
	Log      *slog.Logger

	// MaxParallel is how many steps may run at once; below 1 means 1. Commands that run
	// already when the session is resumed are all waited for.
	MaxParallel int

	// Snapshot keeps the manifest of the workspace as it is left and gives its blob and
	// the git state; status says where a step stands. nil keeps none.
	Snapshot func(ctx context.Context, status func(session.StepID) session.Status) (manifest, git string, err error)

	// Look keeps what differs in the workspace from the last Snapshot or Look, and gives
	// its blob; empty: nothing does. nil keeps nothing.
	Look func(context.Context) (manifest string, err error)

	// Again is closed when a second signal asks to end the running commands too.
	Again <-chan struct{}

	// Last says that commands of this PID namespace end with this process, as they do
	// with PID 1 of a container. What leaves a command to its supervisor else then ends
	// it, so that its end is recorded.
	Last bool

	// What follows is set when the execution begins.

	// never changes
	next  session.Continuation
	id    session.ID
	short string
	// under which this process executes
	epoch     uint64
	workspace string
	// the hash of the inputs
	inputs string
	book   *book
	crew   *crew

	visible *visible
	// holds a token while a person is asked
	persons chan struct{}
	// around Look and Snapshot
	looking sync.Mutex
}

// Policy is what a person or the configuration decided beforehand.
type Policy struct {
	// --uncertain: of the attempts that were in progress before, instead of on_interrupt;
	// empty asks
	Uncertain session.OnInterrupt
	// run tasks although one that they depend on failed
	Force bool

	// like Uncertain, of one step
	Outcomes map[session.StepID]session.OnInterrupt
	// --capture: values that a person gives for commands whose outcome is unknown
	Captures map[session.StepID]string
}

// visible answers which captures a step can see.
type visible struct {
	mu sync.Mutex
	by *session.Visibility
}

// Execute carries out next from its first open step to the end and returns how it ended;
// what the result says is durable. begin is committed together with the first intent. An
// error means that the store itself failed: the session is then as its last commit left
// it.
func (e *Engine) Execute(ctx context.Context, next session.Continuation, begin ...session.Draft) (session.Result, error) {
	e.begins(next, begin)
	b := e.newBranch()
	b.spent = e.unforgotten()
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

// begins forgets what came before.
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
	e.persons = make(chan struct{}, 1)
	e.book = newBook(e, begin)
	e.crew = newCrew(e)
	if e.crew.limit > 1 {
		e.book.known()
	}
}

// unforgotten gives the keys whose raw output a process that was killed just after its
// last commit had no time to remove: of the newest receipt, and of those that can have
// been committed with it.
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
