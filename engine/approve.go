package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/acode-dev/acode/session"
)

// approve stops at a gate for a person. An approval is valid once. It is bound to the
// step and to a digest of the question and of the following steps. Resuming never grants
// an approval (NFR-012).
func (b *branch) approve(ctx context.Context, it *session.Item, step *session.Step) error {
	question, err := b.asks(ctx, it)
	if err != nil {
		return err
	}
	digest := b.digest(it, question)
	shown := *step
	shown.Approve = question
	it.Label = b.Redact(shown.Label())
	if b.granted(it.ID, digest) {
		return b.pass(it, step)
	}
	if b.crew.refused(it.ID) { // a denial came before this branch reached the gate
		if no, ok := b.elsewhere(it.ID, digest); ok {
			return b.deny(it, digest, no)
		}
	}
	if err := b.ask(ctx, session.ApprovalRequestedData{StepID: it.ID, Question: question, Digest: digest}); err != nil {
		return err
	}
	answer, err := b.wait(ctx, it.ID, digest, func(ctx context.Context) (Answer, error) {
		gate := b.Plan.GateOf(&b.next, it.ID, question).Redacted(b.Redact)
		b.tell(session.Notice{Kind: session.NoticeAsking, Item: it, Text: gate.Question, Detail: gate.Lines()})
		return b.Person.Approve(ctx, *it, b.Redact(question))
	})
	if err != nil {
		return b.unanswered(it.ID, err)
	}
	if !answer.Granted {
		return b.deny(it, digest, answer)
	}
	if !b.granted(it.ID, digest) {
		b.pending = append(b.pending, b.grant(it.ID, digest, answer))
	}
	b.pending = append(b.pending, session.Draft{Type: session.StateChanged, Data: session.StateChangedData{To: session.Executing}})
	return b.pass(it, step)
}

// granted reports whether a person approved this exact question for this epoch.
func (b *branch) granted(id session.StepID, digest string) bool {
	a := b.book.step(id.Of()).Approval
	return a != nil && a.Digest == digest && a.Valid(b.epoch)
}

func (b *branch) grant(id session.StepID, digest string, a Answer) session.Draft {
	return session.Draft{Type: session.ApprovalGranted, Actor: "user", Data: session.ApprovalGrantedData{StepID: id, Digest: digest, By: a.By, For: b.epoch, Scope: a.Scope}}
}

// pass queues the gate's intent and receipt, because a gate has no effect of its own.
func (b *branch) pass(it *session.Item, step *session.Step) error {
	if !b.inProgress(it) {
		b.pending = append(b.pending, session.Draft{Type: session.StepStarted, Data: session.StepStartedData{
			StepID: it.ID, Kind: it.Kind, Key: b.key(it, it.Attempt), Attempt: it.Attempt, Digest: step.Digest()}})
	}
	b.done(it, session.StepCompletedData{By: "person"})
	return nil
}

// ask makes the question and the waiting state durable.
func (b *branch) ask(ctx context.Context, question session.ApprovalRequestedData) error {
	d := session.StateChangedData{To: session.AwaitingApproval, Reason: session.ReasonApproval}
	d.Manifest, d.Git = b.snapshot(ctx, d.Reason) // an answer may take days
	asked := session.Draft{Type: session.ApprovalRequested, Data: question}
	return b.commit(ctx, asked, session.Draft{Type: session.StateChanged, Data: d})
}

// wait asks the person at this process with ask. Meanwhile it also accepts an answer from
// another process.
func (b *branch) wait(ctx context.Context, id session.StepID, digest string, ask func(context.Context) (Answer, error)) (Answer, error) {
	asking, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answered := make(chan error, 1)
	var answer Answer
	go func() {
		answered <- b.asking(asking, func() (err error) {
			answer, err = ask(asking)
			return err
		})
	}()
	tick := time.NewTicker(requestPoll)
	defer tick.Stop()
	for {
		select {
		case err := <-answered:
			return answer, err
		case <-tick.C:
		}
		if err := b.boundary(ctx); err != nil {
			cancel(err)
			<-answered
			return Answer{}, err
		}
		if a, ok := b.elsewhere(id, digest); ok {
			cancel(nil)
			<-answered
			return a, nil
		}
	}
}

// asking calls ask while no other branch asks the person.
func (b *branch) asking(ctx context.Context, ask func() error) error {
	select {
	case b.persons <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-b.persons }()
	return ask()
}

// elsewhere returns the answer that a request of another process brought.
func (b *branch) elsewhere(id session.StepID, digest string) (Answer, bool) {
	a := b.book.step(id.Of()).Approval
	if a == nil || a.Digest != digest || a.Answer == "" {
		return Answer{}, false
	}
	return Answer{Granted: a.Answer == "granted", By: a.By, Reason: a.Reason}, true
}

func (b *branch) unanswered(id session.StepID, err error) error {
	if !errors.Is(err, session.ErrApproval) {
		return err
	}
	return &stop{code: session.ErrApproval, detail: id.String() + " waits for approval, and no one can be asked here"}
}

// deny records a denial with its reason and pauses. The next resume asks again.
func (b *branch) deny(it *session.Item, digest string, a Answer) error {
	if b.book.step(it.ID).Approval.Answer != "denied" {
		b.pending = append(b.pending, session.Draft{Type: session.ApprovalDenied, Actor: "user", Data: session.ApprovalDeniedData{
			StepID: it.ID, Digest: digest, By: a.By, Reason: a.Reason}})
	}
	detail := it.ID.String() + " was denied"
	if a.Reason != "" {
		detail += ": " + a.Reason
	}
	return &stop{to: session.Paused, reason: session.ReasonApproval, code: session.ErrDenied, detail: detail}
}

// ApprovalDigest returns a digest that binds an approval of gate to its question, to the
// inputs (the hash of their blob) and to every step after it in order. An approval of
// another question then never matches.
func ApprovalDigest(p *session.Plan, next session.Continuation, gate session.StepID, question, inputs string) string {
	h := sha256.New()
	_, _ = io.WriteString(h, strconv.Quote(question)+" "+inputs+"\n") // a hash never fails to write
	at := slices.IndexFunc(next.Items, func(it session.Item) bool { return it.ID == gate })
	for _, it := range next.Items[at:] {
		step := p.Tasks[it.Task-1].Steps[it.Step-1]
		_, _ = io.WriteString(h, it.ID.String()+"\x00"+step.Digest()+"\n") // as above
	}
	return hex.EncodeToString(h.Sum(nil))
}
