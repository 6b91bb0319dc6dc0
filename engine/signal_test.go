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
	"github.com/acode-dev/acode/session"
)

// interruptible returns a process whose context a signal can end.
func (w *world) interruptible() (*process, func(signal int)) {
	p := w.process()
	ctx, cancel := context.WithCancelCause(context.Background())
	p.ctx, p.again = ctx, make(chan struct{})
	return p, func(signal int) { cancel(engine.Interrupted{Signal: signal}) }
}

// A signal at a boundary pauses before the next step.
func TestSignalBetweenSteps(t *testing.T) {
	w := newWorld(t, plan(task("t", command("a", "ledger a"), command("b", "ledger b"))))
	p, signal := w.interruptible()
	w.during = func(*world, string) { signal(15) }
	res := p.must()
	wantResult(t, res, session.Paused, session.ReasonSignal, "")
	if res.Signal != 15 || res.Done != 1 || res.Next.String() != "[resume abc123]" {
		t.Errorf("Execute: got %+v", res)
	}
	w.inOrder("effect t/a/main:1", "commit completed t/a/main:1 + paused signal")
	w.during = nil
	wantResult(t, w.process().must(), session.Completed, "", "")
	if d := cmp.Diff([]string{"a", "b"}, w.ledger); d != "" {
		t.Errorf("ledger (-want +got):\n%s", d)
	}
}

// A signal during a command leaves it to its supervisor. The next resume attaches to it.
func TestSignalDuringACommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, plan(task("t", command("a", "hang"))))
		p, signal := w.interruptible()
		time.AfterFunc(3*time.Second, func() { signal(2) })
		start := time.Now()
		res := p.must()
		wantResult(t, res, session.Paused, session.ReasonSignal, "")
		if res.Signal != 2 || !strings.Contains(res.Message, "t/a runs on") {
			t.Errorf("Execute: got %+v", res)
		}
		if took := time.Since(start) - 3*time.Second; took > time.Second {
			t.Errorf("the pause took %s after the signal, want at most a second", took)
		}
		w.inOrder("notice info t/a", "commit paused signal")
		p = w.process()
		time.AfterFunc(time.Second, func() { supervisor{w}.finish(w.sess.Steps[id("t", "a")].Key) })
		wantResult(t, p.must(), session.Completed, "", "")
		w.inOrder("notice handling t/a attach", "commit completed t/a/main:1 + completed")
		if w.count("effect") != 1 {
			t.Errorf("the command was started %d times", w.count("effect"))
		}
	})
}

// A stopped service gets its signal as a whole. A command that dies of it is recorded at
// once, as a failed step of an interrupted session. The next resume runs it again with
// any policy for failures.
func TestSignalForAll(t *testing.T) {
	for exit, want := range map[int]string{-1: "commit failed t/a/main:1", 0: "commit completed t/a/main:1"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, plan(task("t", command("a", "hang"))))
			w.plan.OnFailure = session.FailureFails
			p, signal := w.interruptible()
			time.AfterFunc(time.Second, func() { signal(15) })
			time.AfterFunc(time.Second+40*time.Millisecond, func() {
				w.amend(w.sess.Steps[id("t", "a")].Key, func(rec *session.CommandRecord) {
					rec.State, rec.Exit = session.CommandFinished, exit
				})
			})
			start := time.Now()
			res := p.must()
			if took := time.Since(start) - time.Second; took > 100*time.Millisecond {
				t.Errorf("status %d: got %q after %s", exit, res.Message, took)
			}
			w.inOrder("commit paused signal", want)
			if exit == 0 { // nothing is left
				wantResult(t, res, session.Completed, "", "")
				return
			}
			wantResult(t, res, session.Paused, session.ReasonSignal, "")
			w.plan.Tasks[0].Steps[0].Run.Shell = "ledger a"
			wantResult(t, w.process().must(), session.Completed, "", "")
			if again := w.count("effect t/a/main:2"); again != -exit {
				t.Errorf("status %d: it ran again %d times", exit, again)
			}
		})
	}
}

