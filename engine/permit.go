package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/acode-dev/acode/session"
)

// permitted carries out a call that changes something, if the powers of the model or a
// person allow it. If not, the model is told, and the session pauses after MaxDenied of
// them.
func (t *talk) permitted(ctx context.Context, c *modelCall) error {
	raw, err := json.Marshal(c.Work)
	if err != nil {
		return err
	}
	answer := Answer{Granted: !c.verdict.Deny, Reason: c.verdict.Reason}
	no := t.book.step(c.ID.Of()).Approval
	byPerson := c.verdict.Ask
	switch {
	case no != nil && no.Op == c.ID.Op && no.Answer == "denied": // it stands, also if the call needs no yes now
		answer, byPerson = Answer{Reason: no.Reason}, true
	case c.verdict.Ask:
		if answer, err = t.decided(ctx, c, raw); err != nil {
			return t.belongs(&c.Item, err)
		}
	}
	if answer.Granted {
		if slices.Contains(t.CheckpointBefore, c.verdict.Class) {
			t.checkpoint("before a call of the class " + c.verdict.Class)
		}
		if c.Call.Work, err = t.stage(ctx, raw); err != nil {
			return err
		}
		defer func() { t.approved = approved{} }()
		return t.changes(ctx, c.Item)
	}
	t.refuse(c.ID, session.MessageDenied, t.conv.Denial(byPerson, answer.Reason))
	if !byPerson {
		t.onCommit = append(t.onCommit, session.Notice{Kind: session.NoticeWarning, Text: fmt.Sprintf("%s was denied by the rules: %s: %s", c.ID, c.Label, t.Redact(answer.Reason))})
	}
	return t.deniedAgain(c.ID)
}

// checkpoint queues a checkpoint beside those of the receipts.
func (t *talk) checkpoint(why string) {
	t.pending = append(t.pending, session.Draft{Type: session.CheckpointCreated, Data: session.CheckpointCreatedData{Why: why}})
}

// ended counts a call whose receipt is pending, and queues a checkpoint after every
// CheckpointEvery of them.
func (t *talk) ended(id session.StepID) {
	if !t.hasEnded(id) {
		return
	}
	if t.calls++; t.CheckpointEvery > 0 && t.calls%t.CheckpointEvery == 0 {
		t.checkpoint(fmt.Sprintf("%d calls", t.calls))
	}
}

// deniedAgain counts a denial. It returns the stop of the session after too many.
func (t *talk) deniedAgain(id session.StepID) error {
	if t.denials++; t.MaxDenied > 0 && t.denials >= t.MaxDenied {
		return &stop{to: session.Paused, reason: session.ReasonApproval, code: session.ErrDenied,
			detail: fmt.Sprintf("%s: %d calls of the model were denied; the last one is %s", t.it.ID, t.denials, id)}
	}
	return nil
}

// decided returns the answer of a person to the question about a call. A yes is bound to
// exactly the work that was shown. If that changes before the answer, the person is asked
// again. The events of the answer are pending.
func (t *talk) decided(ctx context.Context, c *modelCall, work []byte) (Answer, error) {
	wants := func() (question, error) { return t.wants(ctx, &c.Item, c.verdict, work, "The model", c.ID.String()) }
	for {
		q, err := wants()
		if err != nil {
			return Answer{}, err
		}
		answer, err := t.answer(ctx, c, q.ApprovalRequestedData)
		if err != nil || !answer.Granted {
			return answer, err
		}
		again, err := wants()
		if err != nil || again.Digest == q.Digest {
			t.approved = again.approved()
			return answer, err
		}
	}
}

// answer returns the answer to a question about a call: one that was given before, or
// that the person gives now.
func (t *talk) answer(ctx context.Context, c *modelCall, question session.ApprovalRequestedData) (Answer, error) {
	if t.granted(c.ID, question.Digest) {
		return Answer{Granted: true}, nil
	}
	if no, known := t.elsewhere(c.ID, question.Digest); known && !no.Granted {
		return no, nil
	}
	if err := t.ask(ctx, question); err != nil {
		return Answer{}, err
	}
	answer, err := t.wait(ctx, c.ID, question.Digest, func(ctx context.Context) (Answer, error) {
		gate := session.CallGateOf(question).Redacted(t.Redact)
		t.tell(session.Notice{Kind: session.NoticeAsking, Item: &c.Item, Text: gate.Question, Detail: gate.Lines()})
		return t.Person.Permit(ctx, c.Item, gate.Question, t.Redact(c.verdict.Means))
	})
	if err != nil {
		return answer, t.unanswered(c.ID, err)
	}
	if _, known := t.elsewhere(c.ID, question.Digest); !known {
		t.pending = append(t.pending, t.decision(c.ID, question.Digest, answer))
	}
	to := session.Executing
	if t.p.Plans && !answer.Granted {
		to = session.Planning
	}
	t.pending = append(t.pending, session.Draft{Type: session.StateChanged, Data: session.StateChangedData{To: to}})
	if answer.Scope != session.ScopeAlways {
		return answer, nil
	}
	if err := t.commit(ctx); err != nil {
		return answer, err
	}
	return answer, t.Always(c.verdict.Offer)
}

func (b *branch) decision(id session.StepID, digest string, a Answer) session.Draft {
	if a.Granted {
		return b.grant(id, digest, a)
	}
	return session.Draft{Type: session.ApprovalDenied, Actor: "user", Data: session.ApprovalDeniedData{StepID: id, Digest: digest, By: a.By, Reason: a.Reason}}
}
