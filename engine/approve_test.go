package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
)

func gated(t tester) *world {
	return newWorld(t, plan(task("t", command("a", "ledger a"), gate("g"), command("b", "ledger b"))))
}

func (w *world) ledgered(want ...string) {
	w.t.Helper()
	if d := cmp.Diff(want, w.ledger); d != "" {
		w.t.Errorf("ledger (-want +got):\n%s", d)
	}
}

// digest returns the digest of the gate in gated.
func (w *world) digest() string {
	next, err := resume.Plan(w.plan, w.sess, nil, resume.Choices{})
	if err != nil {
		w.t.Fatalf("Plan: %v", err)
	}
	question := ""
	for _, it := range next.Items {
		if it.ID == id("t", "g") {
			question = w.plan.Tasks[it.Task-1].Steps[it.Step-1].Approve
		}
	}
	return engine.ApprovalDigest(w.plan, next, id("t", "g"), question, w.sess.Inputs)
}

// asked returns the seq of the open question.
func (w *world) asked() uint64 { return w.sess.Steps[id("t", "g")].LastSeq }

// NFR-012: if no person can be asked, a gate stops the session and waits. A resume alone
// never passes it.
func TestApproveNobodyThere(t *testing.T) {
	w := gated(t)
	for range 3 {
		res := w.process().must()
		wantResult(t, res, session.AwaitingApproval, session.ReasonApproval, session.ErrApproval)
		if res.Next.String() != "[approve_resume abc123]" {
			t.Errorf("next: got %q", res.Next)
		}
	}
	w.ledgered("a")
}

// FR-013: an approval given while no process executes is used by the next resume without
// asking, and by no other.
func TestApprovedWhileNobodyExecutes(t *testing.T) {
	for _, c := range []struct {
		name   string
		digest string
		ahead  uint64
		passes bool
	}{
		{"next_epoch", "", 1, true},
		{"epoch_gone_by", "", 0, false},
		{"later_epoch", "", 2, false},
		{"another_question", "0000", 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := gated(t)
			w.process().must()
			digest := w.digest()
			if c.digest != "" {
				// The journal takes the answer, but the plan with that digest is another
				// one.
				w.add(session.Draft{Type: session.ApprovalRequested, Data: session.ApprovalRequestedData{StepID: id("t", "g"), Question: "?", Digest: c.digest}})
				digest = c.digest
			}
			w.add(session.Draft{Type: session.ApprovalGranted, Data: session.ApprovalGrantedData{StepID: id("t", "g"), Digest: digest, By: "anna", For: w.sess.Epoch + c.ahead}})
			res := w.process().must()
			if c.passes {
				wantResult(t, res, session.Completed, "", "")
				w.ledgered("a", "b")
				return
			}
			wantResult(t, res, session.AwaitingApproval, session.ReasonApproval, session.ErrApproval)
			w.ledgered("a")
		})
	}
}

// NFR-012: an approval that a resume did not use is gone.
func TestApprovalIsSingleUse(t *testing.T) {
	w := gated(t)
	w.process().must()
	w.add(session.Draft{Type: session.ApprovalGranted, Data: session.ApprovalGrantedData{StepID: id("t", "g"), Digest: w.digest(), By: "anna", For: w.sess.Epoch + 1}})
	w.add(session.Draft{Type: session.ExecutionAcquired, Data: session.ExecutionAcquiredData{Workspace: "/ws"}}) // then it crashed
	wantResult(t, w.process().must(), session.AwaitingApproval, session.ReasonApproval, session.ErrApproval)
	w.ledgered("a")
}

// Then it can be given again to the process that executes.
func TestApprovedAgain(t *testing.T) {
	w := gated(t)
	w.process().must()
	before := session.Request{Kind: session.RequestApprove, Step: id("t", "g"), Digest: w.digest(), Asked: w.asked(), By: "eve"} // put back into the store
	w.add(session.Draft{Type: session.ApprovalGranted, Data: session.ApprovalGrantedData{StepID: id("t", "g"), Digest: w.digest(), By: "anna", For: w.sess.Epoch + 1}})
	w.add(session.Draft{Type: session.ExecutionAcquired, Data: session.ExecutionAcquiredData{Workspace: "/ws"}}) // then it crashed
	again := session.Request{Kind: session.RequestApprove, Step: id("t", "g"), Digest: w.digest(), Asked: w.asked(), By: "bob"}
	w.ask(before, again, again)
	wantResult(t, w.process().must(), session.Completed, "", "")
	w.ledgered("a", "b")
	if q := payload[session.ApprovalRequestedData](w, session.ApprovalRequested); q.Question != "Go on?" || w.count("commit asked t/g + granted") != 1 {
		t.Errorf("asked %q, granted %d times", q.Question, w.count("commit asked t/g + granted"))
	}
}

