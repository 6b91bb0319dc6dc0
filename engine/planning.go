package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/acode-dev/acode/session"
)

// mostInvalid is how many invalid plans go back to the model.
const mostInvalid = 3

// proposes handles a plan that the model proposes. An invalid plan goes back to it with
// its errors, and so does one that the person rejects. An adopted plan ends the execution
// of this one.
func (t *talk) proposes(ctx context.Context, c *modelCall) error {
	p, err := t.Propose([]byte(c.work.Arguments))
	if err != nil {
		var known *session.Error
		if !errors.As(err, &known) {
			return err
		}
		t.refuse(c.ID, session.MessageRefused, t.conv.Refusal(err))
		return t.unplanned("the plan of the model is not valid: " + err.Error())
	}
	raw, err := json.Marshal(p.Plan)
	if err != nil {
		return err
	}
	if p.Asks || t.PlanOnly {
		sum := sha256.Sum256([]byte(c.ID.String() + "\n" + string(raw)))
		question := session.ApprovalRequestedData{StepID: c.ID, Question: "Carry out this plan?", Digest: hex.EncodeToString(sum[:]), Detail: p.Lines}
		if t.PlanOnly {
			return t.onlyPlanned(ctx, c, question)
		}
		answer, err := t.answer(ctx, c, question)
		if err != nil {
			return err
		}
		if !answer.Granted {
			t.refuse(c.ID, session.MessageDenied, t.conv.Denial(true, answer.Reason))
			return t.deniedAgain(c.ID)
		}
	} else {
		t.pending = append(t.pending, session.Draft{Type: session.StateChanged, Data: session.StateChangedData{To: session.Executing}})
	}
	return t.adopt(ctx, p.Plan)
}

// onlyPlanned shows the plan and pauses the session with the question about it.
func (t *talk) onlyPlanned(ctx context.Context, c *modelCall, question session.ApprovalRequestedData) error {
	if err := t.ask(ctx, question); err != nil {
		return err
	}
	gate := session.CallGateOf(question).Redacted(t.Redact)
	t.tell(session.Notice{Kind: session.NoticeAsking, Item: &c.Item, Text: gate.Question, Detail: gate.Lines()})
	return &stop{to: session.Paused, reason: session.ReasonApproval, detail: "the plan waits for your approval", next: session.Do(session.MoveApproveResume, t.short)}
}

// adopt queues the receipt of the planning with the plan.
func (t *talk) adopt(ctx context.Context, proposed *session.Plan) error {
	whole := t.Plan.Adopt(proposed)
	raw, err := json.Marshal(whole)
	if err != nil {
		return err
	}
	ref, err := t.stage(ctx, raw)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("A plan of %d tasks with %d steps", len(proposed.Tasks), proposed.Steps())
	said, err := t.output(ctx, text, int64(len(text)), false)
	if err != nil {
		return err
	}
	t.pending = append(t.pending, session.Draft{Type: session.PlanAdopted, Data: session.PlanAdoptedData{
		StepID: t.it.ID, Plan: ref, Tasks: len(whole.Tasks), Steps: whole.Steps()}})
	t.done(t.it, session.StepCompletedData{Matches: said})
	t.onCommit[len(t.onCommit)-1].Detail = session.AnswerLines(text)
	return &stop{detail: "the plan was adopted"}
}

// unplanned counts an answer without a valid plan. It returns the stop of the session
// after too many.
func (t *talk) unplanned(why string) error {
	if t.invalid++; t.invalid <= mostInvalid {
		return nil
	}
	return &stop{to: session.Paused, reason: session.ReasonPlanning, code: session.ErrPlanning, detail: fmt.Sprintf("%s: no valid plan after %d tries; the last one: %s", t.it.ID, t.invalid, why),
		next: session.Then("to let the model try again", session.MoveResume, t.short)}
}
