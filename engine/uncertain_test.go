package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/session"
)

func says(o session.OnInterrupt) func(context.Context, string) (session.OnInterrupt, error) {
	return func(context.Context, string) (session.OnInterrupt, error) { return o, nil }
}

// E5: if the supervisor of a command was killed, its check decides, then --uncertain,
// then its policy, then a person. Nothing is guessed.
func TestUncertain(t *testing.T) {
	const rerun, done, fail, ask = session.InterruptReruns, session.InterruptDone, session.InterruptFails, session.InterruptAsks
	type run = func(*session.Run)
	for _, c := range []struct {
		name     string
		with     []run
		flag     session.OnInterrupt
		person   session.OnInterrupt
		happened bool
		// empty for completed
		code session.Code
		// By of the receipt or of the next attempt; empty if nothing was decided
		by     string
		ledger []string
	}{
		{"check_it_happened", []run{checking("has X")}, "", "", true, "", "check", []string{"X"}},
		{"check_it_did_not", []run{checking("has X")}, "", "", false, "", "check", []string{"X"}},
		{"check_wins_over_flag", []run{checking("has X"), onInterrupt(fail)}, fail, fail, true, "", "check", []string{"X"}},
		{"check_cannot_tell_done", []run{checking("exit 2"), onInterrupt(done)}, "", "", true, "", "policy", []string{"X"}},
		{"check_killed_rerun", []run{checking("killed"), onInterrupt(rerun)}, "", "", false, "", "policy", []string{"X"}},
		{"check_slow_ask", []run{checking("slow"), onInterrupt(ask)}, "", "", true, session.ErrUncertain, "", []string{"X"}},
		{"check_late_ask", []run{checking("late"), onInterrupt(ask)}, "", "", true, session.ErrUncertain, "", []string{"X"}},
		{"check_unstartable_fail", []run{checking("unstartable"), onInterrupt(fail)}, "", "", true, session.ErrUncertain, "policy", []string{"X"}},
		{"check_refused_ask", []run{checking("refuse"), onInterrupt(ask)}, "", "", true, session.ErrUncertain, "", []string{"X"}},
		{"check_refused_flag", []run{checking("refuse")}, done, "", true, "", "person", []string{"X"}},
		{"check_unknown", []run{checking("unknown")}, done, "", true, "", "person", []string{"X"}},
		{"policy_rerun", []run{onInterrupt(rerun)}, "", fail, true, "", "policy", []string{"X", "X"}},
		{"policy_done", []run{onInterrupt(done)}, "", fail, true, "", "policy", []string{"X"}},
		{"flag_rerun", []run{onInterrupt(fail)}, rerun, fail, false, "", "person", []string{"X"}},
		{"flag_done", nil, done, fail, true, "", "person", []string{"X"}},
		{"flag_fail", nil, fail, done, true, session.ErrUncertain, "person", []string{"X"}},
		{"flag_ask", []run{onInterrupt(fail)}, ask, done, true, "", "person", []string{"X"}},
		{"person_rerun", nil, "", rerun, false, "", "person", []string{"X"}},
		{"person_done", nil, "", done, true, "", "person", []string{"X"}},
		{"person_fail", nil, "", fail, true, session.ErrUncertain, "person", []string{"X"}},
		{"person_says_nothing", nil, "", "maybe", true, session.ErrUncertain, "", []string{"X"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, plan(task("t", command("s", "torn X", c.with...))))
			w.happened = c.happened
			if c.flag != "" { // the answer is for steps that were in progress before
				w.crashIn, w.crashNth, w.killsToo = "claimed", 1, true
				if _, crashed, err := w.process().run(); !crashed || err != nil {
					t.Fatalf("Execute: got %v, crashed %v", err, crashed)
				}
			}
			p := w.process()
			p.policy.Uncertain = c.flag
			if c.person != "" {
				p.person.uncertain = says(c.person)
			}
			res := p.must()
			if d := cmp.Diff(c.ledger, w.ledger); d != "" {
				t.Errorf("ledger (-want +got):\n%s", d)
			}
			forgotten := func() { // the raw output of an attempt stays no longer than the doubt
				if n := w.count("forget t/s/main:1"); n != 1 {
					t.Errorf("forget: the raw output of the uncertain attempt was removed %d times, want once", n)
				}
			}
			if c.code != "" {
				if res.State != session.Paused || res.Code != c.code {
					t.Fatalf("Execute: got %s, %s, want paused, %s", res.State, res.Code, c.code)
				}
				if c.by == "" {
					return
				}
				forgotten()
				if by := payload[session.StepFailedData](w, session.StepFailedEvent).By; by != c.by || !strings.HasSuffix(res.Message, "declared failed by "+c.by) {
					t.Errorf("declared failed by: got %q, %q, want %q", by, res.Message, c.by)
				}
				return
			}
			wantResult(t, res, session.Completed, "", "")
			forgotten()
			receipt := payload[session.StepCompletedData](w, session.StepCompleted)
			by := receipt.By
			if receipt.Attempt == 1 && receipt.EndedUS != lost(w) {
				t.Errorf("ended: got %d us, want when its outcome was found to be unknown, %d", receipt.EndedUS, lost(w))
			}
			if receipt.Attempt > 1 {
				if receipt.EndedUS != 0 {
					t.Errorf("ended: got %d us of an attempt that was waited for", receipt.EndedUS)
				}
				by = payload[session.StepStartedData](w, session.StepStarted).By
				if n := w.count("notice started t/s"); c.flag == "" && n != 2 {
					t.Errorf("notices: the step is shown as started %d times for 2 attempts", n)
				}
			}
			if by != c.by {
				t.Errorf("decided by: got %q, want %q", by, c.by)
			}
			w.inOrder("commit unknown t/s/main:1", "notice uncertain t/s")
			if !strings.Contains(p.log.String(), `"event":"uncertain_decided"`) {
				t.Errorf("log: the decision is not in %s", p.log.String())
			}
		})
	}
}

