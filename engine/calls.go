package engine

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/acode-dev/acode/session"
)

// Calls executes the operations that an outside agent asks for. Each has a branch of its
// own, and many may run at once. It is safe for concurrent use.
type Calls struct {
	e *Engine

	// held while a question or an answer is compared with the last one and recorded
	asking sync.Mutex

	// guards the fields below
	mu sync.Mutex
	// greatest number of a call
	last int
	// drafts for the next commit
	waiting []session.Draft
}

// Calls returns the execution of next, the continuation of an outside agent's session.
// open are the calls in progress. begin is committed together with the first intent.
func (e *Engine) Calls(ctx context.Context, next session.Continuation, open []session.Item, begin ...session.Draft) (*Calls, error) {
	e.begins(next, begin)
	if err := e.newBranch().expect(ctx, open); err != nil {
		return nil, err
	}
	e.crew.limit = session.MostCalls
	e.book.known()
	c := &Calls{e: e}
	e.book.look(func(s *session.Session) { c.last = s.Calls })
	return c, nil
}

// Number returns the name of the next call.
func (c *Calls) Number() session.StepID {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	return session.CallID(session.CallsStep(), c.last)
}

// Admitted is a call whose turn has come.
type Admitted struct {
	c  *Calls
	b  *branch
	it session.Item
}

// Admit waits until no other call has an intent on the files of it. It returns the cause
// of ctx if that ends first; the call then has no effect and leaves no trace. The caller
// must call Do of an admitted call.
func (c *Calls) Admit(ctx context.Context, it session.Item) (*Admitted, error) {
	b := c.join()
	stop := context.AfterFunc(ctx, b.crew.wake)
	defer stop()
	if err := b.crew.admit(ctx, b, &it); err != nil {
		c.giveUp(b, it.ID)
		return nil, err
	}
	return &Admitted{c, b, it}, nil
}

// Do executes a call from its intent to its receipt, or continues one that was in
// progress. When it returns nil, the outcome is durable: completed, failed or unknown. If
// ctx ends first, a command continues with its supervisor, and Do returns the cause of
// ctx.
func (a *Admitted) Do(ctx context.Context) error {
	b, it := a.b, a.it
	defer a.c.leave(b)
	defer b.crew.dismiss(b)
	if it.Status == session.Pending {
		b.book.fresh(it.ID)
	}
	b.current = it.ID
	err := b.usable()
	if err == nil {
		err = b.Files.InPlace()
	}
	if err == nil {
		err = b.step(ctx, &it)
	}
	if err = b.refusal(&it, err); err != nil {
		b.guard.forget()
		if b.book.step(it.ID).Status != session.InProgress {
			a.c.giveUp(b, it.ID)
		}
		return err
	}
	return b.commit(context.WithoutCancel(ctx))
}

// Do is Admit, and Do of the admitted call.
func (c *Calls) Do(ctx context.Context, it session.Item) error {
	admitted, err := c.Admit(ctx, it)
	if err != nil {
		return err
	}
	return admitted.Do(ctx)
}

// giveUp ends a call that has no intent. Its files are free again, and the next call
// commits the drafts that it was to commit.
func (c *Calls) giveUp(b *branch, id session.StepID) {
	c.leave(b)
	b.crew.release(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(b.pending, c.waiting...)
	b.pending = nil
}

// refusal turns an error that belongs to the call into its receipt.
func (b *branch) refusal(it *session.Item, err error) error {
	f := ofCall(err)
	if f == nil {
		return err
	}
	if b.book.step(it.ID).Status != session.InProgress { // it has no intent
		return &session.Error{Code: f.code, Message: f.message + "; nothing was changed"}
	}
	b.fail(it, f)
	return nil
}

// ofCall returns the failure of a call. It returns nil for an error that does not belong
// to the call, and for no error.
func ofCall(err error) *failure {
	var f *failure
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, session.ErrFileChanged) || errors.Is(err, session.ErrEnvironment):
		return &failure{code: session.CodeOf(err), message: err.Error()}
	}
	return nil
}

// ReadCall is a call that only read. It was answered before it is recorded.
type ReadCall struct {
	Call session.Call
	Kind session.Kind
	// Files are the files that it read, as it found them.
	Files []session.FileState
}

// Record keeps a reading for the next commit. It is lost if the process ends before that.
func (c *Calls) Record(r ReadCall) {
	id := c.Number()
	key := session.KeyOf(c.e.id, id, 1).String()
	c.later(
		session.Draft{Type: session.OperationStarted, Data: session.OperationStartedData{StepID: id, Kind: r.Kind, Key: key, Attempt: 1, Digest: r.Call.Digest, Call: &r.Call}},
		session.Draft{Type: session.OperationCompleted, Data: session.OperationCompletedData{StepID: id, Key: key, Attempt: 1, Files: r.Files}},
		session.Draft{Type: session.OperationsSettled, Data: session.OperationsSettledData{StepID: id.Of(), Ops: []string{id.Op}}},
	)
}

// Settle records with the next commit that the agent has seen the answers of ops.
func (c *Calls) Settle(ops []string) {
	c.later(session.Draft{Type: session.OperationsSettled, Data: session.OperationsSettledData{StepID: session.CallsStep(), Ops: ops}})
}

func (c *Calls) later(drafts ...session.Draft) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, drafts...)
}

// Look calls read with the session between two commits. read must not keep any part of
// it.
func (c *Calls) Look(read func(*session.Session)) { c.e.book.look(read) }

// Flush commits the readings and the settled calls.
func (c *Calls) Flush(ctx context.Context) error {
	b := c.join()
	defer c.leave(b)
	if len(b.pending) == 0 {
		return nil
	}
	return b.commit(ctx)
}

// join returns a new branch, which takes the drafts for the next commit.
func (c *Calls) join() *branch {
	b := c.e.newBranch()
	c.mu.Lock()
	b.pending, c.waiting = c.waiting, nil
	c.mu.Unlock()
	w := c.e.crew
	w.mu.Lock()
	defer w.mu.Unlock()
	w.branches = append(w.branches, b)
	return b
}

func (c *Calls) leave(b *branch) {
	w := c.e.crew
	w.mu.Lock()
	defer w.mu.Unlock()
	w.branches = slices.DeleteFunc(w.branches, func(o *branch) bool { return o == b })
}