// A command without a recorded end is not reported as running when acode ends.
func TestSignalAndNoEnd(t *testing.T) {
	for _, state := range []session.CommandState{session.CommandUnknown, session.CommandUnclaimed} { // the supervisor was killed; it never began
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, plan(task("t", command("a", "hang"))))
			p, signal := w.interruptible()
			time.AfterFunc(time.Second, func() { signal(15) })
			time.AfterFunc(time.Second+40*time.Millisecond, func() {
				w.amend(w.sess.Steps[id("t", "a")].Key, func(rec *session.CommandRecord) { rec.State = state })
			})
			if res := p.must(); res.State != session.Paused || res.Message != "interrupted by a signal" {
				t.Errorf("%s: got %+v", state, res)
			}
		})
	}
}

// In a shutdown the command may die of the signal before acode has seen its own. Then the
// outcome is unknown, and nothing is decided before the next resume.
func TestCommandDiesOfTheSignal(t *testing.T) {
	for name, shell := range map[string]string{"signal": "told", "status": "exit 143"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, plan(task("t", command("a", shell, checking("exit 0"), onInterrupt(session.InterruptReruns)))))
				w.plan.OnFailure = session.FailureFails
				p, signal := w.interruptible()
				w.during = func(*world, string) { time.AfterFunc(50*time.Millisecond, func() { signal(15) }) }
				res := p.must()
				wantResult(t, res, session.Paused, session.ReasonSignal, "")
				if res.Signal != 15 || w.count("effect t/a/check") != 0 {
					t.Errorf("Execute: got %+v, and the check asked %d times", res, w.count("effect t/a/check"))
				}
				w.inOrder("commit unknown t/a/main:1", "commit paused signal")
				w.during = nil
				wantResult(t, w.process().must(), session.Completed, "", "")
				if n := w.count("effect t/a/main"); n != 1 {
					t.Errorf("the command was started %d times, want once", n)
				}
			})
		})
	}
}

// A failing step does not delay a cancel until the next resume.
func TestCancelWhileAStepFails(t *testing.T) {
	w := newWorld(t, plan(task("t", command("a", "exit 1"))))
	w.during = func(w *world, _ string) { w.ask(session.Request{Kind: session.RequestCancel}) }
	wantResult(t, w.process().must(), session.Cancelled, session.ReasonUser, session.ErrCancelled)
}

// A cancel before a resume waits for a running command also ends that command.
func TestCancelBeforeTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, plan(task("t", command("a", "hang"))))
		p, signal := w.interruptible()
		time.AfterFunc(time.Second, func() { signal(2) })
		p.must()
		p = w.process()
		p.between = func() {
			w.ask(session.Request{Kind: session.RequestCancel, By: "carl at noon", Reason: "wrong plan"})
		}
		res := p.must()
		wantResult(t, res, session.Cancelled, session.ReasonUser, session.ErrCancelled)
		if want := "cancelled from elsewhere by carl at noon: wrong plan"; res.Message != want {
			t.Errorf("Execute: got %q, want %q", res.Message, want)
		}
		w.inOrder("terminate t/a/main:1", "commit failed t/a/main:1 + cancelled user")
	})
}

// A slow look at the workspace does not prevent a pause within a second of a signal.
func TestSignalWithASlowWorkspace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, plan(task("t", command("a", "ledger a"), command("b", "ledger b"))))
		p, signal := w.interruptible()
		w.during = func(*world, string) { signal(15) }
		p.snap = func(ctx context.Context) (string, string, error) {
			select {
			case <-ctx.Done():
				return "", "", ctx.Err()
			case <-time.After(time.Hour):
				return "late", "{}", nil
			}
		}
		start := time.Now()
		wantResult(t, p.must(), session.Paused, session.ReasonSignal, "")
		if took := time.Since(start); took > time.Second {
			t.Errorf("Execute: paused %s after the signal, want a second at most", took)
		}
	})
}

// A signal at the end of the last command completes the session, because no work is left.
func TestSignalAtTheLastStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, plan(task("t", command("a", "hang"))))
		p, signal := w.interruptible()
		time.AfterFunc(time.Second, func() { signal(15) })
		time.AfterFunc(time.Second+100*time.Millisecond, func() { supervisor{w}.finish(w.sess.Steps[id("t", "a")].Key) })
		res := p.must()
		wantResult(t, res, session.Completed, "", "")
		if res.Signal != 0 || !res.Next.IsZero() {
			t.Errorf("Execute: got %+v, want a result without a signal", res)
		}
	})
}

