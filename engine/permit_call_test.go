package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/session"
)

// asks is a verdict that a person must be asked.
var asks = session.Permission{Ask: true, Class: "command", Reason: "it does more than read", Offer: "a rule"}

// try makes a call under a verdict, and returns the question about it, if there is one.
func (a agent) try(step session.Step, v session.Permission) (*engine.AskedError, error) {
	a.w.t.Helper()
	it := a.item(step)
	admitted, err := a.Admit(context.Background(), it)
	if err != nil {
		a.w.t.Fatalf("%v", err)
	}
	if err = admitted.Permit(context.Background(), v); err == nil {
		err = admitted.Do(context.Background())
	}
	var asked *engine.AskedError
	errors.As(err, &asked)
	return asked, err
}

// asked makes a call that a person is asked about.
func (a agent) asked(step session.Step) *engine.AskedError {
	a.w.t.Helper()
	asked, err := a.try(step, asks)
	if asked == nil || !errors.Is(err, session.ErrApproval) || !strings.Contains(err.Error(), "nothing was changed") {
		a.w.t.Fatalf("%s: got %v, want a question", step.Label(), err)
	}
	return asked
}

// decideElsewhere answers a question as another process does while no process executes.
func (w *world) decideElsewhere(kind session.RequestKind, asked *engine.AskedError) {
	w.t.Helper()
	q := asked.Question
	r := session.Request{Kind: kind, Step: q.StepID, Digest: q.Digest, Asked: w.sess.Steps[q.Of()].LastSeq, By: "ann", Reason: "because"}
	drafts := w.sess.Answered(r, w.sess.Epoch+1, q)
	if len(drafts) == 0 {
		w.t.Fatalf("%s of %s does not fit", kind, q.StepID)
	}
	for _, d := range drafts {
		w.add(d)
	}
}

func ledgerLine() session.Step { return command("call", "ledger line") }

func (w *world) wantLedger(lines int) {
	w.t.Helper()
	if len(w.ledger) != lines || len(w.sess.Ops) != lines {
		w.t.Errorf("ledger: got %q and %d operations, want %d lines", w.ledger, len(w.sess.Ops), lines)
	}
}

// A call of an agent that must be asked about runs once after a yes. Until then it leaves
// nothing but its question, and a repeated call asks no second time.
func TestAgentIsAskedOnce(t *testing.T) {
	w := newAgentWorld(t)
	a := w.connect()
	asked := a.asked(ledgerLine())
	if d := cmp.Diff([]string{"ledger line", "in the workspace, with all your rights"}, asked.Question.Detail); d != "" || !strings.Contains(asked.Question.Question, "The agent asks to use tool (command: it does more than read)") {
		t.Errorf("the question %q shows (-want +got):\n%s", asked.Question.Question, d)
	}
	events := len(w.events)
	if again := a.asked(ledgerLine()); again.Question.Op != asked.Question.Op || len(w.events) != events {
		t.Errorf("the repeated call asked again: %s after %s, %d new events", again.Question.Op, asked.Question.Op, len(w.events)-events)
	}
	w.wantLedger(0)
	w.decideElsewhere(session.RequestApprove, asked)
	a = w.connect()
	if _, err := a.try(ledgerLine(), asks); err != nil {
		t.Fatal(err)
	}
	w.wantLedger(1)
	if d := payload[session.OperationStartedData](w, session.OperationStarted); d.Approval != asked.Question.Digest {
		t.Errorf("the intent names the approval %q, want %q", d.Approval, asked.Question.Digest)
	}
	a.asked(ledgerLine())
	w.wantLedger(1)
}

// A yes is for exactly the call that was shown: its text, its sandbox and its tool.
func TestAgentYesBindsTheCall(t *testing.T) {
	confined := ledgerLine()
	run := *confined.Run
	run.Timeout = 1
	confined.Run = &run
	for name, other := range map[string]session.Step{"another_text": command("call", "ledger other"), "another_timeout": confined} {
		t.Run(name, func(t *testing.T) {
			w := newAgentWorld(t)
			w.decideElsewhere(session.RequestApprove, w.connect().asked(ledgerLine()))
			a := w.connect()
			if _, err := a.try(other, asks); !errors.Is(err, session.ErrApproval) {
				t.Errorf("another call: got %v, want a refusal", err)
			}
			w.wantLedger(0)
			if _, err := a.try(ledgerLine(), asks); err != nil { // the yes is still there
				t.Error(err)
			}
			w.wantLedger(1)
		})
	}
}

