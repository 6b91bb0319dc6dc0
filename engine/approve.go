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

// approve stops at a human gate. An approval is single use, bound to the step and to a digest
// of what is asked and of the steps that follow; resuming never grants one (NFR-012).
func (e *Engine) approve(ctx context.Context, it *session.Item, step *session.Step) error {
	question, err := e.asks(ctx, it)
	if err != nil {
		return err
	}
	digest := e.digest(it, question)
	shown := *step
	shown.Approve = question
	it.Label = e.Redact(shown.Label())
	if e.granted(it, digest) {
		return e.pass(it, step)
	}
	if e.refused[it.ID] { // before it came here
		if no, ok := e.elsewhere(it, digest); ok {
			return e.deny(it, digest, no)
		}
	}
	if err := e.ask(ctx, it, question, digest); err != nil {
		return err
	}
	answer, err := e.wait(ctx, it, question, digest)
	if err != nil {
		return e.unanswered(it, err)
	}
	if !answer.Granted {
		return e.deny(it, digest, answer)
	}
	s := e.Journal.Session()
	if !e.granted(it, digest) {
		e.pending = append(e.pending, grant(it.ID, digest, answer.By, s.Epoch))
	}
	e.pending = append(e.pending, session.Draft{Type: session.StateChanged, Data: session.StateChangedData{From: session.AwaitingApproval, To: session.Executing}})
	return e.pass(it, step)
}

// granted reports whether this very question was answered yes for this epoch.
func (e *Engine) granted(it *session.Item, digest string) bool {
	s := e.Journal.Session()
	st := s.Steps[it.ID]
	return st != nil && st.Approval != nil && st.Approval.Digest == digest && st.Approval.Answer == "granted" && st.Approval.For == e.epoch()
}

// epoch is the epoch that this process has or is about to commit.
func (e *Engine) epoch() uint64 {
	epoch := e.Journal.Session().Epoch
	if slices.ContainsFunc(e.pending, func(d session.Draft) bool { return d.Type == session.ExecutionAcquired }) {
		epoch++
	}
	return epoch
}

func grant(id session.StepID, digest, by string, epoch uint64) session.Draft {
	return session.Draft{Type: session.ApprovalGranted, Actor: "user", Data: session.ApprovalGrantedData{StepID: id, Digest: digest, By: by, For: epoch}}
}

// pass queues the gate's intent and receipt: it has no effect of its own.
func (e *Engine) pass(it *session.Item, step *session.Step) error {
	if !e.inProgress(it) {
		e.pending = append(e.pending, session.Draft{Type: session.StepStarted, Data: session.StepStartedData{
			StepID: it.ID, Kind: it.Kind, Key: e.key(it, it.Attempt), Attempt: it.Attempt, Digest: step.Digest()}})
	}
	e.done(it, session.StepCompletedData{By: "person"})
	return nil
}

// ask makes the question and the waiting durable.
func (e *Engine) ask(ctx context.Context, it *session.Item, question, digest string) error {
	d := session.StateChangedData{From: e.willBe(e.Journal.Session()), To: session.AwaitingApproval, Reason: session.ReasonApproval}
	d.Manifest, d.Git = e.snapshot(ctx, d.Reason) // an answer may take days
	asked := session.Draft{Type: session.ApprovalRequested, Data: session.ApprovalRequestedData{StepID: it.ID, Question: question, Digest: digest}}
	if err := e.commit(ctx, asked, session.Draft{Type: session.StateChanged, Data: d}); err != nil {
		return err
	}
	gate := e.Plan.GateOf(&e.next, it.ID, question).Redacted(e.Redact)
	e.Notify(session.Notice{Kind: session.NoticeAsking, Item: it, Text: gate.Question, Detail: gate.Lines()})
	return nil
}

// wait asks whoever is there, and meanwhile takes an answer given from elsewhere.
func (e *Engine) wait(ctx context.Context, it *session.Item, question, digest string) (Answer, error) {
	asking, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answered := make(chan error, 1)
	var answer Answer
	go func() {
		var err error
		answer, err = e.Person.Approve(asking, *it, e.Redact(question))
		answered <- err
	}()
	tick := time.NewTicker(requestPoll)
	defer tick.Stop()
	for {
		select {
		case err := <-answered:
			return answer, err
		case <-tick.C:
		}
		if err := e.boundary(ctx); err != nil {
			cancel(err)
			<-answered
			return Answer{}, err
		}
		if a, ok := e.elsewhere(it, digest); ok {
			cancel(nil)
			<-answered
			return a, nil
		}
	}
}

// elsewhere is the answer that a request brought while we asked here.
func (e *Engine) elsewhere(it *session.Item, digest string) (Answer, bool) {
	a := e.Journal.Session().Steps[it.ID].Approval
	if a == nil || a.Digest != digest || a.Answer == "" {
		return Answer{}, false
	}
	return Answer{Granted: a.Answer == "granted", By: a.By, Reason: a.Reason}, true
}

func (e *Engine) unanswered(it *session.Item, err error) error {
	if !errors.Is(err, session.ErrApproval) {
		return err
	}
	s := e.Journal.Session()
	return &stop{code: session.ErrApproval, detail: it.ID.String() + " waits for approval and nobody can be asked here",
		next: session.Do(session.MoveApproveResume, s.Short)}
}

// deny records a no with its reason and pauses; the next resume asks anew.
func (e *Engine) deny(it *session.Item, digest string, a Answer) error {
	st := e.Journal.Session().Steps[it.ID]
	if st.Approval.Answer != "denied" {
		e.pending = append(e.pending, session.Draft{Type: session.ApprovalDenied, Actor: "user", Data: session.ApprovalDeniedData{
			StepID: it.ID, Digest: digest, By: a.By, Reason: a.Reason}})
	}
	detail := it.ID.String() + " was denied"
	if a.Reason != "" {
		detail += ": " + a.Reason
	}
	return &stop{to: session.Paused, reason: session.ReasonApproval, code: session.ErrDenied, detail: detail}
}

// ApprovalDigest binds an approval of gate to its question, to the inputs (the hash of their blob) and
// to every step after it in order, so that an old yes never answers a new question.
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