// A second signal ends the command, and that is recorded. The session stays paused by the
// signal for every on_failure.
func TestSecondSignal(t *testing.T) {
	for _, policy := range []session.OnFailure{session.FailurePauses, session.FailureFails, session.FailureContinues} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, plan(task("t", command("a", "hang"), command("b", "ledger b"))))
			w.plan.OnFailure = policy
			p, signal := w.interruptible()
			time.AfterFunc(time.Second, func() { signal(2) })
			time.AfterFunc(time.Second+100*time.Millisecond, func() { close(p.again) })
			res := p.must()
			wantResult(t, res, session.Paused, session.ReasonSignal, "")
			if res.Signal != 2 || len(w.ledger) != 0 {
				t.Errorf("on_failure %s: got %+v, ledger %v", policy, res, w.ledger)
			}
			w.inOrder("commit paused signal", "terminate t/a/main:1", "commit failed t/a/main:1")
		})
	}
}

// The commands of a process that is PID 1 end with it. The first signal and the session's
// timeout record that, so that the next resume knows.
func TestLastProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, plan(task("t", command("a", "hang"), command("b", "ledger b"))))
		p, signal := w.interruptible()
		p.last = true
		time.AfterFunc(time.Second, func() { signal(15) })
		res := p.must()
		wantResult(t, res, session.Paused, session.ReasonSignal, "")
		if res.Signal != 15 || len(w.ledger) != 0 || strings.Contains(res.Message, "runs on") {
			t.Errorf("signal: got %+v, ledger %v", res, w.ledger)
		}
		w.inOrder("commit paused signal", "terminate t/a/main:1", "commit failed t/a/main:1")
	})
	for _, cause := range []error{engine.Interrupted{Signal: 15}, session.ErrTimeout} { // a command in another container does not end
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, plan(task("t", command("a", "hang"))))
			p := w.process()
			p.last = true
			ctx, cancel := context.WithCancelCause(context.Background())
			p.ctx = ctx
			time.AfterFunc(time.Second, func() {
				w.amend(w.sess.Steps[id("t", "a")].Key, func(rec *session.CommandRecord) { rec.Elsewhere = true })
				cancel(cause)
			})
			if res := p.must(); res.State != session.Paused || w.count("terminate") != 0 || !strings.Contains(res.Message, "runs on") {
				t.Errorf("elsewhere, %v: got %+v", cause, res)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, plan(task("t", command("a", "hang"), command("b", "ledger b"))))
		w.plan.OnFailure = session.FailureFails
		p := w.process()
		p.last = true
		ctx, cancel := context.WithTimeoutCause(context.Background(), 5*time.Second, session.ErrTimeout)
		defer cancel()
		p.ctx = ctx
		res := p.must()
		wantResult(t, res, session.Paused, session.ReasonTimeout, session.ErrTimeout)
		if len(w.ledger) != 0 || strings.Contains(res.Message, "runs on") {
			t.Errorf("time-out: got %+v, ledger %v", res, w.ledger)
		}
		w.inOrder("terminate t/a/main:1", "commit failed t/a/main:1")
	})
}

// The last command ends by itself before or at a second signal. No work is left, so the
// session is completed.
func TestEndsBetweenTwoSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, plan(task("t", command("a", "hang"))))
		p, signal := w.interruptible()
		time.AfterFunc(time.Second, func() { signal(2) })
		time.AfterFunc(time.Second+40*time.Millisecond, func() {
			w.amend(w.sess.Steps[id("t", "a")].Key, func(rec *session.CommandRecord) { rec.State = session.CommandFinished })
			close(p.again)
		})
		wantResult(t, p.must(), session.Completed, "", "")
		w.inOrder("commit paused signal", "terminate t/a/main:1", "commit completed t/a/main:1")
	})
}