// The yes of an epoch that has ended is not used.
func TestAgentYesEndsWithItsEpoch(t *testing.T) {
	w := newAgentWorld(t)
	asked := w.connect().asked(ledgerLine())
	w.decideElsewhere(session.RequestApprove, asked)
	w.connect().do(write("call", "a", "x"), session.StepDone) // uses up the epoch, not the yes
	again := w.connect().asked(ledgerLine())
	if again.Question.Op == asked.Question.Op || len(w.ledger) > 0 {
		t.Errorf("asked again as %s; ledger %q", again.Question.Op, w.ledger)
	}
	w.decideElsewhere(session.RequestApprove, again)
	if _, err := w.connect().try(ledgerLine(), asks); err != nil || len(w.ledger) != 1 {
		t.Errorf("after a new yes: %v; ledger %q", err, w.ledger)
	}
}

// A no of a person or a rule is told with its reason, and nothing runs. A person can
// change their mind.
func TestAgentIsDenied(t *testing.T) {
	w := newAgentWorld(t)
	a := w.connect()
	if _, err := a.try(ledgerLine(), session.Permission{Deny: true, Reason: "no commands"}); !errors.Is(err, session.ErrDenied) || !strings.Contains(err.Error(), "no commands") || len(w.sess.Ops) > 0 {
		t.Errorf("denied by a rule: got %v", err)
	}
	asked := a.asked(ledgerLine())
	w.decideElsewhere(session.RequestDeny, asked)
	a = w.connect()
	for range 2 {
		if _, err := a.try(ledgerLine(), asks); !errors.Is(err, session.ErrDenied) || !strings.Contains(err.Error(), "because") {
			t.Errorf("denied by a person: got %v", err)
		}
	}
	w.wantLedger(0)
	w.decideElsewhere(session.RequestApprove, asked)
	if _, err := w.connect().try(ledgerLine(), asks); err != nil {
		t.Error(err)
	}
	w.wantLedger(1)
}

// A yes that no call has used is not lost to another question.
func TestAgentYesIsKept(t *testing.T) {
	w := newAgentWorld(t)
	w.decideElsewhere(session.RequestApprove, w.connect().asked(ledgerLine()))
	a := w.connect()
	if asked, err := a.try(command("call", "ledger other"), asks); asked != nil || !errors.Is(err, session.ErrApproval) || !strings.Contains(err.Error(), "another call (n1)") {
		t.Errorf("another call: got %v", err)
	}
	if _, err := a.try(ledgerLine(), asks); err != nil {
		t.Error(err)
	}
	a.asked(command("call", "ledger other"))
	w.wantLedger(1)
}

