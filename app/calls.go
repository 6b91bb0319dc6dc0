package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
)

// Call is what an agent asks for.
type Call struct {
	Tool string
	// Arguments is a canonical encoding, with the defaults filled in.
	Arguments string
	// Step is the work in acode's own terms.
	Step session.Step
}

// Digest returns the digest by which calls are equal.
func (c Call) Digest() string { return session.CallDigest(c.Tool, c.Arguments) }

// The outcomes of a call.
const (
	CallRuns    = "running"
	CallDone    = "done"
	CallFailed  = "failed"
	CallUnknown = "unknown"
)

// CallResult is a call with its outcome.
type CallResult struct {
	Op     session.StepID
	Tool   string
	Digest string
	// Label says what the call does. Secrets are masked in it.
	Label   string
	Outcome string
	// StartedUS is the time of the intent. EndedUS is 0 while the call runs.
	StartedUS int64
	EndedUS   int64
	// Code and Message describe a failure or an unknown outcome.
	Code    session.Code
	Message string
	// Command is nil for a call that ran no command, and while the command runs.
	Command *session.CommandResult
	// Files are the files that the call wrote.
	Files []session.FileState
	// Held are the changes of protected paths that acode put back.
	Held []session.HeldChange
	// Changed are files of the session that others have changed. It is set by Since.
	Changed []Difference
}

// Difference is a changed file, with lines that describe the change.
type Difference = session.Difference

// Do carries out a call: intent, effect, receipt. The receipt is durable when Do returns
// another outcome than CallRuns. It returns CallRuns for a command that outlasts
// patience; the command continues. The end of ctx ends only the wait. An error means that
// the call was refused, and that nothing was changed: with an AskedError until a person
// allows the call, with ErrDenied for good.
func (c *Calls) Do(ctx context.Context, call Call, patience time.Duration) (CallResult, error) {
	if err := c.begin(ctx, patience); err != nil {
		return CallResult{}, err
	}
	admitted, it, err := c.permitted(ctx, call, patience)
	if err != nil {
		c.finish()
		return CallResult{}, err
	}
	return c.await(ctx, it.ID, c.start(it, admitted.Do), patience)
}

// permitted makes the item of a new call, waits for its turn, and returns it if the
// powers of the agent or a person allow the call.
func (c *Calls) permitted(ctx context.Context, call Call, patience time.Duration) (*engine.Admitted, session.Item, error) {
	judge, err := c.site.judges()
	if err != nil {
		return nil, session.Item{}, err
	}
	it, verdict, err := c.item(ctx, call, judge)
	if err != nil {
		return nil, it, err
	}
	admitted, err := c.admit(ctx, it, patience)
	if err == nil {
		err = admitted.Permit(ctx, verdict)
	}
	return admitted, it, err
}

// AskedError is the error of a call that a person must allow first. It wraps ErrApproval.
type AskedError = engine.AskedError

// Question describes for a person the call that waits for a yes.
func (c *Calls) Question(e *AskedError) session.Gate {
	return session.CallGateOf(e.Question).Redacted(c.site.Redactor.String)
}

// Answer records the answer of a person to the question of e. After a yes the same call
// is carried out once. Only a session that this process executed last has the question.
func (c *Calls) Answer(ctx context.Context, e *AskedError, a Answer) error {
	if err := c.begin(ctx, time.Second); err != nil {
		return err
	}
	defer c.finish()
	return c.present().calls.Answer(ctx, e.Question, a)
}

// admit waits for the turn of a new call.
func (c *Calls) admit(ctx context.Context, it session.Item, patience time.Duration) (*engine.Admitted, error) {
	limited, stop := context.WithTimeout(ctx, patience)
	defer stop()
	admitted, err := c.present().calls.Admit(limited, it)
	if errors.Is(err, context.DeadlineExceeded) {
		err = &session.Error{Code: session.ErrLocked, Message: "another call still changes these files; nothing was changed", Retryable: true}
	}
	return admitted, err
}