// session cancel ends the running command and the session.
func TestCancelDuringACommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, plan(task("t", command("a", "hang"), command("b", "ledger b"))))
		w.plan.OnFailure = session.FailureContinues
		time.AfterFunc(time.Second, func() { w.ask(session.Request{Kind: session.RequestCancel, Reason: "changed my mind"}) })
		res := w.process().must()
		wantResult(t, res, session.Cancelled, session.ReasonUser, session.ErrCancelled)
		if !res.Next.IsZero() || w.sess.Detail != "changed my mind" || len(w.ledger) != 0 || len(w.requests) != 0 {
			t.Errorf("Execute: got %+v, detail %q, ledger %v, requests %v", res, w.sess.Detail, w.ledger, w.requests)
		}
		w.inOrder("terminate t/a/main:1", "commit failed t/a/main:1", "commit cancelled user")
	})
}

// session cancel --command ends only the command; then the step has failed.
func TestCommandEndedFromElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, plan(task("t", command("a", "hang"))))
		time.AfterFunc(time.Second, func() { _ = supervisor{w}.Terminate(context.Background(), w.sess.Steps[id("t", "a")].Key) })
		wantResult(t, w.process().must(), session.Paused, session.ReasonTaskFailed, session.ErrStopped)
	})
}

// E5: after acode ended a command, the next resume first runs the check. Without a check
// it says that the step runs again, and runs it as a new attempt.
func TestAfterAnOrderedEnd(t *testing.T) {
	for _, c := range []struct {
		name  string
		with  []func(*session.Run)
		flag  session.OnInterrupt
		state session.State
		// of the command, after the resume
		starts int
		trace  []string
	}{
		{"check_it_happened", []func(*session.Run){checking("exit 0")}, "", session.Completed, 1,
			[]string{"notice handling t/a decide", "commit acquired + executing + unknown t/a/main:1", "effect t/a/check:10", "commit completed t/a/main:1 + completed"}},
		{"check_it_did_not", []func(*session.Run){checking("exit 1")}, "", session.Completed, 2,
			[]string{"effect t/a/check:10", "commit started t/a/main:2", "effect t/a/main:2"}},
		{"check_cannot_tell", []func(*session.Run){checking("exit 2")}, "", session.Paused, 1, []string{"effect t/a/check:10", "commit paused uncertain"}},
		{"check_cannot_tell_flag", []func(*session.Run){checking("exit 2")}, session.InterruptDone, session.Completed, 1, []string{"effect t/a/check:10"}},
		{"check_cannot_tell_policy", []func(*session.Run){checking("exit 2"), onInterrupt(session.InterruptReruns)}, "", session.Completed, 2, []string{"effect t/a/main:2"}},
		{"no_check", nil, "", session.Completed, 2, []string{"notice handling t/a retry", "commit acquired + executing + started t/a/main:2", "effect t/a/main:2"}},
		{"no_check_policy", []func(*session.Run){onInterrupt(session.InterruptDone)}, "", session.Completed, 2, []string{"notice handling t/a retry", "effect t/a/main:2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, plan(task("t", command("a", "slow", c.with...))))
			wantResult(t, w.process().must(), session.Paused, session.ReasonTaskFailed, session.ErrTimeout)
			w.plan.Tasks[0].Steps[0].Run.Shell = "exit 0"
			p := w.process()
			p.policy.Uncertain = c.flag
			if res := p.must(); res.State != c.state {
				t.Fatalf("Execute: got %+v, want %s", res, c.state)
			}
			if n := w.count("effect t/a/main"); n != c.starts {
				t.Errorf("the command was started %d times, want %d\n%s", n, c.starts, strings.Join(w.trace, "\n"))
			}
			w.inOrder(c.trace...)
		})
	}
}

// A command that was asked to end and exits with 0 has done its work. With any other
// status it has not.
func TestAskedToEndAndDone(t *testing.T) {
	for exit, want := range map[int]session.State{0: session.Completed, 1: session.Paused, 130: session.Paused} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, plan(task("t", command("a", "hang"))))
			time.AfterFunc(time.Second, func() {
				key := w.sess.Steps[id("t", "a")].Key
				w.amend(key, func(rec *session.CommandRecord) {
					rec.State, rec.Exit, rec.Cancelled = session.CommandFinished, exit, true
				})
				close(supervisor{w}.end(key))
			})
			res := w.process().must()
			if res.State != want {
				t.Errorf("status %d: got %+v, want %s", exit, res, want)
			}
		})
	}
}