// An answer at this process, for example through a client, is used in the same epoch. It
// asks again if another question came between.
func TestAgentIsAnsweredHere(t *testing.T) {
	w := newAgentWorld(t)
	a := w.connect()
	first := a.asked(ledgerLine())
	a.asked(command("call", "ledger other"))
	epoch := w.sess.Epoch
	if err := a.Answer(context.Background(), first.Question, engine.Answer{Granted: true, By: "ann"}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.try(ledgerLine(), asks); err != nil || w.sess.Epoch != epoch {
		t.Errorf("got %v in epoch %d, want the epoch %d", err, w.sess.Epoch, epoch)
	}
	w.wantLedger(1)
	next := a.asked(ledgerLine())
	if err := a.Answer(context.Background(), next.Question, engine.Answer{By: "ann", Reason: "enough"}); err != nil {
		t.Fatal(err)
	}
	if err := a.Answer(context.Background(), next.Question, engine.Answer{Granted: true, By: "bob"}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.try(ledgerLine(), asks); !errors.Is(err, session.ErrDenied) || !strings.Contains(err.Error(), "enough") {
		t.Errorf("after a no and a late yes: got %v", err)
	}
	w.wantLedger(1)
}

// Answers that other processes left are heard before a call is judged.
func TestAgentHearsAnswers(t *testing.T) {
	w := newAgentWorld(t)
	a := w.connect()
	q := a.asked(ledgerLine()).Question
	w.requests = append(w.requests, session.Request{ID: 1, Kind: session.RequestApprove, Step: q.StepID, Digest: q.Digest, Asked: w.sess.Steps[q.Of()].LastSeq, By: "ann"})
	if _, err := a.try(ledgerLine(), asks); err != nil || len(w.requests) > 0 {
		t.Errorf("got %v, and %d requests are left", err, len(w.requests))
	}
	w.wantLedger(1)
}

// A yes to more than one call adds the rule, and needs no second use.
func TestAgentYesForTheSession(t *testing.T) {
	w := newAgentWorld(t)
	a := w.connect()
	q := a.asked(ledgerLine()).Question
	if err := a.Answer(context.Background(), q, engine.Answer{Granted: true, By: "ann", Scope: session.ScopeSession}); err != nil {
		t.Fatal(err)
	}
	if w.sess.Rules != "a rule\n" || w.sess.Steps[q.Of()].Approval != nil {
		t.Errorf("rules %q, approval %+v", w.sess.Rules, w.sess.Steps[q.Of()].Approval)
	}
	if _, err := a.try(ledgerLine(), session.Permission{}); err != nil {
		t.Error(err)
	}
	a.asked(command("call", "ledger other"))
}

// A yes to a change of a file is for the difference that was shown. With another content
// the same call is another question, which replaces the yes.
func TestAgentYesBindsFiles(t *testing.T) {
	w := newAgentWorld(t)
	w.files["a"] = "old"
	step := write("call", "a", "new")
	w.decideElsewhere(session.RequestApprove, w.connect().asked(step))
	w.files["a"] = "changed meanwhile"
	asked := w.connect().asked(step)
	if w.files["a"] != "changed meanwhile" || !strings.Contains(strings.Join(asked.Question.Detail, "\n"), "changed meanwhile → new") {
		t.Errorf("a is %q; asked about %q", w.files["a"], asked.Question.Detail)
	}
	w.decideElsewhere(session.RequestApprove, asked)
	if _, err := w.connect().try(step, asks); err != nil || w.files["a"] != "new" {
		t.Errorf("after a new yes: %v, a is %q", err, w.files["a"])
	}
}

// A file that changes after acode has compared it with the yes is not overwritten.
func TestAgentYesBindsFilesUntilTheEffect(t *testing.T) {
	w := newAgentWorld(t)
	w.files["a"] = "old"
	step := write("call", "a", "new")
	w.decideElsewhere(session.RequestApprove, w.connect().asked(step))
	a := w.connect()
	admitted, err := a.Admit(context.Background(), a.item(step))
	if err == nil {
		err = admitted.Permit(context.Background(), asks)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.files["a"] = "changed after the look"
	if err := admitted.Do(context.Background()); !errors.Is(err, session.ErrFileChanged) || w.files["a"] != "changed after the look" {
		t.Errorf("a change after the look: got %v, a is %q", err, w.files["a"])
	}
	w.files["a"] = "old"
	if _, err := a.try(step, asks); err != nil || w.files["a"] != "new" {
		t.Errorf("the call that was approved: got %v, a is %q", err, w.files["a"])
	}
}

// Two equal calls cannot use one yes.
func TestAgentYesIsUsedByOneCall(t *testing.T) {
	w := newAgentWorld(t)
	w.decideElsewhere(session.RequestApprove, w.connect().asked(ledgerLine()))
	a := w.connect()
	var both []*engine.Admitted
	for range 2 {
		admitted, err := a.Admit(context.Background(), a.item(ledgerLine()))
		if err == nil {
			err = admitted.Permit(context.Background(), asks)
		}
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, admitted)
	}
	if err := both[0].Do(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := both[1].Do(context.Background()); !errors.Is(err, session.ErrApproval) || !strings.Contains(err.Error(), "used by an equal call") {
		t.Errorf("the second call: got %v", err)
	}
	w.wantLedger(1)
}
