package engine

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/acode-dev/acode/session"
)

// modelCall is a call that can be carried out.
type modelCall struct {
	session.Item
	work    session.CallWork
	verdict session.Permission
}

// carryOut carries out the calls of a reply in their order. Reads that follow one another
// run at once.
func (t *talk) carryOut(ctx context.Context, d session.Decision) error {
	var reads []modelCall
	turn := t.head().Turn
	for _, call := range d.Calls {
		c, err := t.accept(ctx, session.TurnCallID(t.it.ID, turn, call.Number), call, d.Refused[call.Number])
		if err != nil {
			return err
		}
		if c != nil && c.work.Reads {
			reads = append(reads, *c)
			continue
		}
		if err := t.reads(ctx, reads); err != nil {
			return err
		}
		reads = nil
		if c != nil && c.work.Proposes {
			if err := t.proposes(ctx, c); err != nil {
				return err
			}
		} else if c != nil {
			if err := t.permitted(ctx, c); err != nil {
				return err
			}
		}
	}
	return t.reads(ctx, reads)
}

// accept returns the item of a call. It returns nil for a call that is refused, and tells
// the model why.
func (t *talk) accept(ctx context.Context, id session.StepID, call session.ModelCall, refused string) (*modelCall, error) {
	if refused == "" {
		work, err := t.conv.Work(call)
		if err == nil {
			err = t.unmask(ctx, work.Step.Changes)
		}
		if err == nil {
			return t.item(id, work), nil
		}
		var known *session.Error
		if ctx.Err() != nil || !errors.As(err, &known) {
			return nil, err
		}
		refused = t.conv.Refusal(err)
	}
	t.refuse(id, session.MessageRefused, refused)
	return nil, nil
}

// refuse queues the result of a call that is not carried out.
func (t *talk) refuse(id session.StepID, kind, why string) {
	t.pending = append(t.pending, session.Draft{Type: session.MessageAdded, Data: session.MessageAddedData{StepID: id, Kind: kind, Text: why}})
}

func (t *talk) unmask(ctx context.Context, changes []session.Change) (err error) {
	for i := range changes {
		if changes[i], err = t.Unmask(ctx, changes[i]); err != nil {
			return err
		}
	}
	return nil
}

// item returns the item of a new call. Commands of a model are confined.
func (t *talk) item(id session.StepID, work session.CallWork) *modelCall {
	if work.Proposes {
		call := &session.Call{Tool: work.Tool, Digest: session.CallDigest(work.Tool, work.Arguments), Label: "Propose a plan"}
		return &modelCall{Item: session.Item{ID: id, Title: work.Tool, Label: call.Label, Kind: session.KindPrompt, Status: session.Pending, Attempt: 1, Call: call}, work: work}
	}
	step, verdict := work.Step, session.Permission{}
	if !work.Reads {
		var rules string
		t.book.look(func(s *session.Session) { rules = s.Rules })
		verdict = t.Judge(t.it.ID, step, rules)
	}
	if step.Run != nil {
		run := *step.Run
		run.Sandbox = verdict.Confine
		step.Run = &run
	}
	label := brief(t.Redact(step.Label()))
	return &modelCall{session.Item{
		ID: id, Title: work.Tool, Label: label, Kind: step.Kind, Action: session.ActionExecute, Status: session.Pending, Attempt: 1,
		Call: &session.Call{Tool: work.Tool, Digest: session.CallDigest(work.Tool, work.Arguments), Label: label}, Work: &step,
	}, work, verdict}
}

// mostLabel is how many bytes of the label of a call are kept. Its work has all of it.
const mostLabel = 200

func brief(label string) string {
	if len(label) <= mostLabel {
		return label
	}
	return strings.ToValidUTF8(label[:mostLabel], "") + "…"
}

func (b *branch) stage(ctx context.Context, raw []byte) (session.BlobRef, error) {
	return b.Blobs.Stage(ctx, bytes.NewReader(raw), int64(len(raw)))
}

