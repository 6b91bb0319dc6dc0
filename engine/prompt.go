package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/acode-dev/acode/session"
)

// talk is the execution of a prompt step: a loop of two operations. It asks the model,
// and carries out the calls of its reply.
type talk struct {
	*branch
	it    *session.Item
	p     *session.Prompt
	model Model
	conv  Conversation
	// seq and hash of the last event that conv has
	seen uint64
	hash session.Hash
	// how many requests in succession were repeated in this process
	tries int
	// how many calls have a receipt
	calls int
	// how many proposals of a plan were not valid in this process
	invalid int
	// how many calls were denied in this process
	denials int
	// messages to add before the next request
	notes []session.MessageAddedData
}

// prompt executes a prompt step.
func (b *branch) prompt(ctx context.Context, it *session.Item, step *session.Step) error {
	model, err := b.Models(step.Prompt.Model)
	var e *session.Error
	if errors.As(err, &e) {
		return &stop{to: session.Paused, reason: session.ReasonProvider, code: e.Code, detail: it.ID.String() + ": " + e.Error(), next: e.Next}
	}
	if err != nil {
		return err
	}
	t := &talk{branch: b, it: it, p: step.Prompt, model: model, conv: b.Converse(it.ID, step.Prompt)}
	if err := b.enter(ctx, it, session.StepStartedData{Digest: step.Digest()}); err != nil {
		return err
	}
	reply, done, err := t.takeUp(ctx)
	for err == nil {
		if reply != nil {
			d := t.conv.Next(*reply, done)
			if err = t.carryOut(ctx, d); err != nil {
				break
			}
			if d.End != nil {
				return t.end(ctx, *d.End)
			}
			if d.Reminder != "" {
				t.note(session.MessageReminder, d.Reminder)
			}
			if d.Reminder != "" && t.p.Plans {
				if err = t.unplanned("the model answered without a plan"); err != nil {
					break
				}
			}
		}
		done = nil
		reply, err = t.turn(ctx)
	}
	return err
}

// head returns the head of the conversation.
func (t *talk) head() session.Talk { return *t.book.step(t.it.ID).Talk }

// note adds a message to the next request.
func (t *talk) note(kind, text string) {
	t.notes = append(t.notes, session.MessageAddedData{StepID: t.it.ID, Kind: kind, Text: text})
}

// takeUp begins the conversation, or continues one that was in progress. It gives each
// call in progress its outcome. It returns the last reply, if some of its calls may still
// have to be carried out.
func (t *talk) takeUp(ctx context.Context) (reply *session.Reply, done map[int]bool, err error) {
	head := t.head()
	t.calls = head.Ended
	if head.First == 0 {
		if err := t.beginAt(ctx, t.book.step(t.it.ID).StartSeq); err != nil {
			return nil, nil, err
		}
		text, err := t.text(ctx)
		t.note(session.MessagePrompt, text)
		if err == nil {
			err = t.noteBefore(ctx)
		}
		t.noteRules(ctx)
		return nil, nil, err
	}
	if err := t.beginAt(ctx, head.First-1); err != nil {
		return nil, nil, err
	}
	if err := t.catchUp(ctx); err != nil {
		return nil, nil, err
	}
	reply, done = t.conv.Last()
	if head.Asked != 0 {
		reply, err = nil, t.cutOff(ctx, head)
	} else if err = t.Replies.Forget(t.lastKey(head)); err == nil { // a kill may have left it
		err = t.resumeCalls(ctx, reply, done)
	}
	if t.limited && head.Requests-head.Base >= t.p.MaxTurns {
		t.note(session.MessageMore, t.conv.More())
	}
	t.note(session.MessageResumed, t.conv.Resumed(t.Changed, head.Asked != 0))
	return reply, done, err
}

// mostAnswer is how many bytes of the answer of an earlier model are told.
const mostAnswer = 4 << 10

