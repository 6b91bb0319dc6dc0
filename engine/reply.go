package engine

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/acode-dev/acode/session"
)

// receive keeps the bytes of a reply in a file as they arrive, and returns them. After a
// kill, the next resume finds them there.
func (t *talk) receive(ctx context.Context, key string, send func(io.Writer) error) ([]byte, error) {
	if err := t.Replies.Forget(key); err != nil {
		return nil, err
	}
	w, err := t.Replies.Create(key)
	if err != nil {
		return nil, err
	}
	if t.Watched {
		said := &saying{Writer: w, t: t}
		err = send(said)
		said.show(true)
	} else {
		err = send(w)
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = context.Cause(ctx)
	}
	err = errors.Join(err, w.Close())
	raw, unread := t.Replies.Read(key)
	return raw, errors.Join(err, unread)
}

// receipt queues the receipt of a reply.
func (t *talk) receipt(ctx context.Context, id session.StepID, key string, attempt int, raw []byte, reply session.Reply) error {
	d := session.ModelAnsweredData{StepID: id, Key: key, Attempt: attempt, Request: t.head().Digest, Calls: len(reply.Calls), Usage: t.priced(reply.Usage)}
	var err error
	if d.Reply, err = t.stage(ctx, raw); err != nil {
		return err
	}
	said, err := t.output(ctx, reply.Text, int64(len(reply.Text)), false)
	if err != nil {
		return err
	}
	d.Said = *said
	t.pending = append(t.pending, session.Draft{Type: session.ModelAnswered, Data: d})
	t.received = append(t.received, key)
	return nil
}

// noReply queues the receipt of a request that got no whole reply. It returns nil if the
// request is to be repeated, after a wait. Otherwise it returns the stop of the session.
func (t *talk) noReply(ctx context.Context, id session.StepID, key string, attempt int, raw []byte, cause error) error {
	why := "the reply ended before its end"
	if cause != nil {
		why = cause.Error()
	}
	if err := t.fails(context.WithoutCancel(ctx), id, key, attempt, raw, why); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if again, err := t.retries(ctx, cause); again || err != nil {
		if part, _ := t.model.Reply(raw); part.Text != "" { // a part that cannot be read says nothing
			t.note(session.MessageReminder, t.conv.BrokenOff())
		}
		return err
	}
	halt := &stop{to: session.Paused, reason: session.ReasonProvider, code: session.ErrModel, detail: t.it.ID.String() + ": " + why + asksToWait(cause)}
	var e *session.Error
	if errors.As(cause, &e) {
		halt.next = e.Next
		halt.next.Session = cmp.Or(halt.next.Session, t.short)
		if e.Code != session.ErrModel {
			halt.code = e.Code
		}
	}
	return halt
}

// fails queues ModelFailed with the part of the reply that arrived.
func (t *talk) fails(ctx context.Context, id session.StepID, key string, attempt int, raw []byte, why string) (err error) {
	d := session.ModelFailedData{StepID: id, Key: key, Attempt: attempt, Code: session.ErrModel, Message: why}
	d.Usage = t.priced(session.Usage{Input: t.conv.Tokens(), Output: int64(len(raw)) / session.BytesPerToken, Estimated: true})
	if len(raw) > 0 {
		if d.Part, err = t.stage(ctx, raw); err != nil {
			return err
		}
	}
	t.pending = append(t.pending, session.Draft{Type: session.ModelFailed, Data: d})
	t.received = append(t.received, key)
	return nil
}

// cutOff records that a request of an earlier process got no whole reply.
func (t *talk) cutOff(ctx context.Context, head session.Talk) error {
	key := t.lastKey(head)
	raw, err := t.Replies.Read(key)
	if err != nil {
		return err
	}
	return t.fails(ctx, session.TurnID(t.it.ID, head.Turn), key, head.Attempt, raw, "acode was stopped before the reply was received")
}

// lastKey returns the key of the last request.
func (t *talk) lastKey(head session.Talk) string {
	return session.KeyOf(t.id, session.TurnID(t.it.ID, head.Turn), head.Attempt).String()
}