// A denial is recorded with its reason and pauses the session. The next resume asks
// again.
func TestDenied(t *testing.T) {
	for reason, want := range map[string]string{"not today": "t/g was denied: not today", "": "t/g was denied"} {
		w := gated(t)
		p := w.process()
		p.person.approve = answer(engine.Answer{By: "bob", Reason: reason})
		res := p.must()
		wantResult(t, res, session.Paused, session.ReasonApproval, session.ErrDenied)
		if d := payload[session.ApprovalDeniedData](w, session.ApprovalDenied); d.By != "bob" || d.Reason != reason || res.Message != want {
			t.Errorf("denied: got %+v, message %q", d, res.Message)
		}
		p = w.process()
		p.person = yes()
		wantResult(t, p.must(), session.Completed, "", "")
		w.ledgered("a", "b")
	}
}

// blocks is a person who does not answer before ctx ends.
func blocks(ctx context.Context, _ string) (engine.Answer, error) {
	<-ctx.Done()
	return engine.Answer{}, context.Cause(ctx)
}

// An answer from another process ends the question here.
func TestAnsweredFromElsewhere(t *testing.T) {
	for _, c := range []struct {
		name   string
		kind   session.RequestKind
		state  session.State
		reason session.Reason
		code   session.Code
		ledger []string
	}{
		{"approve", session.RequestApprove, session.Completed, "", "", []string{"a", "b"}},
		{"deny", session.RequestDeny, session.Paused, session.ReasonApproval, session.ErrDenied, []string{"a"}},
		{"cancel", session.RequestCancel, session.Cancelled, session.ReasonUser, session.ErrCancelled, []string{"a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := gated(t)
				p := w.process()
				p.person.approve = blocks
				time.AfterFunc(time.Minute, func() {
					w.ask(session.Request{Kind: session.RequestApprove, Step: id("t", "g"), Digest: "of another question"})
					w.ask(session.Request{Kind: session.RequestApprove, Step: id("t", "nowhere"), Digest: "x"})
				})
				time.AfterFunc(2*time.Minute, func() {
					said := session.Request{Kind: c.kind, Step: id("t", "g"), Digest: payload[session.ApprovalRequestedData](w, session.ApprovalRequested).Digest, Asked: w.asked(), By: "carl", Reason: "why"}
					w.ask(said, said) // a repeated answer changes nothing
				})
				res := p.must()
				wantResult(t, res, c.state, c.reason, c.code)
				w.ledgered(c.ledger...)
				if len(w.requests) != 0 && c.kind != session.RequestCancel {
					t.Errorf("requests: %v are left", w.requests)
				}
				if n := w.count("commit granted") + w.count("commit denied"); c.kind != session.RequestCancel && n != 1 {
					t.Errorf("the answer is recorded %d times", n)
				}
			})
		})
	}
}

// An answer from another process just before the one typed here changes nothing.
func TestAnsweredHereAndElsewhere(t *testing.T) {
	for _, kind := range []session.RequestKind{session.RequestApprove, session.RequestDeny} {
		t.Run(string(kind), func(t *testing.T) {
			w := gated(t)
			p := w.process()
			p.person.approve = func(context.Context, string) (engine.Answer, error) {
				w.ask(session.Request{Kind: kind, Step: id("t", "g"), Digest: w.digest(), Asked: w.asked(), By: "carl"})
				return engine.Answer{Granted: true, By: "anna"}, nil
			}
			wantResult(t, p.must(), session.Completed, "", "")
			w.ledgered("a", "b")
			if d := payload[session.ApprovalGrantedData](w, session.ApprovalGranted); d.By != "anna" || w.count("commit denied") != 0 {
				t.Errorf("granted by %q, denied %d times", d.By, w.count("commit denied"))
			}
			if len(w.requests) != 0 {
				t.Errorf("requests: %v are left", w.requests)
			}
		})
	}
}

// An approval for a process that died counts for the next one.
func TestApprovalLeftForADeadHolder(t *testing.T) {
	w := gated(t)
	w.process().must()
	w.ask(session.Request{Kind: session.RequestApprove, Step: id("t", "g"), Digest: w.digest(), Asked: w.asked(), By: "anna"})
	wantResult(t, w.process().must(), session.Completed, "", "")
	w.ledgered("a", "b")
}

// A denial counts for the next process too, and so does one that comes while an earlier
// step runs. No person is asked again. Like an approval it is used once.
func TestDenialBeforeTheGate(t *testing.T) {
	for name, left := range map[string]bool{"left_for_a_dead_holder": true, "while_a_step_runs": false} {
		t.Run(name, func(t *testing.T) {
			p := plan(task("first", command("a", "exit 1")), task("t", gate("g"), command("b", "ledger b")))
			p.OnFailure = session.FailureContinues
			w := newWorld(t, p)
			w.process().must()
			no := session.Request{Kind: session.RequestDeny, Step: id("t", "g"), Digest: w.digest(), By: "carl", Reason: "why"}
			if left {
				w.ask(no)
			} else {
				w.during = func(w *world, _ string) { w.ask(no) }
			}
			asked := w.process()
			asked.person = yes()
			res := asked.must()
			wantResult(t, res, session.Paused, session.ReasonApproval, session.ErrDenied)
			if res.Message != "t/g was denied: why" {
				t.Errorf("message: got %q", res.Message)
			}
			w.ledgered()
			if n := w.count("commit denied"); n != 1 {
				t.Errorf("the no is recorded %d times", n)
			}
			w.during = nil
			again := w.process()
			again.person = yes()
			wantResult(t, again.must(), session.Paused, session.ReasonTaskFailed, session.ErrCommand)
			w.ledgered("b")
		})
	}
}

