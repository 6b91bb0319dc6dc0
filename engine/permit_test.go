package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/session"
)

const runsTwice = `{"calls": [{"id": "1", "tool": "run_command", "arguments": {"command": "ledger first"}}, {"id": "2", "tool": "run_command", "arguments": {"command": "ledger second"}}]}`

// asksAbout asks about commands with this text, unless a rule with it was added.
func asksAbout(text string) func(session.Step, string) session.Permission {
	return func(work session.Step, rules string) session.Permission {
		p := session.Permission{Confine: session.Unconfined, Class: "command", Reason: "it does more than read", Offer: "allow " + text, Means: "run " + text}
		p.Ask = work.Run != nil && strings.Contains(work.Run.Shell, text) && !strings.Contains(rules, "allow "+text+"\n")
		return p
	}
}

// deciding returns a process whose person gives these answers in turn.
func (w *prompted) deciding(answers ...engine.Answer) *process {
	p := w.process()
	p.person.permit = func(_ context.Context, question, offer string) (engine.Answer, error) {
		w.note("person asked: %s (%s)", question, offer)
		if len(answers) == 0 {
			return engine.Answer{}, session.ErrApproval
		}
		a := answers[0]
		answers = answers[1:]
		a.By = "ann"
		return a, nil
	}
	return p
}

// A call that must be asked about is carried out after a yes, and the yes holds once.
func TestPermitOnce(t *testing.T) {
	w := newPrompted(t, session.Prompt{}, runsTwice, isDone)
	w.judge = asksAbout("ledger")
	wantResult(t, w.deciding(engine.Answer{Granted: true}, engine.Answer{Granted: true}).must(), session.Completed, "", "")
	if d := cmp.Diff([]string{"first", "second"}, w.ledger); d != "" || w.count("person asked") != 2 {
		t.Errorf("asked %d times; ledger (-want +got):\n%s", w.count("person asked"), d)
	}
	w.lawful()
}

// A no is an answer for the model, with the words of the person. Nothing runs.
func TestPermitDenied(t *testing.T) {
	w := newPrompted(t, session.Prompt{}, runsTwice, isDone)
	w.judge = asksAbout("first")
	wantResult(t, w.deciding(engine.Answer{Reason: "use the script"}).must(), session.Completed, "", "")
	if d := cmp.Diff([]string{"second"}, w.ledger); d != "" || !strings.Contains(w.told()[0], "DENIED by the user: use the script.") {
		t.Errorf("told %q; ledger (-want +got):\n%s", w.told(), d)
	}
	w.lawful()
}

// A rule can deny, too. No person is asked.
func TestPermitDeniedByRule(t *testing.T) {
	w := newPrompted(t, session.Prompt{}, runsTwice, isDone)
	w.judge = func(session.Step, string) session.Permission {
		return session.Permission{Deny: true, Reason: "commands are off"}
	}
	wantResult(t, w.deciding().must(), session.Completed, "", "")
	if len(w.ledger) > 0 || w.count("person asked") > 0 || !strings.Contains(w.told()[1], "DENIED by the rules of the user: commands are off.") {
		t.Errorf("ledger %q, told %q", w.ledger, w.told())
	}
}

// A yes for the session, or for always, adds the rule that was offered.
func TestPermitScopes(t *testing.T) {
	for _, scope := range []session.Scope{session.ScopeSession, session.ScopeAlways} {
		w := newPrompted(t, session.Prompt{}, runsTwice, isDone)
		w.judge = asksAbout("ledger")
		wantResult(t, w.deciding(engine.Answer{Granted: true, Scope: scope}).must(), session.Completed, "", "")
		if d := cmp.Diff([]string{"first", "second"}, w.ledger); d != "" || w.count("person asked") != 1 || w.sess.Rules != "allow ledger\n" {
			t.Errorf("%s: rules %q; ledger (-want +got):\n%s", scope, w.sess.Rules, d)
		}
		if kept := strings.Join(w.always, ","); (kept == "allow ledger") != (scope == session.ScopeAlways) {
			t.Errorf("%s: kept the rules %q", scope, kept)
		}
		w.lawful()
	}
}

