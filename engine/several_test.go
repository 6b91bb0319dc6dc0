package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/session"
)

// three returns a plan of three tasks with these steps under different names.
func three(steps ...session.Step) *session.Plan {
	p := plan()
	for i := range 3 {
		tk := task(fmt.Sprintf("t%d", i))
		for _, s := range steps {
			if s.Changes != nil {
				s.Changes = slices.Clone(s.Changes)
				s.Changes[0].Path += fmt.Sprint(i)
			}
			tk.Steps = append(tk.Steps, s)
		}
		p.Tasks = append(p.Tasks, tk)
	}
	return p
}

// mustBeside is must for a process with several branches.
func (p *process) mustBeside() session.Result {
	p.w.t.Helper()
	res, _, err := p.run()
	if err != nil {
		p.w.t.Fatalf("Execute: %v\n%s", err, strings.Join(p.w.trace, "\n"))
	}
	p.w.lawfulBeside()
	return res
}

// Drafts that branches hand over during a commit are one commit (E2).
func TestDraftsOfBranchesAreOneCommit(t *testing.T) {
	w := newWorld(t, three(command("c", "hang")))
	p := w.beside(3, 0)
	p.shared.commit = 50 * time.Millisecond // real time, because a branch that waits for its turn waits in a mutex
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := w.allRun("t0/c", "t1/c", "t2/c"); err != nil {
			t.Error(err)
		}
		for _, task := range []string{"t0", "t1", "t2"} {
			supervisor{w}.finish(w.find(task + "/c/main"))
		}
	}()
	wantResult(t, p.mustBeside(), session.Completed, "", "")
	<-ended
	if n := w.count("commit"); n > 5 || !slices.ContainsFunc(w.trace, func(l string) bool { return strings.Count(l, "completed t") == 2 }) {
		t.Errorf("%d commits of three steps at once, or no two receipts in one\n%s", n, strings.Join(w.trace, "\n"))
	}
}

// At most max_parallel steps run at once, and they begin in the order of the plan.
func TestMaxParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, three(command("c", "hang")))
		go func() {
			if err := w.allRun("t0/c", "t1/c"); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if w.find("t2/c") != "" {
				t.Errorf("a third step began beside two")
			}
			supervisor{w}.finish(w.find("t1/c/main"))
			if err := w.allRun("t2/c"); err != nil {
				t.Error(err)
			}
			supervisor{w}.finish(w.find("t0/c/main"))
			supervisor{w}.finish(w.find("t2/c/main"))
		}()
		wantResult(t, w.beside(2, 0).mustBeside(), session.Completed, "", "")
	})
}

// An exclusive command runs alone. It waits for running steps, and later steps wait for
// it.
func TestExclusiveRunsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alone := func(r *session.Run) { r.Exclusive = true }
		w := newWorld(t, plan(task("a", command("c", "hang")), task("b", command("first", "hang"), command("c", "hang", alone)), task("c", command("first", "hang"), command("c", "hang"))))
		ends := func(step string, waiting ...string) {
			if err := w.allRun(step); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second) // ended steps were noticed, and new ones have begun
			for _, later := range waiting {
				if w.find(later) != "" {
					t.Errorf("%s began beside the exclusive command, or that beside another", later)
				}
			}
			supervisor{w}.finish(w.find(step + "/main"))
		}
		go func() {
			if err := w.allRun("a/c", "b/first", "c/first"); err != nil {
				t.Error(err)
			}
			ends("b/first")
			ends("c/first", "b/c")
			ends("a/c", "b/c", "c/c")
			ends("b/c", "c/c")
			ends("c/c")
		}()
		wantResult(t, w.beside(3, 0).mustBeside(), session.Completed, "", "")
	})
}

// No two steps have an intent on one path at the same time. The later one waits, but its
// branch's own receipt does not.
func TestIntentsOnOnePathWait(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, plan(task("a", write("1", "x", "a1"), write("2", "y", "a2")), task("b", write("1", "y", "b1"), write("2", "x", "b2")), task("c", write("1", "x", "c1"), write("2", "y", "c2"))))
			wantResult(t, w.beside(3, seed+1).mustBeside(), session.Completed, "", "")
		})
	}
}