// reads carries out calls that only read, all at once. Their receipts are committed with
// the next request, before the model sees them.
func (t *talk) reads(ctx context.Context, calls []modelCall) error {
	if len(calls) == 0 {
		return nil
	}
	if err := t.boundary(ctx); err != nil {
		return err
	}
	var intents []session.Draft
	for _, c := range calls {
		if c.Status == session.Pending {
			intents = append(intents, session.Draft{Type: session.OperationStarted, Data: session.OperationStartedData{
				StepID: c.ID, Kind: c.Kind, Key: t.key(&c.Item, 1), Attempt: 1, Digest: c.Call.Digest, Call: c.Call}})
		}
	}
	if err := t.commit(ctx, intents...); err != nil {
		return err
	}
	results := make([]found, len(calls))
	var all sync.WaitGroup
	for i := range calls {
		t.tell(session.Notice{Kind: session.NoticeStarted, Item: &calls[i].Item})
		if found := calls[i].work.Found; found != nil {
			results[i].text = *found
			continue
		}
		all.Go(func() { results[i].text, results[i].files, results[i].err = t.Reads(ctx, calls[i].work) })
	}
	all.Wait()
	for i := range calls {
		if err := t.wasRead(ctx, &calls[i].Item, results[i]); err != nil {
			return err
		}
		t.ended(calls[i].ID)
	}
	return nil
}

// found is the result of a call that only reads.
type found struct {
	text  string
	files []session.FileState
	err   error
}

// wasRead queues the receipt of a call that only reads.
func (t *talk) wasRead(ctx context.Context, it *session.Item, f found) error {
	t.overUS = 0
	if f.err != nil {
		if known := (*session.Error)(nil); ctx.Err() != nil || !errors.As(f.err, &known) {
			return f.err
		}
		t.fail(it, &failure{code: session.CodeOf(f.err), message: f.err.Error()})
		return nil
	}
	text, err := t.output(ctx, f.text, int64(len(f.text)), false)
	if err != nil {
		return err
	}
	t.done(it, session.StepCompletedData{Matches: text, Files: f.files})
	return nil
}

// changes carries out a call that changes something, or continues one that was in
// progress. Its receipt, or the reason why it was not carried out, is pending.
func (t *talk) changes(ctx context.Context, it session.Item) error {
	if err := t.boundary(ctx); err != nil {
		return err
	}
	if err := t.crew.admit(ctx, t.branch, &it); err != nil {
		return err
	}
	defer t.crew.dismiss(t.branch)
	if it.Status == session.Pending {
		t.book.fresh(it.ID)
	}
	t.reran, t.overUS, t.current, t.calling = 0, 0, it.ID, &it
	err := t.Files.InPlace()
	if err == nil {
		err = t.step(ctx, &it)
	}
	if err = t.belongs(&it, err); err != nil {
		return err
	}
	t.ended(it.ID)
	t.current, t.calling, t.overUS = t.it.ID, nil, 0
	return nil
}

// belongs takes an error that belongs to the call, and returns any other one.
func (t *talk) belongs(it *session.Item, err error) error {
	f := ofCall(err)
	switch {
	case f == nil:
		return err
	case t.book.step(it.ID).Status == session.InProgress:
		t.fail(it, f)
	default: // it has no intent
		t.crew.release(it.ID)
		t.refuse(it.ID, session.MessageRefused, t.conv.Refusal(&session.Error{Code: f.code, Message: f.message + "; nothing was changed"}))
	}
	return nil
}

// resumeCalls gives each call in progress its outcome, and adds it to done.
func (t *talk) resumeCalls(ctx context.Context, reply *session.Reply, done map[int]bool) error {
	var reads []modelCall
	for _, it := range t.it.Calls {
		_, n, ok := session.TurnCall(it.ID.Op)
		if reply == nil || !ok || n > len(reply.Calls) {
			return &session.Error{Code: session.ErrCorrupt, Message: it.ID.String() + " is in progress, and no reply of the model has this call", Next: session.Do(session.MoveVerify, t.short)}
		}
		done[n] = true
		work, err := t.conv.Work(reply.Calls[n-1])
		if err != nil {
			return err
		}
		if work.Reads {
			reads = append(reads, modelCall{Item: it, work: work})
		} else if err := t.changes(ctx, it); err != nil {
			return err
		}
	}
	return t.reads(ctx, reads)
}