// Where no person can be asked the session waits. An answer of another process continues
// it, and is used once.
func TestPermitElsewhere(t *testing.T) {
	for _, grant := range []bool{true, false} {
		w := newPrompted(t, session.Prompt{}, runsTwice, isDone)
		w.judge = asksAbout("first")
		wantResult(t, w.deciding().must(), session.AwaitingApproval, session.ReasonApproval, session.ErrApproval)
		if len(w.ledger) > 0 {
			t.Fatalf("ledger before the answer: %q", w.ledger)
		}
		asked := payload[session.ApprovalRequestedData](w.world, session.ApprovalRequested)
		if d := cmp.Diff([]string{"ledger first", "in the workspace, with all your rights"}, asked.Detail); d != "" || asked.Op != "c1.1" {
			t.Errorf("the question shows (-want +got):\n%s", d)
		}
		r := session.Request{Kind: session.RequestDeny, Step: asked.StepID, Digest: asked.Digest, By: "ann", Reason: "no"}
		if grant {
			r.Kind, r.Asked = session.RequestApprove, w.sess.Steps[asked.Of()].LastSeq
		}
		if drafts := w.sess.Answered(r, w.sess.Epoch+1, asked); len(drafts) == 0 {
			t.Fatal("the answer does not fit")
		} else {
			for _, d := range drafts {
				w.add(d)
			}
		}
		wantResult(t, w.deciding().must(), session.Completed, "", "")
		if got := len(w.ledger); got != map[bool]int{true: 2, false: 1}[grant] {
			t.Errorf("granted %t: ledger %q", grant, w.ledger)
		}
		w.lawful()
	}
}

// The no of a person to a call stands if the next process needs no yes for such calls.
func TestPermitDeniedStaysDenied(t *testing.T) {
	w := newPrompted(t, session.Prompt{}, runsTwice, isDone)
	w.judge = asksAbout("first")
	wantResult(t, w.deciding().must(), session.AwaitingApproval, session.ReasonApproval, session.ErrApproval)
	asked := payload[session.ApprovalRequestedData](w.world, session.ApprovalRequested)
	for _, d := range w.sess.Answered(session.Request{Kind: session.RequestDeny, Step: asked.StepID, Digest: asked.Digest, By: "ann", Reason: "no"}, w.sess.Epoch+1, asked) {
		w.add(d)
	}
	w.judge = func(session.Step, string) session.Permission { return session.Permission{Confine: session.Unconfined} }
	wantResult(t, w.deciding().must(), session.Completed, "", "")
	if d := cmp.Diff([]string{"second"}, w.ledger); d != "" || !strings.Contains(w.told()[0], "DENIED by the user: no.") {
		t.Errorf("told %q; ledger (-want +got):\n%s", w.told(), d)
	}
	w.lawful()
}

// A yes is for the work that was shown. If a file changes before the answer, the person
// is asked again.
func TestPermitBindsFiles(t *testing.T) {
	w := newPrompted(t, session.Prompt{}, `{"calls": [{"id": "1", "tool": "write_file", "arguments": {"path": "a", "content": "new"}}]}`, isDone)
	w.files["a"] = "old"
	w.judge = func(session.Step, string) session.Permission { return session.Permission{Ask: true, Class: "write"} }
	p := w.process()
	times := 0
	p.person.permit = func(context.Context, string, string) (engine.Answer, error) {
		if times++; times == 1 {
			w.files["a"] = "changed meanwhile"
		}
		return engine.Answer{Granted: true, By: "ann"}, nil
	}
	wantResult(t, p.must(), session.Completed, "", "")
	if times != 2 || w.files["a"] != "new" {
		t.Errorf("asked %d times, a is %q", times, w.files["a"])
	}
	w.lawful()
}