// E7: a gate that no person can answer stops its own task. The others continue, and each
// open gate can be answered.
func TestGatesStopTheirOwnTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, plan(task("a", gate("g"), command("c", "ledger a")), task("b", gate("g"), command("c", "ledger b")), task("c", command("c", "ledger c"), command("d", "ledger d"))))
		res := w.beside(3, 7).mustBeside()
		wantResult(t, res, session.AwaitingApproval, session.ReasonApproval, session.ErrApproval)
		if !slices.Equal(w.ledger, []string{"c", "d"}) || !strings.Contains(res.Message, "a/g") || !strings.Contains(res.Message, "b/g") {
			t.Errorf("got ledger %v, message %q", w.ledger, res.Message)
		}
		p := w.beside(3, 7)
		p.person = yes()
		wantResult(t, p.mustBeside(), session.Completed, "", "")
	})
}

// The person is asked one question at a time. The session waits for approval until the
// last one is answered.
func TestOneQuestionAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, three(gate("g")))
		p := w.beside(3, 3)
		open, most := 0, 0
		p.person.approve = func(context.Context, string) (engine.Answer, error) {
			open++
			most = max(most, open)
			time.Sleep(time.Second)
			open--
			p.shared.mu.Lock()
			defer p.shared.mu.Unlock()
			if w.sess.State != session.AwaitingApproval {
				t.Errorf("a question is open, and the session is %s", w.sess.State)
			}
			return engine.Answer{Granted: true, By: "anna"}, nil
		}
		wantResult(t, p.mustBeside(), session.Completed, "", "")
		if most != 1 {
			t.Errorf("%d questions were open at once", most)
		}
	})
}

// on_failure: pause and fail let running steps reach their boundary; continue lets the
// other tasks continue.
func TestFailureBesideOthers(t *testing.T) {
	for policy, want := range map[session.OnFailure]struct {
		state  session.State
		reason session.Reason
		ledger []string
	}{
		session.FailurePauses:    {session.Paused, session.ReasonTaskFailed, nil},
		session.FailureFails:     {session.Failed, session.ReasonTaskFailed, nil},
		session.FailureContinues: {session.Paused, session.ReasonTaskFailed, []string{"after"}},
	} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := plan(task("a", command("c", "hang")), task("b", command("c", "hang"), command("d", "ledger after")))
				p.OnFailure = policy
				w := newWorld(t, p)
				go func() {
					if err := w.allRun("a/c", "b/c"); err != nil {
						t.Error(err)
					}
					w.amend(w.find("a/c/main"), func(rec *session.CommandRecord) { rec.Exit = 3 })
					supervisor{w}.finish(w.find("a/c/main"))
					time.Sleep(time.Second)
					supervisor{w}.finish(w.find("b/c/main"))
				}()
				wantResult(t, w.beside(2, 0).mustBeside(), want.state, want.reason, session.ErrCommand)
				if !slices.Equal(w.ledger, want.ledger) || w.sess.Steps[id("b", "c")].Status != session.StepDone {
					t.Errorf("got ledger %v, b/c %s", w.ledger, w.sess.Steps[id("b", "c")].Status)
				}
			})
		})
	}
}