// E5: a command whose supervisor is killed each time does not run again without end, if a
// policy or a check decides. Then a person must decide, without a limit. Each command has
// its own count.
func TestUncertainEachTime(t *testing.T) {
	for _, c := range []struct {
		by   string
		with func(*session.Run)
		// of the run, and after a resume that is told to run it again; a check runs
		// before that
		attempts [2]int
	}{{"policy", onInterrupt(session.InterruptReruns), [2]int{4, 8}}, {"check", checking("exit 1"), [2]int{4, 7}}} {
		t.Run(c.by, func(t *testing.T) {
			w := newWorld(t, plan(task("t", command("o", "torn O", c.with), command("s", "unknown", c.with))))
			for i, want := range c.attempts {
				p := w.process()
				if i > 0 {
					p.policy.Uncertain = session.InterruptReruns
				}
				res := p.must()
				if res.State != session.Paused || res.Code != session.ErrUncertain || !strings.Contains(res.Message, "already ran again 3 times") {
					t.Fatalf("Execute: got %s, %s, %q, want it to ask", res.State, res.Code, res.Message)
				}
				if got := w.count("effect t/s/main:"); got != want {
					t.Errorf("attempts: got %d, want %d", got, want)
				}
			}
		})
	}
}

// E5, FR-064: if no person can be asked, the session pauses. It names the command that
// continues it and leaves the answer open. The answer then counts once.
func TestUncertainNobodyThere(t *testing.T) {
	w := newWorld(t, plan(task("t", command("s", "torn X"), command("n", "ledger N"))))
	w.happened = true
	res := w.process().must()
	wantResult(t, res, session.Paused, session.ReasonUncertain, session.ErrUncertain)
	if res.Next.String() != "[answer abc123]" || !strings.Contains(res.Message, "its supervisor was killed") {
		t.Errorf("Execute: got %+v", res)
	}
	again := w.process().must()
	wantResult(t, again, session.Paused, session.ReasonUncertain, session.ErrUncertain)
	p := w.process()
	p.policy.Uncertain = session.InterruptDone
	wantResult(t, p.must(), session.Completed, "", "")
	if d := cmp.Diff([]string{"X", "N"}, w.ledger); d != "" {
		t.Errorf("ledger (-want +got):\n%s", d)
	}
	if n := w.count("commit unknown"); n != 1 {
		t.Errorf("StepUnknown: recorded %d times", n)
	}
}