// A signal or a cancel during a check concerns the check. Nothing starts after it.
func TestInterruptedCheck(t *testing.T) {
	check := func() *world {
		return newWorld(t, plan(task("t", command("a", "torn X", checking("hang"), onInterrupt(session.InterruptReruns)))))
	}
	synctest.Test(t, func(t *testing.T) {
		w := check()
		p, signal := w.interruptible()
		time.AfterFunc(time.Second, func() { signal(2) })
		time.AfterFunc(time.Second+100*time.Millisecond, func() { close(p.again) })
		res := p.must()
		wantResult(t, res, session.Paused, session.ReasonSignal, "")
		if w.count("terminate t/a/check:") != 1 || w.count("effect t/a/main:2") != 0 || res.Signal != 2 {
			t.Errorf("second signal: got %+v\n%s", res, strings.Join(w.trace, "\n"))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := check()
		time.AfterFunc(time.Second, func() { w.ask(session.Request{Kind: session.RequestCancel}) })
		wantResult(t, w.process().must(), session.Cancelled, session.ReasonUser, session.ErrCancelled)
		if w.count("terminate t/a/check:") != 1 || w.count("effect t/a/main:2") != 0 {
			t.Errorf("cancel:\n%s", strings.Join(w.trace, "\n"))
		}
	})
	for state, want := range map[session.CommandState]session.State{session.CommandRunning: session.Paused, session.CommandFinished: session.Completed} {
		synctest.Test(t, func(t *testing.T) {
			w := check()
			p, signal := w.interruptible()
			time.AfterFunc(time.Second, func() { signal(2) })
			time.AfterFunc(time.Second+100*time.Millisecond, func() {
				w.amend(w.find("/check:"), func(rec *session.CommandRecord) { rec.State = state })
			})
			if res := p.must(); res.State != want || want == session.Paused && res.Message != "interrupted by a signal; the check of t/a runs on" {
				t.Errorf("%s check: got %+v, want %s", state, res, want)
			}
		})
	}
	// the check returns "run it again" between two signals
	synctest.Test(t, func(t *testing.T) {
		w := check()
		p, signal := w.interruptible()
		time.AfterFunc(time.Second, func() { signal(2) })
		time.AfterFunc(time.Second+100*time.Millisecond, func() {
			w.amend(w.find("/check:"), func(rec *session.CommandRecord) { rec.State, rec.Exit = session.CommandFinished, 1 })
			close(p.again)
		})
		wantResult(t, p.must(), session.Paused, session.ReasonSignal, "")
		if w.count("commit started t/a/main:2") != 0 || w.count("forget t/a/main:1") != 0 {
			t.Errorf("two signals:\n%s", strings.Join(w.trace, "\n"))
		}
	})
	// only the check is ended, so it could not tell
	synctest.Test(t, func(t *testing.T) {
		w := check()
		w.during = func(w *world, shell string) {
			if shell == "hang" {
				time.AfterFunc(time.Second, func() {
					check := w.find("/check:")
					_ = supervisor{w}.Terminate(context.Background(), check)
				})
			}
		}
		wantResult(t, w.process().must(), session.Completed, "", "")
		w.inOrder("effect t/a/main:2")
	})
}

// A session whose timeout passes pauses; its command continues.
func TestSessionTimeout(t *testing.T) {
	for name, cause := range map[string]error{"with_cause": session.ErrTimeout, "without": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, plan(task("t", command("a", "hang"))))
				p := w.process()
				ctx, cancel := context.WithTimeoutCause(context.Background(), 5*time.Second, cause)
				defer cancel()
				p.ctx = ctx
				wantResult(t, p.must(), session.Paused, session.ReasonTimeout, session.ErrTimeout)
				if w.count("terminate") != 0 {
					t.Errorf("a time-out of the session ended its command")
				}
			})
		})
	}
}

// A context that ends without a signal counts as a user's request.
func TestCancelledContext(t *testing.T) {
	w := newWorld(t, plan(task("t", command("a", "ledger a"))))
	p := w.process()
	ctx, cancel := context.WithCancel(context.Background())
	p.ctx, p.between = ctx, cancel
	wantResult(t, p.must(), session.Paused, session.ReasonUser, "")
	if len(w.ledger) != 0 {
		t.Errorf("ledger: got %v, want nothing", w.ledger)
	}
}

