package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/acode-dev/acode/session"
)

// maxReruns is how often in a row a policy or a check may run a command again because its
// outcome was unknown. A cause that kills the supervisor each time would otherwise repeat
// without end.
const maxReruns = 3

// unknown makes it durable that the outcome of a command is unknown, with its output,
// then resolves it.
func (b *branch) unknown(ctx context.Context, it *session.Item, step *session.Step, rec session.CommandRecord) error {
	bg := context.WithoutCancel(ctx)
	if !b.uncertain(it) {
		if err := b.recordUnknown(bg, it, rec); err != nil {
			return err
		}
		if err := b.commit(bg); err != nil {
			return err
		}
	}
	if it.Call != nil { // the agent is told, and decides
		return nil
	}
	return b.resolve(ctx, it, step, rec)
}

// recordUnknown queues that the outcome of a command is unknown, with the rest of its
// output.
func (b *branch) recordUnknown(ctx context.Context, it *session.Item, rec session.CommandRecord) error {
	soFar, _, _, err := b.result(ctx, rec)
	if err != nil && !errors.Is(err, session.ErrCorrupt) {
		return err
	}
	held, err := b.putBack(ctx, it)
	if err != nil {
		return err
	}
	b.queue(session.Draft{Type: it.ID.Event(session.StepUnknown), Data: session.StepUnknownData{
		StepID: it.ID, Key: rec.Key, Attempt: it.Attempt, Why: rec.Why, Command: soFar, Manifest: b.look(ctx), Held: held,
	}}, session.Notice{Kind: session.NoticeUncertain, Item: it, Text: rec.Why, Detail: b.redacted(rec.Left)})
	return nil
}

// resolve decides the outcome of a command whose outcome is unknown. It uses the step's
// check, then a person's answer given in advance, then the policy, then asks a person
// (E5).
func (b *branch) resolve(ctx context.Context, it *session.Item, step *session.Step, rec session.CommandRecord) error {
	if err := b.boundary(ctx); err != nil { // the outcome may be unknown because the session is to be cancelled
		return err
	}
	found, err := b.Journal.Event(ctx, b.book.step(it.ID).LastSeq)
	if err != nil {
		return err
	}
	b.overUS = found.TimeUS
	var doubt session.StepUnknownData
	if err := found.Decode(&doubt); err != nil {
		return err
	}
	if err := b.outlive(ctx, it, step, rec.Key); err != nil {
		return err
	}
	by, verdict, err := b.check(ctx, it, step.Run)
	if err != nil {
		return err
	}
	if verdict == "" || verdict == session.InterruptDone && b.said(it, rec.Key) && b.lost(it, step.Run) {
		by, verdict = b.declared(it, step.Run, rec.Key) // a check cannot restore a lost value: a person's answer counts
	}
	if verdict == session.InterruptReruns && by == "policy" && rec.State == session.CommandFinished {
		verdict = session.InterruptAsks // the command did run: a policy only repeats commands that may not have run
	}
	if verdict == session.InterruptReruns && by != "person" {
		if b.reran++; b.reran > maxReruns {
			verdict = session.InterruptAsks
			rec.Why += fmt.Sprintf("; it already ran again %d times", maxReruns)
		}
	}
	if verdict == session.InterruptAsks {
		by = "person"
		err := b.asking(ctx, func() (err error) {
			if last := b.lastWrote(rec.Key); len(last) > 0 {
				b.tell(session.Notice{Kind: session.NoticeInfo, Item: it, Text: "The end of its output:", Detail: last})
			}
			verdict, err = b.Person.Uncertain(ctx, *it, b.redacted(step.Does()), rec.Why)
			return err
		})
		if err != nil {
			return b.undecided(it, rec, err)
		}
	}
	b.Log.Info("uncertain step decided", "event", "uncertain_decided", "step", it.ID.String(), "decision", string(verdict), "by", by)
	if text := decided(it, by, verdict); text != "" {
		b.onCommit = append(b.onCommit, session.Notice{Kind: session.NoticeInfo, Text: text})
	}
	switch verdict {
	case session.InterruptDone:
		return b.declareDone(ctx, it, step, rec.Key, by, doubt.Command)
	case session.InterruptFails:
		b.spent = append(b.spent, rec.Key)
		return &failure{code: session.ErrUncertain, message: "the outcome of the command is unknown; declared failed", by: by, command: doubt.Command}
	case session.InterruptReruns:
		if err := b.boundary(ctx); err != nil { // after the question: nothing new begins
			return err
		}
		b.spent = append(b.spent, rec.Key)
		return b.nextAttempt(ctx, it, step, by, found.Seq)
	}
	return b.undecided(it, rec, session.ErrUncertain)
}