// E5: acode asks about an ended command whose output is lost, because exit status 0 shows
// neither its output nor its capture. After an answer nothing runs again. A policy that
// repeats commands that may not have happened does not run it again either.
func TestOutputLost(t *testing.T) {
	w := newWorld(t, plan(task("t", command("s", "ledger S", onInterrupt(session.InterruptReruns)), command("n", "ledger N"))))
	w.fails["output"] = &session.Error{Code: session.ErrCorrupt, Message: "an output file of the command cannot be used: it is missing"}
	res := w.process().must()
	wantResult(t, res, session.Paused, session.ReasonUncertain, session.ErrUncertain)
	if !strings.Contains(res.Message, "its record says that it ended with status 0, and its output is lost: an output file") {
		t.Errorf("Execute: got %q, want what is known and what is not", res.Message)
	}
	p := w.process()
	p.policy.Uncertain = session.InterruptDone
	wantResult(t, p.must(), session.Completed, "", "")
	if d := cmp.Diff([]string{"S", "N"}, w.ledger); d != "" {
		t.Errorf("ledger (-want +got):\n%s", d)
	}
}

// E5: a capture from a partial output is invalid. Without a capture, the output itself
// says that a part is missing.
func TestCaptureOfAnOutputThatIsNotWhole(t *testing.T) {
	w := newWorld(t, plan(task("t", command("all", "overflow 1.2"), command("v", "overflow 1.2", capturing("V")))))
	res := w.process().must()
	wantResult(t, res, session.Paused, session.ReasonUncertain, session.ErrUncertain)
	if !strings.Contains(res.Message, "is incomplete: 9 bytes could not be kept") || w.sess.Steps[id("t", "all")].Status != session.StepDone {
		t.Errorf("Execute: got %q, and %+v", res.Message, w.sess.Steps[id("t", "all")])
	}
}

// E5: --uncertain answers for the attempt that was in progress at that time. It does not
// answer for another step or for the attempt that it started.
func TestUncertainAnswersOnce(t *testing.T) {
	for _, answer := range []session.OnInterrupt{session.InterruptDone, session.InterruptReruns} {
		w := newWorld(t, plan(task("t", command("s", "torn X"), command("n", "torn N"), command("l", "ledger L"))))
		wantResult(t, w.process().must(), session.Paused, session.ReasonUncertain, session.ErrUncertain)
		p := w.process()
		p.policy.Uncertain = answer
		res := p.must()
		wantResult(t, res, session.Paused, session.ReasonUncertain, session.ErrUncertain)
		if !strings.HasPrefix(res.Message, "t/n:") || w.sess.Steps[id("t", "s")].Status != session.StepDone || len(w.ledger) > 1 {
			t.Errorf("%s: got %+v, ledger %q", answer, res, w.ledger)
		}
	}
	w := newWorld(t, plan(task("t", command("s", "torn X"))))
	w.crashIn, w.crashNth = "run", 1 // before it was claimed: it starts only now
	if _, crashed, err := w.process().run(); !crashed || err != nil {
		t.Fatalf("Execute: got %v, crashed %v", err, crashed)
	}
	p := w.process()
	p.policy.Uncertain = session.InterruptDone
	wantResult(t, p.must(), session.Paused, session.ReasonUncertain, session.ErrUncertain)
	w = newWorld(t, plan(task("t", command("s", "unknown"))))
	wantResult(t, w.process().must(), session.Paused, session.ReasonUncertain, session.ErrUncertain)
	p = w.process()
	p.policy.Uncertain = session.InterruptReruns
	wantResult(t, p.must(), session.Paused, session.ReasonUncertain, session.ErrUncertain)
	if n := w.count("effect t/s/main:"); n != 2 {
		t.Errorf("rerun: the command was started %d times, want twice", n)
	}
}

// The next process removes raw output that a process left because it was killed between a
// receipt and its next call.
func TestRawOutputOfAKilledProcess(t *testing.T) {
	for _, shell := range []string{"ledger X", "torn X"} {
		w := newWorld(t, plan(task("t", command("s", shell, onInterrupt(session.InterruptReruns)), command("n", "ledger N"))))
		w.crashIn, w.crashNth = "forget", 1
		if _, crashed, err := w.process().run(); !crashed || err != nil {
			t.Fatalf("%s: got %v, crashed %v", shell, err, crashed)
		}
		wantResult(t, w.process().must(), session.Completed, "", "")
		if n := w.count("forget t/s/main:1"); n < 1 {
			t.Errorf("%s: the raw output of the first attempt stays", shell)
		}
	}
}