// present returns the execution of the session; nil before it is acquired.
func (c *Calls) present() *acquired {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// named returns the id of the session; empty before it is made.
func (c *Calls) named() session.ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.id
}

// item makes the item of a new call, with the verdict about it.
func (c *Calls) item(ctx context.Context, call Call, judge judge) (it session.Item, v session.Permission, err error) {
	step, at, rules := call.Step, c.present(), ""
	at.calls.Look(func(s *session.Session) { rules = s.Rules })
	v = judge(session.CallsStep(), step, rules)
	if step.Run != nil {
		run := *step.Run
		run.Sandbox = v.Confine
		step.Run = &run
	}
	work, err := json.Marshal(step)
	if err != nil {
		return it, v, &session.Error{Code: session.ErrInternal, Message: "a call cannot be encoded", Cause: err}
	}
	ref, err := at.writer.Stage(ctx, bytes.NewReader(work), int64(len(work)))
	if err != nil {
		return it, v, err
	}
	label := c.site.Redactor.String(step.Label())
	return session.Item{
		ID: at.calls.Number(), Title: call.Tool, Label: label, Kind: step.Kind, Action: session.ActionExecute, Status: session.Pending, Attempt: 1,
		Call: &session.Call{Tool: call.Tool, Digest: call.Digest(), Label: label, Work: ref}, Work: &step,
	}, v, nil
}

// start executes a call in the background by do. It ends the call that begin began.
func (c *Calls) start(it session.Item, do func(context.Context) error) *running {
	r := &running{call: it.Call, done: make(chan struct{})}
	c.mu.Lock()
	c.known[it.ID] = r
	c.mu.Unlock()
	go func() {
		defer close(r.done)
		defer c.finish()
		if r.err = do(c.ctx); r.err != nil {
			c.site.Log.Warn("a call has no outcome", "event", "call_open", "op", it.ID.String(), "code", string(session.CodeOf(r.err)), "error", r.err.Error())
		}
	}()
	return r
}

// await waits for the outcome of a call.
func (c *Calls) await(ctx context.Context, id session.StepID, r *running, patience time.Duration) (CallResult, error) {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		select {
		case <-r.done:
			if r.err != nil && !c.hasIntent(id) {
				return CallResult{}, r.err
			}
		case <-limit.C:
			if !c.hasIntent(id) { // it is about to have one, or to be refused
				limit.Reset(10 * time.Millisecond)
				continue
			}
		case <-ctx.Done():
		}
		return c.Answered(ctx, id)
	}
}

// hasIntent reports whether the intent of a call is durable.
func (c *Calls) hasIntent(id session.StepID) (yes bool) {
	c.present().calls.Look(func(s *session.Session) { yes = s.At(id) != nil })
	return yes
}

// Wait waits for the outcome of a call, at most for patience. It returns CallRuns if the
// call has no outcome by then.
func (c *Calls) Wait(ctx context.Context, id session.StepID, patience time.Duration) (CallResult, error) {
	c.mu.Lock()
	r := c.known[id]
	c.mu.Unlock()
	if r == nil {
		return c.Answered(ctx, id)
	}
	return c.await(ctx, id, r, patience)
}

// Stop ends the command of a call, and returns its outcome.
func (c *Calls) Stop(ctx context.Context, id session.StepID) (CallResult, error) {
	a, err := c.Answered(ctx, id)
	if err != nil || a.Outcome != CallRuns {
		return a, err
	}
	err = command.Cancel(ctx, c.site.commandDir(c.named()), session.KeyOf(c.named(), id, 1).String())
	if errors.Is(err, session.ErrCommand) {
		return a, &session.Error{Code: session.ErrCommand, Message: fmt.Sprintf("the command of %s is not started yet, so it was not ended", id.Op), Retryable: true,
			Next: session.Words("stop it again in a moment")}
	}
	if err != nil {
		return a, err
	}
	return c.Wait(ctx, id, stopping)
}