// noteBefore adds the facts of the tasks on which this one depends. They come from the
// receipts.
func (t *talk) noteBefore(ctx context.Context) error {
	var facts []string
	for _, on := range t.Plan.Tasks[t.it.Task-1].DependsOn {
		at := slices.IndexFunc(t.Plan.Tasks, func(task session.Task) bool { return task.ID == on })
		for _, step := range t.Plan.Tasks[at].Steps {
			if step.Prompt != nil && step.Prompt.Plans {
				continue
			}
			fact, err := t.fact(ctx, session.StepID{Task: on, Step: step.ID}, step)
			if err != nil {
				return err
			}
			facts = append(facts, fact)
		}
	}
	if len(facts) > 0 {
		t.note(session.MessageBefore, t.conv.Before(facts))
	}
	return nil
}

// fact describes a completed step, with the answer of its model.
func (t *talk) fact(ctx context.Context, id session.StepID, step session.Step) (string, error) {
	text := fmt.Sprintf("%s: %s: completed", id, t.Redact(step.Label()))
	if step.Prompt == nil {
		return text, nil
	}
	var d session.StepCompletedData
	e, err := t.Journal.Event(ctx, t.book.step(id).LastSeq)
	if err == nil {
		err = e.Decode(&d)
	}
	if err != nil || e.Type != session.StepCompleted || d.Matches == nil {
		return "", errors.Join(&session.Error{Code: session.ErrCorrupt, Message: "the prompt needs the result of the task " + id.Task + ", which has no receipt", Next: session.Do(session.MoveVerify, t.short)}, err)
	}
	answer := []byte(d.Matches.Text)
	if d.Matches.Blob.Hash != "" {
		if answer, err = t.content(ctx, d.Matches.Blob); err != nil {
			return "", err
		}
	}
	return text + "; its model answered: " + strings.ToValidUTF8(string(answer[:min(len(answer), mostAnswer)]), ""), nil
}

// noteRules adds the files of the workspace that a person trusts, if there are any.
func (t *talk) noteRules(ctx context.Context) {
	if t.Trusted == nil {
		return
	}
	if files := t.Trusted(ctx); len(files) > 0 {
		t.note(session.MessageRules, t.conv.Rules(files))
	}
}

// text returns the prompt with its values filled in. Secrets stay out of it.
func (t *talk) text(ctx context.Context) (string, error) {
	if t.p.Plans { // a person typed it
		return t.p.Text, nil
	}
	values, err := t.values(ctx, t.it, nil)
	return session.Expand(t.p.Text, values), err
}

// beginAt makes the event after seq the first one of the conversation.
func (t *talk) beginAt(ctx context.Context, seq uint64) error {
	before, err := t.Journal.Event(ctx, seq)
	t.seen, t.hash = seq, before.Hash
	return err
}

// catchUp adds the new events of the journal to the conversation. Each is chained to the
// head of the session, which is signed. So the model never sees a result that someone
// edited.
func (t *talk) catchUp(ctx context.Context) error {
	var last uint64
	var head session.Hash
	t.book.look(func(s *session.Session) { last, head = s.LastSeq, s.Head })
	err := t.Journal.Events(ctx, t.seen, last, func(e session.Event) error {
		if e.Hash != e.ChainHash(t.hash) {
			return t.edited(e.Seq)
		}
		t.seen, t.hash = e.Seq, e.Hash
		return t.conv.Add(e, func(ref session.BlobRef) ([]byte, error) { return t.content(ctx, ref) })
	})
	if err == nil && t.hash != head {
		err = t.edited(last)
	}
	return err
}

func (t *talk) edited(seq uint64) error {
	return &session.Error{Code: session.ErrCorrupt, Message: "an event of the conversation does not belong to the journal; the model was not asked", Place: fmt.Sprintf("seq %d", seq),
		Next: session.Do(session.MoveVerify, t.short)}
}