// That is the newest receipt in any order of the plan; earlier outputs were removed.
func TestRawOutputOfTheNewest(t *testing.T) {
	w := newWorld(t, plan(after(task("second", command("s", "ledger 2"), command("n", "ledger 3")), "first"), task("first", command("s", "ledger 1"))))
	w.crashIn, w.crashNth = "forget", 2
	if _, crashed, err := w.process().run(); !crashed || err != nil {
		t.Fatalf("got %v, crashed %v", err, crashed)
	}
	wantResult(t, w.process().must(), session.Completed, "", "")
	if first, second := w.count("forget first/s/main:1"), w.count("forget second/s/main:1"); first != 1 || second != 1 {
		t.Errorf("removed %d times and %d times, want each once", first, second)
	}
}

// E5: each process runs a check under a new key, because a claimed key never runs again.
func TestCheckIsAskedAgain(t *testing.T) {
	w := newWorld(t, plan(task("t", command("s", "torn X", checking("has Y")))))
	w.plan.Tasks[0].Steps[0].Run.Check = "exit 2"
	wantResult(t, w.process().must(), session.Paused, session.ReasonUncertain, session.ErrUncertain)
	wantResult(t, w.process().must(), session.Paused, session.ReasonUncertain, session.ErrUncertain)
	checks := map[string]bool{}
	for _, l := range w.trace {
		if strings.HasPrefix(l, "effect t/s/check:") {
			checks[l] = true
		}
	}
	if len(checks) != 2 {
		t.Errorf("checks: got %v, want two of different keys", checks)
	}
}

// E5: a check that a limit prevented from starting did not run, and on_interrupt is only
// for a check that cannot tell.
func TestStarvedCheck(t *testing.T) {
	w := newWorld(t, plan(task("t", command("s", "torn X", checking("starve"), onInterrupt(session.InterruptReruns)))))
	w.happened = true
	wantResult(t, w.process().must(), session.Paused, session.ReasonEnvironment, session.ErrInternal)
	w.plan.Tasks[0].Steps[0].Run.Check = "has X"
	wantResult(t, w.process().must(), session.Completed, "", "")
	if d := cmp.Diff([]string{"X"}, w.ledger); d != "" {
		t.Errorf("ledger (-want +got):\n%s", d)
	}
}

// E5: without a recorded exit a captured value is lost, however much of it was written. A
// check, a policy or a person that says "done" does not complete it. The step stops, and
// a person may give the value.
func TestTornCapture(t *testing.T) {
	for _, c := range []struct {
		name string
		with []func(*session.Run)
		flag session.OnInterrupt
	}{
		{"check", []func(*session.Run){checking("has 1.")}, ""},
		{"policy", []func(*session.Run){onInterrupt(session.InterruptDone)}, ""},
		{"flag", nil, session.InterruptDone},
		{"check_and_flag", []func(*session.Run){checking("has 1.")}, session.InterruptDone},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, plan(task("t", command("s", "torn 1.", append(c.with, capturing("V"))...), command("u", "env V"))))
			w.happened = true
			w.crashIn, w.crashNth, w.killsToo = "claimed", 1, true
			if _, crashed, err := w.process().run(); !crashed || err != nil {
				t.Fatalf("Execute: got %v, crashed %v", err, crashed)
			}
			for range 2 {
				p := w.process()
				p.policy.Uncertain = c.flag
				res := p.must()
				wantResult(t, res, session.Paused, session.ReasonUncertain, session.ErrUncertain)
				if res.Next.String() != "[give_value abc123 t/s]" || !strings.Contains(res.Message, "the value of V is lost") {
					t.Fatalf("Execute: got %+v", res)
				}
				w.ledgered("1.")
			}
			p := w.process()
			p.policy.Captures = map[session.StepID]string{id("t", "s"): "1.4"}
			wantResult(t, p.must(), session.Completed, "", "")
			w.ledgered("1.", "1.4") // the second one is the output of env V
		})
	}
}

// E5: if the check says that the command happened but its captured value is lost, a
// person's answer counts, as the message says. Without an answer nothing is repeated,
// with any policy.
func TestUncertainCheckWithLostCapture(t *testing.T) {
	for answer, want := range map[session.OnInterrupt][]string{session.InterruptReruns: {"X", "X"}, session.InterruptFails: {"X"}} {
		w := newWorld(t, plan(task("t", command("s", "torn X", capturing("V"), checking("has X"), onInterrupt(session.InterruptReruns)))))
		w.happened = true
		for _, said := range []session.OnInterrupt{"", session.InterruptDone} {
			p := w.process()
			p.policy.Uncertain = said
			res := p.must()
			wantResult(t, res, session.Paused, session.ReasonUncertain, session.ErrUncertain)
			if len(w.ledger) != 1 {
				t.Fatalf("--uncertain=%q: got %+v, ledger %q", said, res, w.ledger)
			}
		}
		p := w.process()
		p.policy.Uncertain = answer
		res := p.must()
		if d := cmp.Diff(want, w.ledger); d != "" {
			t.Errorf("--uncertain=%s: got %+v, ledger (-want +got):\n%s", answer, res, d)
		}
	}
}