// An adapter that only reports the end of its context does not hide the signal.
func TestSignalInsideAPort(t *testing.T) {
	for _, c := range []struct {
		name string
		step session.Step
	}{{"read", read("a", "in")}, {"uncertain", command("a", "torn X")}, {"approve", gate("a")}, {"settle", command("a", "torn X", onInterrupt(session.InterruptReruns))}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, plan(task("t", c.step)))
			w.files["in"] = "x"
			p, signal := w.interruptible()
			p.person.uncertain = func(ctx context.Context, _ string) (session.OnInterrupt, error) {
				signal(1)
				return "", ctx.Err()
			}
			p.person.approve = func(ctx context.Context, _ string) (engine.Answer, error) {
				signal(1)
				return engine.Answer{}, ctx.Err()
			}
			switch c.name {
			case "read":
				w.onRead = func() { signal(1) }
			case "settle":
				w.during = func(*world, string) { signal(1) }
			}
			res := p.must()
			wantResult(t, res, session.Paused, session.ReasonSignal, "")
			if w.count("commit started t/a/main:2") != 0 {
				t.Errorf("a new attempt began after the signal")
			}
			if res.Signal != 1 {
				t.Errorf("signal: got %d, want 1", res.Signal)
			}
		})
	}
}

// An adapter that reports a signal or the session's timeout does not make the step fail.
func TestEndOfTheSessionIsNoFailureOfAStep(t *testing.T) {
	search := session.Step{ID: "a", Kind: session.KindSearch, Search: &session.Search{Pattern: "x", Path: "in"}}
	for port, step := range map[string]session.Step{"read": read("a", "in"), "search": search, "prepare": write("a", "f", "x")} {
		for cause, reason := range map[error]session.Reason{engine.Interrupted{Signal: 2}: session.ReasonSignal, session.ErrTimeout: session.ReasonTimeout} {
			w := newWorld(t, plan(task("t", step)))
			w.files["in"] = "x"
			w.fails[port] = cause
			p, _ := w.interruptible()
			if res := p.must(); res.State != session.Paused || res.Reason != reason {
				t.Errorf("%s, %v: got %+v, want paused, %s", port, cause, res, reason)
			}
			if st := w.sess.Steps[session.StepID{Task: "t", Step: "a"}]; st != nil && st.Status != session.InProgress {
				t.Errorf("%s, %v: the step is %s, want it as it was", port, cause, st.Status)
			}
		}
	}
}

// A problem while a command is left or ended is reported, and the session stays
// resumable.
func TestLeavingGoesWrong(t *testing.T) {
	for _, port := range []string{"append", "terminate", "wait"} {
		t.Run(port, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, plan(task("t", command("a", "hang"))))
				p, signal := w.interruptible()
				time.AfterFunc(time.Second, func() {
					w.fails[port] = errStore
					close(p.again)
					signal(2)
				})
				if _, _, err := p.run(); !errors.Is(err, errStore) {
					t.Errorf("Execute with a failing %s: got %v", port, err)
				}
				w.lawful()
			})
		})
	}
}

// If the store cannot list requests, the session stops at its next boundary, and its
// command continues.
func TestRequestsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, plan(task("t", command("a", "hang"), command("b", "ledger b"))))
		time.AfterFunc(time.Second, func() { w.mu.Lock(); w.refuses["requests"] = errStore; w.mu.Unlock() })
		time.AfterFunc(2*time.Second, func() { supervisor{w}.finish(w.sess.Steps[id("t", "a")].Key) })
		if _, _, err := w.process().run(); !errors.Is(err, errStore) {
			t.Errorf("Execute: got %v, want the store's error", err)
		}
		if w.count("terminate") != 0 || len(w.ledger) != 0 {
			t.Errorf("after the store failed:\n%s", strings.Join(w.trace, "\n"))
		}
	})
}