func (t *talk) content(ctx context.Context, ref session.BlobRef) ([]byte, error) {
	r, err := t.Blobs.Open(ctx, ref.Hash)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// turn makes the next request, and returns the reply. The receipt of the reply is
// pending: it is committed together with the intents of its calls. The receipts of the
// calls before are committed together with the request.
func (t *talk) turn(ctx context.Context) (*session.Reply, error) {
	if err := t.boundary(ctx); err != nil {
		return nil, err
	}
	head := t.head()
	turn, attempt := head.Turn+1, 1
	if head.Failed || t.failing() {
		turn, attempt = head.Turn, head.Attempt+1
	}
	id := session.TurnID(t.it.ID, turn)
	key := session.KeyOf(t.id, id, attempt).String()
	if err := t.within(ctx, func() error { return t.commit(ctx, t.intent(id, key, attempt)...) }); err != nil {
		return nil, err
	}
	t.notes = nil
	if err := t.Journal.Fence(ctx); err != nil {
		return nil, err
	}
	if err := t.catchUp(ctx); err != nil {
		return nil, err
	}
	raw, err := t.receive(ctx, key, func(into io.Writer) error { return t.model.Ask(ctx, t.conv.Request(), into) })
	reply, unread := t.model.Reply(raw)
	if err = errors.Join(err, unread); err != nil || !reply.Whole {
		return nil, t.noReply(ctx, id, key, attempt, raw, err)
	}
	t.tries = 0
	return &reply, t.receipt(ctx, id, key, attempt, raw, reply)
}

// failing reports whether the receipt of a request without a whole reply is pending.
func (t *talk) failing() bool {
	for _, d := range t.pending {
		if data, ok := d.Data.(session.ModelFailedData); ok && data.Of() == t.it.ID {
			return true
		}
	}
	return false
}

// reduce leaves out old parts of a conversation that outgrows the context of the model.
func (t *talk) reduce(ctx context.Context) error {
	limit := t.room()
	if reduced := t.conv.Reduce(limit); reduced != nil {
		reduced.StepID = t.it.ID
		if err := t.commit(ctx, session.Draft{Type: session.ContextReduced, Data: *reduced}); err != nil {
			return err
		}
		if err := t.catchUp(ctx); err != nil {
			return err
		}
	}
	if n := t.conv.Tokens(); limit > 0 && n > limit {
		return t.limit(session.ReasonTokens, fmt.Sprintf("the conversation has about %d tokens, and the context of the model has room for %d", n, limit),
			session.Then("to continue with a model that has a larger context", session.MoveChooseModel, t.short))
	}
	return nil
}

// room returns how many tokens a request may have; 0 for any number.
func (t *talk) room() int64 {
	if t.Context == nil {
		return 0
	}
	return t.Context(t.model.Setup().Name)
}

// intent returns the drafts of a request with the messages that it adds.
func (t *talk) intent(id session.StepID, key string, attempt int) (drafts []session.Draft) {
	for _, n := range t.notes {
		drafts = append(drafts, session.Draft{Type: session.MessageAdded, Data: n})
	}
	tools, err := json.Marshal(t.conv.Request().Tools)
	if err != nil {
		panic("engine: the schema of a tool must encode: " + err.Error())
	}
	sum := sha256.Sum256(tools)
	return append(drafts, session.Draft{Type: session.ModelAsked, Data: session.ModelAskedData{
		StepID: id, Key: key, Attempt: attempt, Model: t.model.Setup(), Tools: hex.EncodeToString(sum[:]), Render: t.conv.Version(), Needs: t.needs()}})
}

// end completes the step with the answer of the model.
func (t *talk) end(ctx context.Context, end session.Ending) error {
	if end.GaveUp && t.p.Plans {
		return &failure{code: session.ErrPlanning, message: "the model made no plan: " + end.Text}
	}
	if end.GaveUp {
		return &failure{code: session.ErrGaveUp, message: "the model gave up: " + end.Text}
	}
	answer, err := t.output(ctx, end.Text, int64(len(end.Text)), false)
	if err != nil {
		return err
	}
	receipt := session.StepCompletedData{Matches: answer}
	if name := t.p.Capture; name != "" {
		value, err := session.CaptureValue(name, end.Text)
		if err != nil {
			return &failure{code: session.CodeOf(err), message: err.Error()}
		}
		if t.Captured != nil {
			t.Captured(name, value)
		}
		if receipt.Capture, err = t.keepCapture(ctx, name, value); err != nil {
			return err
		}
	}
	t.done(t.it, receipt)
	t.onCommit[len(t.onCommit)-1].Detail = session.AnswerLines(t.Redact(end.Text))
	return nil
}