// stopping is how long Stop waits for the outcome. A command is killed 10 s after it was
// asked to end.
const stopping = 15 * time.Second

// Record keeps a call that only read. It is durable with the next call that changes
// something.
func (c *Calls) Record(call Call, files []session.FileState) {
	r := engine.ReadCall{Kind: call.Step.Kind, Files: files, Call: session.Call{Tool: call.Tool, Digest: call.Digest(), Label: c.site.Redactor.String(call.Step.Label())}}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at != nil {
		c.at.calls.Record(r)
	} else {
		c.unread = append(c.unread, r)
	}
}

// Owed returns the calls whose answers the agent may not have seen, in the order of their
// intents.
func (c *Calls) Owed(ctx context.Context) ([]CallResult, error) {
	var out []CallResult
	var ops []*session.StepState
	err := c.look(ctx, func(s *session.Session) {
		for _, op := range s.Operations() {
			state := *op
			ops = append(ops, &state)
		}
	})
	if err != nil {
		return nil, err
	}
	for _, op := range ops {
		c.mu.Lock()
		settled := c.settled[op.StepID]
		c.mu.Unlock()
		if settled {
			continue
		}
		a, err := c.answer(ctx, op)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// Answered returns the record of a call. It returns ErrUnknownID if there is none.
func (c *Calls) Answered(ctx context.Context, id session.StepID) (CallResult, error) {
	var op *session.StepState
	err := c.look(ctx, func(s *session.Session) {
		if found := s.At(id); found != nil {
			state := *found
			op = &state
		}
	})
	if err == nil && op == nil && c.named() != "" {
		op, err = c.settledOp(ctx, id)
	}
	if err == nil && op == nil {
		err = &session.Error{Code: session.ErrUnknownID, Message: "the conversation has no operation " + id.Op}
	}
	if err != nil {
		return CallResult{}, err
	}
	return c.answer(ctx, op)
}

// look calls read with the session. It does not call read before the session is made.
// read must not keep any part of the session.
func (c *Calls) look(ctx context.Context, read func(*session.Session)) error {
	if at := c.present(); at != nil {
		at.calls.Look(read)
		return nil
	}
	id := c.named()
	if id == "" {
		return nil
	}
	sess, err := c.site.store.View(ctx, id)
	if errors.Is(err, session.ErrUnknownID) {
		return nil // its first call was refused
	}
	if err == nil {
		read(sess)
	}
	return err
}

// settledOp finds a call that has left the projection. It reads the history.
func (c *Calls) settledOp(ctx context.Context, id session.StepID) (op *session.StepState, err error) {
	name := []byte(`"op":"` + id.Op + `"`)
	for e, err := range c.site.events(ctx, c.named(), 0) {
		if err != nil {
			return nil, err
		}
		if !e.Type.OfOperation() || e.Type == session.OperationsSettled || !bytes.Contains(e.Content(), name) {
			continue
		}
		if e.Type == session.OperationStarted {
			op = &session.StepState{StepID: id, Status: session.InProgress, StartSeq: e.Seq, StartedUS: e.TimeUS}
		}
		if op == nil {
			continue
		}
		if op.LastSeq = e.Seq; e.Type != session.OperationStarted {
			op.EndedUS = e.TimeUS
			op.Status = callStatus(e.Type)
		}
	}
	return op, nil
}

// answer reads the record of a call from its events.
func (c *Calls) answer(ctx context.Context, op *session.StepState) (CallResult, error) {
	a := CallResult{Op: op.StepID, Outcome: CallRuns, StartedUS: op.StartedUS, EndedUS: op.EndedUS}
	call, err := c.call(ctx, op)
	if err != nil {
		return a, err
	}
	a.Tool, a.Digest, a.Label = call.Tool, call.Digest, call.Label
	switch op.Status {
	case session.StepDone:
		var d session.OperationCompletedData
		err = c.event(ctx, op.LastSeq, &d)
		a.Outcome, a.Command, a.Files, a.Held = CallDone, d.Command, d.Files, d.Held
	case session.StepFailed:
		var d session.OperationFailedData
		err = c.event(ctx, op.LastSeq, &d)
		a.Outcome, a.Command, a.Files, a.Held, a.Code, a.Message = CallFailed, d.Command, d.Files, d.Held, d.Code, d.Message
	case session.StepUncertain:
		var d session.OperationUnknownData
		err = c.event(ctx, op.LastSeq, &d)
		a.Outcome, a.Command, a.Held, a.Code, a.Message = CallUnknown, d.Command, d.Held, session.ErrUncertain, d.Why
	}
	return a, err
}

// call returns the intent of an operation.
func (c *Calls) call(ctx context.Context, op *session.StepState) (session.Call, error) {
	c.mu.Lock()
	r := c.known[op.StepID]
	c.mu.Unlock()
	if r != nil {
		return *r.call, nil
	}
	var d session.OperationStartedData
	if err := c.event(ctx, op.StartSeq, &d); err != nil || d.Call == nil {
		return session.Call{}, err
	}
	return *d.Call, nil
}

// event decodes an event of the session.
func (c *Calls) event(ctx context.Context, seq uint64, data any) error {
	if at := c.present(); at != nil {
		e, err := at.writer.Event(ctx, seq)
		if err != nil {
			return err
		}
		return e.Decode(data)
	}
	return c.site.eventAt(ctx, c.named(), seq, data)
}

// Since fills Changed with the files of the session that others changed after their last
// receipt.
func (c *Calls) Since(ctx context.Context, a *CallResult) error {
	at := c.present()
	if at == nil {
		return nil
	}
	var files []session.FileState
	at.calls.Look(func(s *session.Session) {
		for _, f := range s.Files {
			files = append(files, *f)
		}
	})
	slices.SortFunc(files, func(a, b session.FileState) int { return bytes.Compare([]byte(a.Path), []byte(b.Path)) })
	changed, _, err := c.root.Changes(ctx, files, nil, nil)
	for _, f := range changed {
		a.Changed = append(a.Changed, Difference{ChangedFile: f, Lines: at.env.view(f)})
	}
	return err
}

// Output returns at most limit bytes of the output of a call from an offset, with secrets
// masked. It works while the command runs. next is the offset of the following bytes, and
// total the length so far.
func (c *Calls) Output(ctx context.Context, id session.StepID, from int64, limit int) (text string, next, total int64, err error) {
	a, err := c.Answered(ctx, id)
	if err != nil {
		return "", 0, 0, err
	}
	w := &window{from: from, limit: limit}
	if a.Command == nil {
		masked := c.site.Redactor.Stream(w)
		_, err = command.Follow(ctx, c.site.commandDir(c.named()), session.KeyOf(c.named(), id, 1).String(), false, masked, masked)
		if errors.Is(err, fs.ErrNotExist) { // the command is just being started
			err = nil
		}
		err = errors.Join(err, masked.Close())
	} else {
		err = c.site.kept(ctx, a.Command, w, w)
	}
	if err != nil {
		return "", 0, 0, fmt.Errorf("read the output of %s: %w", id.Op, err)
	}
	return string(w.kept), from + int64(len(w.kept)), w.at, nil
}

// window keeps the bytes of a stream from an offset.
type window struct {
	from  int64
	limit int
	at    int64
	kept  []byte
}

// Write implements io.Writer.
func (w *window) Write(b []byte) (int, error) {
	n := len(b)
	if skip := w.from - w.at; skip > 0 {
		b = b[min(skip, int64(len(b))):]
	}
	w.at += int64(n)
	w.kept = append(w.kept, b[:min(len(b), w.limit-len(w.kept))]...)
	return n, nil
}

// Text reads an output of a command that a receipt holds.
func (c *Calls) Text(ctx context.Context, o session.Output) (string, error) {
	return c.site.content(ctx, o)
}

// Redactor masks secrets in what the agent gets.
func (c *Calls) Redactor() *redact.Redactor { return c.site.Redactor }