// NFR-012: an approval is only for the question that was open at that time. If a writer
// without the key puts it back when the same question is asked again, it is dropped.
func TestApprovalOfAnEarlierQuestion(t *testing.T) {
	w := gated(t)
	w.process().must()
	old := session.Request{Kind: session.RequestApprove, Step: id("t", "g"), Digest: w.digest(), Asked: w.asked(), By: "anna"}
	w.ask(session.Request{Kind: session.RequestDeny, Step: id("t", "g"), Digest: w.digest(), By: "anna"})
	wantResult(t, w.process().must(), session.Paused, session.ReasonApproval, session.ErrDenied)
	wantResult(t, w.process().must(), session.AwaitingApproval, session.ReasonApproval, session.ErrApproval) // it asks again
	if w.asked() == old.Asked {
		t.Fatal("the question was not asked anew")
	}
	w.ask(old)
	wantResult(t, w.process().must(), session.AwaitingApproval, session.ReasonApproval, session.ErrApproval)
	w.ledgered("a")
	if len(w.requests) != 0 || w.count("commit granted") != 0 {
		t.Errorf("requests: %v are left, %d granted", w.requests, w.count("commit granted"))
	}
}

// A session is cancelled before anything started.
func TestCancelAtABoundary(t *testing.T) {
	w := gated(t)
	w.ask(session.Request{Kind: session.RequestCancel})
	wantResult(t, w.process().must(), session.Cancelled, session.ReasonUser, session.ErrCancelled)
	w.ledgered()
	w.inOrder("commit acquired + planning + executing", "commit cancelled user")
}

// The store fails while an answer or a question is recorded.
func TestApproveStoreErrors(t *testing.T) {
	w := gated(t)
	w.ask(session.Request{Kind: session.RequestCancel})
	w.fails["answer"] = errStore
	if _, _, err := w.process().run(); !errors.Is(err, errStore) {
		t.Errorf("cancel: got %v", err)
	}
	w = gated(t)
	w.ask(session.Request{Kind: session.RequestCancel})
	w.fails["append"] = errStore
	if _, _, err := w.process().run(); !errors.Is(err, errStore) || w.sess.LastSeq != 1 {
		t.Errorf("cancel: got %v at seq %d", err, w.sess.LastSeq)
	}
	w = gated(t)
	w.during = func(*world, string) { w.fails["append"] = errStore }
	p := w.process()
	p.person.approve = func(context.Context, string) (engine.Answer, error) {
		t.Error("asked although the question is not durable")
		return engine.Answer{}, nil
	}
	if _, _, err := p.run(); !errors.Is(err, errStore) {
		t.Errorf("ask: got %v", err)
	}
	w.lawful()
	w = gated(t)
	p = w.process()
	p.person.approve = func(context.Context, string) (engine.Answer, error) { return engine.Answer{}, errStore }
	if _, _, err := p.run(); !errors.Is(err, errStore) {
		t.Errorf("question: got %v", err)
	}
}

// The digest binds an approval to its question and to each step after it, in order.
func TestApprovalDigest(t *testing.T) {
	base := gated(t).digest()
	same := gated(t)
	same.plan.Tasks[0].Steps[0].Run.Shell = "ledger before the gate"
	if same.digest() != base {
		t.Errorf("ApprovalDigest: a step before the gate changes it")
	}
	for name, change := range map[string]func(*session.Task){
		"question": func(t *session.Task) { t.Steps[1].Approve = "Delete everything?" },
		"follower": func(t *session.Task) { t.Steps[2].Run.Shell = "rm" },
		"one_more": func(t *session.Task) { t.Steps = append(t.Steps, command("c", "ledger c")) },
		"renamed":  func(t *session.Task) { t.Steps[2].ID = "z" },
	} {
		w := gated(t)
		change(&w.plan.Tasks[0])
		if w.digest() == base {
			t.Errorf("ApprovalDigest: %s does not change it", name)
		}
	}
	others := gated(t)
	others.sess.Inputs = "other"
	if others.digest() == base {
		t.Errorf("ApprovalDigest: other inputs do not change it")
	}
	if len(base) != 64 || strings.ToLower(base) != base {
		t.Errorf("ApprovalDigest: got %q", base)
	}
}