// After too many denials the session pauses, and all is kept.
func TestTooManyDenials(t *testing.T) {
	w := newPrompted(t, session.Prompt{}, runsTwice, runsTwice, isDone)
	w.judge = asksAbout("ledger")
	p := w.deciding(make([]engine.Answer, 9)...)
	p.prompting.MaxDenied = 3
	res := p.must()
	wantResult(t, res, session.Paused, session.ReasonApproval, session.ErrDenied)
	if w.count("person asked") != 3 || !strings.Contains(res.Message, "3 calls of the model were denied; the last one is fix/code/c2.1") {
		t.Errorf("asked %d times: %s", w.count("person asked"), res.Message)
	}
	wantResult(t, w.deciding(make([]engine.Answer, 1)...).must(), session.Completed, "", "")
	w.lawful()
}

// A kill at any call neither loses an answer that was recorded nor uses it twice.
func TestPermitAfterEachKill(t *testing.T) {
	build := func() *prompted {
		w := newPrompted(t, session.Prompt{}, runsTwice, isDone)
		w.judge = asksAbout("ledger")
		return w
	}
	yes := []engine.Answer{{Granted: true}, {Granted: true}, {Granted: true}}
	calm := build()
	wantResult(t, calm.deciding(yes...).must(), session.Completed, "", "")
	for k := 1; k <= calm.calls; k++ {
		w := build()
		w.crashAt, w.happened = k, true
		for runs := 0; w.sess.State != session.Completed; runs++ {
			if _, crashed, err := w.deciding(yes...).run(); err != nil || runs > 2 || crashed != (runs == 0) {
				t.Fatalf("killed at call %d, run %d: crashed %t, %v", k, runs, crashed, err)
			}
			w.lawful()
		}
		if d := cmp.Diff(calm.ledger, w.ledger); d != "" {
			t.Errorf("killed at call %d: ledger (-undisturbed +killed):\n%s", k, d)
		}
		if n := w.count("person asked"); n < 2 || n > 3 {
			t.Errorf("killed at call %d: the person was asked %d times, want %s", k, n, fmt.Sprint(2, " or ", 3))
		}
	}
}

// Every few calls, and before calls of some classes, there is a further checkpoint. It is
// in one commit with the receipt or the intent, so that kills lose and repeat none.
func TestFurtherCheckpoints(t *testing.T) {
	reads := `{"calls": [{"id": "1", "tool": "read_file", "arguments": {"path": "a"}}, {"id": "2", "tool": "read_file", "arguments": {"path": "b"}}, {"id": "3", "tool": "run_command", "arguments": {"command": "ledger third"}}]}`
	build := func() *prompted {
		w := newPrompted(t, session.Prompt{}, reads, runsTwice, isDone)
		w.files["a"], w.files["b"] = "one", "two"
		w.judge = func(work session.Step, _ string) session.Permission {
			p := session.Permission{Confine: session.Unconfined, Class: "command"}
			if strings.Contains(work.Run.Shell, "second") {
				p.Class = "network"
			}
			return p
		}
		return w
	}
	start := func(w *prompted) *process {
		p := w.process()
		p.prompting.CheckpointEvery, p.prompting.CheckpointBefore = 2, []string{"network"}
		return p
	}
	reasons := func(w *prompted) (all []string) {
		for _, e := range w.events {
			var d session.CheckpointCreatedData
			if e.Type == session.CheckpointCreated && e.Decode(&d) == nil {
				all = append(all, d.Why)
			}
		}
		return all
	}
	want := []string{"2 calls", "4 calls", "before a call of the class network"}
	calm := build()
	wantResult(t, start(calm).must(), session.Completed, "", "")
	if d := cmp.Diff(want, reasons(calm)); d != "" {
		t.Fatalf("checkpoints (-want +got):\n%s", d)
	}
	for k := 1; k <= calm.calls; k++ {
		w := build()
		w.crashAt, w.happened = k, true
		for runs := 0; w.sess.State != session.Completed; runs++ {
			if _, _, err := start(w).run(); err != nil || runs > 2 {
				t.Fatalf("killed at call %d: %v", k, err)
			}
		}
		if d := cmp.Diff(want, reasons(w)); d != "" {
			t.Errorf("killed at call %d: checkpoints (-want +got):\n%s", k, d)
		}
	}
}