// E5: a command that ended by a signal of another sender may have done its work, also if
// a shell reports the signal as a status. Its check decides, then its policy, then a
// person. A crash of its own is a failed step.
func TestEndedByASignal(t *testing.T) {
	for shell, by := range map[string]string{
		"signal SIGTERM": "SIGTERM", "signal SIGINT": "SIGINT", "signal SIGHUP": "SIGHUP", "signal SIGQUIT": "SIGQUIT", "signal SIGKILL": "SIGKILL",
		"exit 129": "SIGHUP (status 129)", "exit 130": "SIGINT (status 130)", "exit 131": "SIGQUIT (status 131)", "exit 137": "SIGKILL (status 137)", "exit 143": "SIGTERM (status 143)",
	} {
		t.Run(shell, func(t *testing.T) {
			for policy, code := range map[session.OnFailure]session.Code{session.FailurePauses: session.ErrUncertain, session.FailureFails: session.ErrUncertain} {
				w := newWorld(t, plan(task("t", command("s", shell))))
				w.plan.OnFailure = policy
				res := w.process().must()
				wantResult(t, res, session.Paused, session.ReasonUncertain, code)
				if !strings.Contains(res.Message, "it was ended by "+by+", which acode did not send") {
					t.Errorf("Execute: got %q", res.Message)
				}
			}
			w := newWorld(t, plan(task("t", command("s", shell, checking("exit 0"), onInterrupt(session.InterruptReruns)))))
			wantResult(t, w.process().must(), session.Completed, "", "")
			if n := w.count("effect t/s/main"); n != 1 {
				t.Errorf("the command was started %d times although its check says that it happened", n)
			}
		})
	}
	for _, shell := range []string{"signal SIGSEGV", "signal SIGABRT", "signal SIGPIPE", "exit 139"} {
		w := newWorld(t, plan(task("t", command("s", shell, checking("exit 0")))))
		wantResult(t, w.process().must(), session.Paused, session.ReasonTaskFailed, session.ErrCommand)
	}
}

// The output of a command whose outcome is unknown stays readable after any decision.
func TestOutputOfAnUnknownCommand(t *testing.T) {
	for _, verdict := range []session.OnInterrupt{session.InterruptDone, session.InterruptFails, session.InterruptReruns} {
		w := newWorld(t, plan(task("t", command("s", "torn X"))))
		w.happened = true
		p := w.process()
		p.person.uncertain = says(verdict)
		p.must()
		doubt := payload[session.StepUnknownData](w, session.StepUnknown)
		if doubt.Command == nil || doubt.Command.Stdout.Text != "X\n" {
			t.Errorf("%s: the unknown outcome keeps %+v, want what the command wrote", verdict, doubt.Command)
		}
		var kept *session.CommandResult
		switch verdict {
		case session.InterruptDone:
			kept = payload[session.StepCompletedData](w, session.StepCompleted).Command
		case session.InterruptFails:
			kept = payload[session.StepFailedData](w, session.StepFailedEvent).Command
		default:
			if after := payload[session.StepStartedData](w, session.StepStarted).After; w.events[after-1].Type != session.StepUnknown {
				t.Errorf("the next attempt names seq %d as the doubt before it, which is %s", after, w.events[after-1].Type)
			}
			continue
		}
		if d := cmp.Diff(doubt.Command, kept); d != "" {
			t.Errorf("%s: the receipt keeps another output (-doubt +receipt):\n%s", verdict, d)
		}
	}
}

// Descendants that outlive a command make its outcome unknown. An impossible record is a
// bug.
func TestOtherRecords(t *testing.T) {
	w := newWorld(t, plan(task("t", command("s", "linger"))))
	wantResult(t, w.process().must(), session.Paused, session.ReasonUncertain, session.ErrUncertain)
	w = newWorld(t, plan(task("t", command("s", "running"))))
	if _, _, err := w.process().run(); !errors.Is(err, session.ErrInternal) {
		t.Errorf("Execute: got %v, want ErrInternal", err)
	}
}