// A pause and a waiting question store the state of the workspace, but do not depend on
// it.
func TestSnapshotAtAPause(t *testing.T) {
	for _, fails := range []error{nil, errStore} {
		for _, step := range []session.Step{command("a", "exit 1"), gate("a")} {
			w := newWorld(t, plan(task("t", step)))
			p := w.process()
			p.snap = func(context.Context) (string, string, error) { return "manifest", "{}", fails }
			if res := p.must(); res.State != session.Paused && res.State != session.AwaitingApproval {
				t.Errorf("Execute: got %+v", res)
			}
			if got := w.sess.Manifest; (got == "manifest") != (fails == nil) {
				t.Errorf("%s: manifest: got %q when the snapshot returned %v", step.Kind, got, fails)
			}
			if strings.Contains(p.log.String(), "snapshot_failed") != (fails != nil) {
				t.Errorf("%s: log: got %s", step.Kind, p.log.String())
			}
		}
	}
}

// Each end of a command stores the state of the workspace, but does not depend on it.
func TestLookAfterACommand(t *testing.T) {
	for _, fails := range []error{nil, errStore} {
		for shell, want := range map[string]session.EventType{"ledger a": session.StepCompleted, "exit 1": session.StepFailedEvent} {
			w := newWorld(t, plan(task("t", command("a", shell))))
			p := w.process()
			looks := 0
			p.look = func(context.Context) (string, error) { looks++; return "manifest", fails }
			p.must()
			if got := w.sess.Manifest; looks != 1 || (got == "manifest") != (fails == nil) {
				t.Errorf("%s: manifest: got %q after %d looks that returned %v", shell, got, looks, fails)
			}
			var d struct{ Manifest string }
			for _, e := range w.events {
				if e.Type == want && e.Decode(&d) != nil {
					t.Error("the receipt is unreadable")
				}
			}
			if (d.Manifest == "manifest") != (fails == nil) {
				t.Errorf("%s: the receipt says %q", shell, d.Manifest)
			}
			if strings.Contains(p.log.String(), "look_failed") != (fails != nil) {
				t.Errorf("%s: log: got %s", shell, p.log.String())
			}
		}
	}
}

// A request other than cancel, such as an approval of a later gate, ends no running
// command. It is answered between two steps.
func TestRequestsThatAreNoCancel(t *testing.T) {
	for _, kind := range []session.RequestKind{session.RequestApprove, session.RequestDeny} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, plan(task("t", command("a", "hang"))))
			time.AfterFunc(time.Second, func() { w.ask(session.Request{Kind: kind, Step: id("t", "a"), Digest: "of another plan"}) })
			time.AfterFunc(5*time.Second, func() { supervisor{w}.finish(w.sess.Steps[id("t", "a")].Key) })
			wantResult(t, w.process().must(), session.Completed, "", "")
			if n := w.count("terminate"); n != 0 {
				t.Errorf("%s: the command was ended %d times, want it left alone", kind, n)
			}
			if n := w.count("effect"); n != 1 {
				t.Errorf("%s: the effect happened %d times, want once", kind, n)
			}
		})
	}
}

// A signal does not interrupt a commit that has begun, because its outcome would be
// unknown.
func TestSignalBeforeACommit(t *testing.T) {
	w := newWorld(t, plan(task("t", gate("g"))))
	p, signal := w.interruptible()
	p.snap = func(context.Context) (string, string, error) {
		signal(15)
		return "manifest", "{}", nil
	}
	p.must()
	if n := w.count("commit acquired + planning + executing + asked t/g"); n != 1 {
		t.Errorf("the question was committed %d times, want once:\n%s", n, strings.Join(w.trace, "\n"))
	}
}

// A running command comes first: an earlier failed step does not run again beside it.
func TestRunningCommandComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, plan(task("one", command("a", "exit 1")), task("two", command("b", "hang"))))
		w.plan.OnFailure = session.FailureContinues
		p, signal := w.interruptible()
		time.AfterFunc(time.Second, func() { signal(2) })
		wantResult(t, p.must(), session.Paused, session.ReasonSignal, "")
		time.AfterFunc(time.Second, func() { supervisor{w}.finish(w.sess.Steps[id("two", "b")].Key) })
		w.process().must()
		w.inOrder("notice handling two/b attach", "effect one/a/main:2")
	})
}