// A signal pauses the session once, even if several commands run. The next resume
// attaches to every command before it begins anything.
func TestSignalPausesOnceAndAllAreAttached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, three(command("c", "hang"), command("d", "ledger d")))
		p := w.beside(3, 0)
		var cancel context.CancelCauseFunc
		p.ctx, cancel = context.WithCancelCause(context.Background())
		go func() {
			if err := w.allRun("t0/c", "t1/c", "t2/c"); err != nil {
				t.Error(err)
			}
			cancel(engine.Interrupted{Signal: 2})
		}()
		res := p.mustBeside()
		wantResult(t, res, session.Paused, session.ReasonSignal, "")
		if n := w.count("commit paused"); n != 1 || strings.Count(res.Message, "runs on") != 3 {
			t.Errorf("paused %d times, message %q", n, res.Message)
		}
		w.replay()
		from := len(w.trace)
		p = w.beside(1, 0) // it waits for every running command, however many steps may run at once
		go func() {
			time.Sleep(time.Second)
			for _, task := range []string{"t2", "t0", "t1"} {
				if strings.Contains(strings.Join(w.traced()[from:], "\n"), "\neffect") && task == "t2" {
					t.Errorf("something began before all commands were waited for")
				}
				supervisor{w}.finish(w.find(task + "/c/main"))
				synctest.Wait()
			}
		}()
		wantResult(t, p.mustBeside(), session.Completed, "", "")
		if n := strings.Count(strings.Join(w.trace[from:], "\n"), "notice handling"); n != 3 {
			t.Errorf("%d steps were said to be attached to, want 3", n)
		}
		if len(w.ledger) != 3 {
			t.Errorf("ledger: %v", w.ledger)
		}
	})
}

// Nothing begins while a command still runs that no branch waits for yet.
func TestNothingBeginsBeforeAllAreAttached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, plan(task("a", command("c", "hang")), task("b", command("c", "ledger b"))))
		p := w.beside(1, 0)
		var cancel context.CancelCauseFunc
		p.ctx, cancel = context.WithCancelCause(context.Background())
		go func() {
			if err := w.allRun("a/c"); err != nil {
				t.Error(err)
			}
			cancel(engine.Interrupted{Signal: 2})
		}()
		wantResult(t, p.mustBeside(), session.Paused, session.ReasonSignal, "")
		w.replay()
		p = w.beside(2, 0)
		p.shared.fence = time.Second
		time.AfterFunc(time.Minute/2, func() { supervisor{w}.finish(w.find("a/c/main")) })
		wantResult(t, p.mustBeside(), session.Completed, "", "")
		attached := slices.Index(w.trace, "notice handling a/c attach")
		begun := slices.IndexFunc(w.trace, func(l string) bool { return strings.Contains(l, "started b/c/main:1") })
		if attached < 0 || begun < attached {
			t.Errorf("a/c is attached to in line %d, b/c begins in line %d\n%s", attached, begun, strings.Join(w.trace, "\n"))
		}
	})
}

// A request to cancel ends every running command, and no step stays in progress.
func TestCancelEndsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, three(command("c", "hang")))
		go func() {
			if err := w.allRun("t0/c", "t1/c", "t2/c"); err != nil {
				t.Error(err)
			}
			w.ask(session.Request{Kind: session.RequestCancel, Reason: "enough"})
		}()
		res := w.beside(3, 0).mustBeside()
		wantResult(t, res, session.Cancelled, session.ReasonUser, session.ErrCancelled)
		if n := w.count("terminate"); n != 3 {
			t.Errorf("%d commands were ended, want 3", n)
		}
	})
}

// E5: each of several unknown outcomes stops its own task. One answer can be for all, or
// each has its own.
func TestSeveralUnknown(t *testing.T) {
	for _, each := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, three(command("c", "unknown"), command("d", "ledger d")))
			res := w.beside(3, 5).mustBeside()
			wantResult(t, res, session.Paused, session.ReasonUncertain, session.ErrUncertain)
			for _, task := range []string{"t0/c", "t1/c", "t2/c"} {
				if !strings.Contains(res.Message, task) {
					t.Errorf("message %q does not name %s", res.Message, task)
				}
			}
			p := w.beside(3, 5)
			if p.policy.Uncertain = session.InterruptDone; each {
				p.policy = engine.Policy{Outcomes: map[session.StepID]session.OnInterrupt{id("t1", "c"): session.InterruptDone}}
				wantResult(t, p.mustBeside(), session.Paused, session.ReasonUncertain, session.ErrUncertain)
				if len(w.ledger) != 1 {
					t.Errorf("ledger: %v, want what follows the one that was answered", w.ledger)
				}
				return
			}
			wantResult(t, p.mustBeside(), session.Completed, "", "")
		})
	}
}