// E5: a command in progress whose record is lost, like those of others, does not start
// again.
func TestRecordsLost(t *testing.T) {
	w := newWorld(t, plan(task("t", command("a", "ledger a"), command("b", "ledger b"))))
	w.crashIn, w.crashNth = "claimed", 2
	if _, crashed, err := w.process().run(); !crashed || err != nil {
		t.Fatalf("crash: got %v, %v", crashed, err)
	}
	clear(w.recs)
	wantResult(t, w.process().must(), session.Paused, session.ReasonUncertain, session.ErrUncertain)
	w.ledgered("a", "b")
	p := w.process()
	p.policy.Uncertain = session.InterruptDone
	wantResult(t, p.must(), session.Completed, "", "")
	w.ledgered("a", "b")
}

// An error of a question or check ends the process with that error.
func TestUncertainErrors(t *testing.T) {
	w := newWorld(t, plan(task("t", command("s", "torn X"))))
	p := w.process()
	p.person.uncertain = func(context.Context, string) (session.OnInterrupt, error) { return "", errStore }
	if _, _, err := p.run(); !errors.Is(err, errStore) {
		t.Errorf("Execute: got %v, want the error of the question", err)
	}
	for _, port := range []string{"fence", "run", "forget"} {
		w := newWorld(t, plan(task("t", command("s", "torn X", checking("has X")))))
		w.during = func(w *world, shell string) {
			if port == "forget" || shell != "torn X" {
				w.fails["forget"] = errStore
			} else {
				w.fails[port] = errStore
			}
		}
		if _, _, err := w.process().run(); !errors.Is(err, errStore) {
			t.Errorf("Execute with a failing %s: got %v", port, err)
		}
	}
	w = newWorld(t, plan(task("t", command("s", "torn X", checking("env V"))), task("u", command("v", "echo x"))))
	w.fails["stat"] = errStore
	p = w.process()
	p.policy = engine.Policy{Uncertain: session.InterruptDone}
	w.sess.Files["f"] = &session.FileState{Path: "f"}
	if _, _, err := p.run(); !errors.Is(err, errStore) {
		t.Errorf("Execute with a failing stat: got %v", err)
	}
}

// lost returns when the last outcome was found to be unknown.
func lost(w *world) int64 {
	for _, e := range slices.Backward(w.events) {
		if e.Type == session.StepUnknown {
			return e.TimeUS
		}
	}
	return 0
}

// A person who waits for a command whose supervisor was killed is told so at once, and
// once, with the later decision about its outcome.
func TestSupervisorGone(t *testing.T) {
	for _, c := range []struct {
		name string
		with []func(*session.Run)
		// the operation that continues
		what  string
		wants string
	}{
		{"nothing", nil, "command", "a person must decide"},
		{"ask", []func(*session.Run){onInterrupt(session.InterruptAsks)}, "command", "a person must decide"},
		{"policy", []func(*session.Run){onInterrupt(session.InterruptDone)}, "command", "on_interrupt says done"},
		{"check", []func(*session.Run){checking("exit 0")}, "command", "its check decides; if the check cannot, a person must decide"},
		{"check_hangs", []func(*session.Run){checking("hang"), onInterrupt(session.InterruptDone)}, "check", "on_interrupt says done"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shell := map[string]string{"command": "hang", "check": "unknown"}[c.what]
				w := newWorld(t, plan(task("t", command("s", shell, c.with...))))
				time.AfterFunc(time.Second, func() {
					w.amend(w.lastKey, func(rec *session.CommandRecord) { rec.State = session.CommandUnattended })
				})
				time.AfterFunc(3*time.Second, func() {
					w.amend(w.lastKey, func(rec *session.CommandRecord) {
						rec.State, rec.Why = session.CommandUnknown, "its supervisor was killed"
					})
					close(supervisor{w}.end(w.lastKey))
				})
				w.process().must()
				said := "notice warning t/s the supervisor of the " + c.what + " of t/s is gone; the " + c.what +
					" runs on without a timeout, and no one will know how it ends: then " + c.wants
				w.inOrder("notice started t/s", said)
				if n := w.count("notice warning"); n != 1 {
					t.Errorf("it was said %d times", n)
				}
			})
		})
	}
}