// decided returns a text about a decision without a person. It is empty if a person
// decided.
func decided(it *session.Item, by string, verdict session.OnInterrupt) string {
	then := map[session.OnInterrupt]string{
		session.InterruptDone: "it happened", session.InterruptReruns: "it did not happen, so it runs again", session.InterruptFails: "it failed",
	}[verdict]
	switch {
	case then == "":
		return ""
	case by == "check":
		return fmt.Sprintf("The check of %s says: %s", it.ID, then)
	case by == "policy":
		return fmt.Sprintf("The outcome is unknown, and on_interrupt of %s says: %s", it.ID, verdict)
	}
	return ""
}

// check runs the step's own check. Exit status 0 means that the command happened, 1 that
// it did not. Otherwise the outcome stays unknown.
func (b *branch) check(ctx context.Context, it *session.Item, r *session.Run) (by string, verdict session.OnInterrupt, err error) {
	if r.Check == "" {
		return "", "", nil
	}
	if err := b.Journal.Fence(ctx); err != nil {
		return "", "", err
	}
	req, err := b.request(ctx, it, r.Asking())
	if err != nil {
		return "", "", err
	}
	var seq uint64
	b.book.look(func(s *session.Session) { seq = s.LastSeq })
	// A check may run again, so each run has its own key. Every process, and every new
	// unknown outcome, commits an event first, so seq is new.
	req.Key = session.Key{Session: b.id, Step: it.ID, Operation: session.OpCheck, Attempt: int(seq)}.String()
	rec, err := b.await(ctx, it, req.Key, func(ctx context.Context) (session.CommandRecord, error) { return b.Commands.Run(ctx, req) })
	if f := (*failure)(nil); errors.As(commandFailure(err), &f) { // it never started, for example because its directory is gone
		b.tell(session.Notice{Kind: session.NoticeInfo, Text: b.Redact(fmt.Sprintf("The check of %s cannot tell: %s", it.ID, f.message))})
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	if err := b.Commands.Forget(req.Key); err != nil {
		return "", "", err
	}
	if rec.Cancelled || rec.State != session.CommandFinished { // perhaps because the session is to be cancelled
		if err := b.boundary(ctx); err != nil {
			return "", "", err
		}
	}
	switch {
	case rec.Starved: // on_interrupt is only for a check that cannot tell
		return "", "", &stop{to: session.Paused, reason: session.ReasonEnvironment, code: session.ErrInternal,
			detail: fmt.Sprintf("the check of %s could not be started: %s; %s", it.ID, rec.StartError, starvation)}
	case rec.State != session.CommandFinished || rec.Signal != "" || rec.TimedOut || rec.StartError != "":
		return "", "", nil
	case rec.Exit == 0:
		return "check", session.InterruptDone, nil
	case rec.Exit == 1:
		return "check", session.InterruptReruns, nil
	}
	return "", "", nil
}

// said reports whether a person answered in advance. The answer is for the attempt that
// was uncertain then, and not for one that became uncertain later.
func (b *branch) said(it *session.Item, key string) bool {
	return b.Policy.given(it.ID) != "" && b.answered == key
}

// given returns the answer that a person gave in advance for step id.
func (p Policy) given(id session.StepID) session.OnInterrupt {
	return cmp.Or(p.Outcomes[id], p.Uncertain)
}

// lost reports whether the value that the step's command was to capture is lost. Without
// a recorded exit, nothing proves that the command wrote all of it, so only a person can
// give the value.
func (b *branch) lost(it *session.Item, r *session.Run) bool {
	_, given := b.Policy.Captures[it.ID]
	return r.Capture != "" && !given
}

// declared returns the decision that a person or the policy made in advance. A person who
// gives the captured value of a command says that it happened.
func (b *branch) declared(it *session.Item, r *session.Run, key string) (by string, verdict session.OnInterrupt) {
	if _, given := b.Policy.Captures[it.ID]; given {
		return "person", session.InterruptDone
	}
	if b.said(it, key) {
		return "person", b.Policy.given(it.ID)
	}
	if r.OnInterrupt != "" {
		return "policy", r.OnInterrupt
	}
	return "", session.InterruptAsks
}

// foresee returns a text that says how an unknown outcome of the operation of key would
// be decided.
func (b *branch) foresee(it *session.Item, key string) string {
	r := *it.Of(b.Plan).Run
	if b.what(it, key) != "command" {
		r.Check = ""
	}
	if by, verdict := b.declared(it, &r, b.key(it, it.Attempt)); by == "person" {
		return r.Foresee(verdict)
	}
	return r.Foresee("")
}

// undecided stops the session and names the command that continues it. The command leaves
// the answer open.
func (b *branch) undecided(it *session.Item, rec session.CommandRecord, err error) error {
	if !errors.Is(err, session.ErrUncertain) {
		return err
	}
	return &stop{to: session.Paused, reason: session.ReasonUncertain, code: session.ErrUncertain,
		detail: it.ID.String() + ": no one can know whether the command happened: " + rec.Why,
		next:   b.answerWith(it)}
}

// answerWith returns the hint that asks for the outcome of the step.
func (b *branch) answerWith(it *session.Item) session.Hint {
	return b.Plan.Asks(b.short, it)
}

// declareDone records a step as done because its check, its policy or a person says so.
// wrote is the rest of the command's output.
func (b *branch) declareDone(ctx context.Context, it *session.Item, step *session.Step, key, by string, wrote *session.CommandResult) error {
	receipt := session.StepCompletedData{By: by, Command: wrote}
	var err error
	if name := step.Run.Capture; name != "" {
		if b.lost(it, step.Run) {
			return b.valueLost(it, name)
		}
		value := b.Policy.Captures[it.ID]
		if b.Captured != nil {
			b.Captured(name, value)
		}
		if receipt.Capture, err = b.keepCapture(ctx, name, value); err != nil {
			return err
		}
	}
	if receipt.Files, err = b.changedFiles(ctx); err != nil {
		return err
	}
	b.done(it, receipt)
	b.spent = append(b.spent, key)
	return nil
}

// valueLost stops at a step that happened but whose captured value is lost, because later
// steps would miss it.
func (b *branch) valueLost(it *session.Item, name string) error {
	return &stop{to: session.Paused, reason: session.ReasonUncertain, code: session.ErrUncertain,
		detail: fmt.Sprintf("%s cannot be declared done: its command was interrupted, so the value of %s is lost", it.ID, name),
		next:   b.answerWith(it)}
}

// nextAttempt starts the command again under a new key, because a claimed key never
// starts twice. doubt is the seq of the event that records the unknown outcome.
func (b *branch) nextAttempt(ctx context.Context, it *session.Item, step *session.Step, by string, doubt uint64) error {
	it.Attempt++
	it.Action, b.overUS = session.ActionRetry, 0
	if err := b.begin(ctx, it, session.StepStartedData{Digest: step.Digest(), By: by, After: doubt}); err != nil {
		return err
	}
	return b.launch(ctx, it, step)
}