// If the journal refuses the drafts of one branch, the drafts of the others in the same
// commit are still committed.
func TestRefusedDraftsOfOneBranch(t *testing.T) {
	w := newWorld(t, three(command("c", "hang")))
	p := w.beside(3, 0)
	p.shared.commit, p.shared.refuse = 50*time.Millisecond, "t1/c"
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := w.allRun("t0/c", "t1/c", "t2/c"); err != nil {
			t.Error(err)
		}
		supervisor{w}.finish(w.find("t0/c/main"))
		time.Sleep(10 * time.Millisecond)
		supervisor{w}.finish(w.find("t1/c/main"))
		supervisor{w}.finish(w.find("t2/c/main"))
	}()
	if _, _, err := p.run(); session.CodeOf(err) != session.ErrConflict {
		t.Errorf("Execute: got %v, want the refusal", err)
	}
	<-ended
	for _, task := range []string{"t0", "t2"} {
		if st := w.sess.Steps[id(task, "c")]; st.Status != session.StepDone {
			t.Errorf("%s: got %s, want its receipt\n%s", task, st.Status, strings.Join(w.trace, "\n"))
		}
	}
	if w.sess.Steps[id("t1", "c")].Status != session.InProgress || p.shared.tried != 2 {
		t.Errorf("t1: got %s, and its receipt was tried %d times, want one together and one alone", w.sess.Steps[id("t1", "c")].Status, p.shared.tried)
	}
}

// The receipt of a command does not claim changes of another step during its run.
func TestCommandClaimsOnlyItsOwnChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, plan(task("a", write("1", "x", "old"), write("2", "y", "old")), after(task("b", command("c", "hang")), "a"), after(task("c", write("1", "x", "new")), "a")))
		p := w.beside(2, 0)
		go func() {
			if err := w.allRun("b/c"); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
			p.shared.mu.Lock()
			w.files["y"] = "of the command"
			p.shared.mu.Unlock()
			supervisor{w}.finish(w.find("b/c/main"))
		}()
		wantResult(t, p.mustBeside(), session.Completed, "", "")
		w.claims("b/c", "y")
	})
}

// The receipt of a command does not claim changes of another step whose receipt is not
// durable yet.
func TestCommandClaimsNoPendingChange(t *testing.T) {
	w := newWorld(t, plan(task("a", write("1", "x", "old"), write("2", "y", "old")), after(task("b", command("c", "hang")), "a"), after(task("c", write("1", "x", "new")), "a")))
	p := w.beside(2, 0)
	p.shared.commit = 200 * time.Millisecond // real time, because a branch that waits for its turn waits in a mutex
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := w.allRun("b/c"); err != nil {
			t.Error(err)
		}
		if err := w.shows("effect c/1/main:1"); err != nil {
			t.Error(err)
		}
		p.shared.mu.Lock()
		w.files["y"] = "of the command"
		p.shared.mu.Unlock()
		supervisor{w}.finish(w.find("b/c/main"))
	}()
	wantResult(t, p.mustBeside(), session.Completed, "", "")
	<-ended
	w.claims("b/c", "y")
}

// A task begins after the receipt of the task that it depends on is durable, in any
// branch (E2).
func TestDependantsBeginAfterTheReceipt(t *testing.T) {
	for range 200 {
		w := newWorld(t, plan(task("before", write("x", "a", "1")),
			after(task("one", write("x", "b", "1")), "before"), after(task("other", write("x", "c", "1")), "before")))
		p := w.beside(4, 0)
		wantResult(t, p.mustBeside(), session.Completed, "", "")
		done := slices.IndexFunc(w.trace, func(l string) bool { return strings.Contains(l, "commit") && strings.Contains(l, "completed before/x") })
		begun := slices.IndexFunc(w.trace, func(l string) bool {
			return strings.Contains(l, "commit") && (strings.Contains(l, "started one/x") || strings.Contains(l, "started other/x"))
		})
		if done < 0 || begun < done {
			t.Fatalf("the receipt is line %d, the intent of what depends on it line %d\n%s", done, begun, strings.Join(w.trace, "\n"))
		}
	}
}
