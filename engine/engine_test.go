package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/session"
)

func everyKind() *session.Plan {
	return plan(
		task("prepare",
			read("look", "in.txt"),
			session.Step{ID: "find", Kind: session.KindSearch, Search: &session.Search{Pattern: "TODO", Path: "."}},
			write("note", "notes.txt", "hello\n"),
			session.Step{ID: "fix", Kind: session.KindEdit, Changes: []session.Change{{Op: session.KindEdit, Path: "notes.txt", Old: "hello", New: "goodbye"}}},
			session.Step{ID: "both", Kind: session.KindChanges, Changes: []session.Change{
				{Op: session.KindWrite, Path: "a", Content: "x"}, {Op: session.KindDelete, Path: "b"}, {Op: session.KindMove, From: "c", To: "d"}}},
		),
		after(task("build", command("make", "ledger made"), gate("gate"), command("ship", "ledger shipped")), "prepare"),
	)
}

func everyWorld(t tester) *world {
	w := newWorld(t, everyKind())
	w.files = map[string]string{"in.txt": "TODO it\n", "b": "old b", "c": "old c"}
	return w
}

// FR-014, FR-017, FR-029, FR-059, E1 to E4: each step of every kind has an intent, an
// effect and a receipt. A receipt shares its commit with the next intent.
func TestExecuteEveryKind(t *testing.T) {
	w := everyWorld(t)
	p := w.process()
	p.person = yes()
	res := p.must()
	wantResult(t, res, session.Completed, "", "")
	if res.Done != 8 || res.Left != 0 || !res.Next.IsZero() || res.Short != "abc123" {
		t.Errorf("Execute: got %+v, want 8 done, 0 left, nothing next", res)
	}
	want := map[string]string{"in.txt": "TODO it\n", "notes.txt": "goodbye\n", "a": "x", "d": "old c"}
	if d := cmp.Diff(want, w.files); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"made", "shipped"}, w.ledger); d != "" {
		t.Errorf("ledger (-want +got):\n%s", d)
	}
	w.inOrder(
		"commit acquired + planning + executing + started prepare/look/main:1", "notice started prepare/look",
		"commit completed prepare/look/main:1 + started prepare/find/main:1", "notice completed prepare/look",
		"commit completed prepare/find/main:1 + started prepare/note/main:1", "fence", "effect prepare/note/main:1",
		"stage 6 bytes", // the pre-image is small, so the receipt before waits for it
		"commit completed prepare/note/main:1 + started prepare/fix/main:1", "effect prepare/fix/main:1",
		"stage 5 bytes", "commit completed prepare/fix/main:1 + started prepare/both/main:1",
		"commit completed prepare/both/main:1 + started build/make/main:1", "fence", "effect build/make/main:1",
		"commit completed build/make/main:1 + asked build/gate + awaiting_approval approval", "forget build/make/main:1", "notice asking build/gate",
		"commit granted build/gate + executing + started build/gate/main:1 + completed build/gate/main:1 + started build/ship/main:1",
		"notice completed build/gate", "effect build/ship/main:1",
		"commit completed build/ship/main:1 + completed", "notice completed build/ship",
	)
	if n := w.count("stage"); n != 3 {
		t.Errorf("Stage: %d images kept, want 3: two from before and what an edit made; a moved file keeps its content, and the plan holds what it writes", n)
	}
	started := payload[session.StepStartedData](w, session.StepStarted)
	if started.Key != "v1:"+string(sessionID)+":build/ship/main:1" {
		t.Errorf("key: got %s", started.Key)
	}
	if st := w.sess.Files["a"]; st == nil || !st.Wrote {
		t.Errorf("files: %v is not known as written", st)
	}
	if !strings.Contains(p.log.String(), `"event":"session_stopped"`) {
		t.Errorf("log: the end is not in %s", p.log.String())
	}
}

// FR-030 to FR-033, NFR-005 to NFR-010: a session killed at any call to a port ends like
// an undisturbed one, with each effect once. Only a command that was killed with its
// supervisor is uncertain (E5).
func TestCrashAtEveryCall(t *testing.T) {
	calm := everyWorld(t)
	p := calm.process()
	p.person = yes()
	p.must()
	for _, c := range []struct {
		name               string
		killsToo, happened bool
		uncertain          int
	}{{"acode_alone", false, false, 0}, {"before_its_effect", true, false, 2}, {"after_its_effect", true, true, 2}} {
		t.Run(c.name, func(t *testing.T) {
			uncertain := 0
			for k := 1; k <= calm.calls; k++ {
				w := everyWorld(t)
				w.crashAt, w.killsToo, w.happened = k, c.killsToo, c.happened
				p := w.process()
				p.person = yes()
				if _, crashed, err := p.run(); !crashed || err != nil {
					t.Fatalf("call %d: crashed %v, %v", k, crashed, err)
				}
				if w.sess.State == session.Completed {
					continue // the last commit took place
				}
				p = w.process()
				p.person, p.policy.Uncertain = yes(), w.truth()
				wantResult(t, p.must(), session.Completed, "", "")
				w.holds(calm.files)
				w.ledgered(calm.ledger...)
				uncertain += w.count("commit unknown")
			}
			if uncertain != c.uncertain {
				t.Errorf("uncertain after %d of %d kills, want %d", uncertain, calm.calls, c.uncertain)
			}
		})
	}
}

// E4: a receipt does not wait for a large pre-image.
func TestReceiptDoesNotWaitForALargePreImage(t *testing.T) {
	w := newWorld(t, plan(task("t", command("a", "ledger a"), write("big", "big", "small now"))))
	w.files["big"] = strings.Repeat("x", 64<<10+1)
	wantResult(t, w.process().must(), session.Completed, "", "")
	w.inOrder("commit completed t/a/main:1", "notice completed t/a", "prepare", "stage 65537 bytes", "commit started t/big/main:1", "effect t/big/main:1")
}

// E4: a receipt does not wait for the hashing of a large file that is only moved.
func TestReceiptDoesNotWaitForALargeMove(t *testing.T) {
	w := newWorld(t, plan(task("t", command("a", "ledger a"), session.Step{ID: "big", Kind: session.KindMove,
		Changes: []session.Change{{Op: session.KindMove, From: "big", To: "moved"}}})))
	w.files["big"] = strings.Repeat("x", 64<<10+1)
	wantResult(t, w.process().must(), session.Completed, "", "")
	w.inOrder("commit completed t/a/main:1", "prepare", "commit started t/big/main:1", "effect t/big/main:1")
}

// The code is a timeout only if the timeout alone prevents the session from being
// completed.
func TestTimeoutAmongOtherFailures(t *testing.T) {
	for name, c := range map[string]struct {
		second string
		code   session.Code
	}{"alone": {"ledger b", session.ErrTimeout}, "with_another": {"exit 3", session.ErrCommand}} {
		t.Run(name, func(t *testing.T) {
			p := plan(task("s", command("slow", "slow")), task("t", command("b", c.second)))
			p.OnFailure = session.FailureContinues
			w := newWorld(t, p)
			wantResult(t, w.process().must(), session.Paused, session.ReasonTaskFailed, c.code)
		})
	}
}

// E1, E3, FR-055: a fenced process has no further effect and shows no receipt.
func TestFencedBeforeAnEffect(t *testing.T) {
	for _, c := range []struct {
		name string
		step session.Step
	}{{"file", write("b", "b", "new")}, {"command", command("b", "ledger b")}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, plan(task("t", c.step)))
			w.fails["fence"] = session.ErrFenced
			_, _, err := w.process().run()
			if !errors.Is(err, session.ErrFenced) {
				t.Fatalf("Execute: got %v, want ErrFenced", err)
			}
			w.lawful()
			if w.count("effect") != 0 || len(w.files) != 0 || len(w.ledger) != 0 {
				t.Errorf("a fenced process had an effect:\n%s", strings.Join(w.trace, "\n"))
			}
		})
	}
}

// E2: a receipt whose commit failed is not shown, and nothing follows.
func TestReceiptThatIsNotDurableIsNotShown(t *testing.T) {
	w := newWorld(t, plan(task("t", command("a", "ledger a"), command("b", "ledger b"))))
	p := w.process()
	w.during = func(w *world, _ string) { w.fails["append"] = errStore }
	if _, _, err := p.run(); !errors.Is(err, errStore) {
		t.Fatalf("Execute: got %v, want the store's error", err)
	}
	if w.count("notice completed") != 0 || w.count("forget") != 0 || w.count("effect") != 1 {
		t.Errorf("after a failed commit:\n%s", strings.Join(w.trace, "\n"))
	}
	w.during = nil
	w.replay()
	wantResult(t, w.process().must(), session.Completed, "", "")
	if d := cmp.Diff([]string{"a", "b"}, w.ledger); d != "" {
		t.Errorf("ledger (-want +got):\n%s", d)
	}
}

// on_failure decides after a failed step. FR-065: resume runs it again as a new attempt.
func TestOnFailure(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy session.OnFailure
		force  bool
		state  session.State
		reason session.Reason
		ledger []string
	}{
		{"pause", session.FailurePauses, false, session.Paused, session.ReasonTaskFailed, nil},
		{"fail", session.FailureFails, false, session.Failed, session.ReasonTaskFailed, nil},
		{"continue", session.FailureContinues, false, session.Paused, session.ReasonTaskFailed, []string{"free"}},
		{"continue_forced", session.FailureContinues, true, session.Paused, session.ReasonTaskFailed, []string{"needs", "deeper", "free"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, &session.Plan{Version: 1, Task: "x", OnFailure: c.policy, Tasks: []session.Task{
				task("bad", command("boom", "exit 3"), command("next", "ledger next")),
				after(task("needs", command("n", "ledger needs")), "bad"),
				after(task("deeper", command("d", "ledger deeper")), "needs"),
				task("free", command("f", "ledger free")),
			}})
			p := w.process()
			p.policy.Force = c.force
			res := p.must()
			wantResult(t, res, c.state, c.reason, session.ErrCommand)
			if d := cmp.Diff(c.ledger, w.ledger); d != "" {
				t.Errorf("ledger (-want +got):\n%s", d)
			}
			if !strings.Contains(res.Message, "bad/boom") || !strings.Contains(res.Message, "status 3") {
				t.Errorf("message: got %q", res.Message)
			}
			if c.state != session.Paused {
				return
			}
			w.plan.Tasks[0].Steps[0].Run.Shell = "ledger mended"
			wantResult(t, w.process().must(), session.Completed, "", "")
			w.inOrder("commit failed bad/boom/main:1", "effect bad/boom/main:2")
		})
	}
}

// A failed step that ends the session does so at whichever point acode is killed. No
// resume tries that step again.
func TestKilledWhileAFailureEndsTheSession(t *testing.T) {
	kills := 0
	for crashed := true; crashed; kills++ {
		w := newWorld(t, plan(task("t", command("first", "ledger first"), command("boom", "exit 3"))))
		w.plan.OnFailure = session.FailureFails
		w.crashAt = kills + 1
		if _, crashed, _ = w.process().run(); crashed && w.sess.State != session.Failed {
			wantResult(t, w.process().must(), session.Failed, session.ReasonTaskFailed, session.ErrCommand)
		}
		if st := w.sess.Steps[id("t", "boom")]; w.sess.State != session.Failed || st.Attempt != 1 {
			t.Errorf("killed in call %d: %s after attempt %d", kills+1, w.sess.State, st.Attempt)
		}
	}
	if kills < 10 {
		t.Errorf("only %d kills", kills)
	}
}

// FR-043: after on_failure continue, the result always names the first failure in order
// of execution.
func TestEndingNamesTheFirstFailure(t *testing.T) {
	for range 20 {
		w := newWorld(t, &session.Plan{Version: 1, Task: "x", OnFailure: session.FailureContinues, Tasks: []session.Task{
			task("a", command("s", "slow")), task("b", command("s", "exit 1")), task("c", command("s", "exit 2"))}})
		res := w.process().must()
		if !strings.HasPrefix(res.Message, "a/s: ") {
			t.Fatalf("message: got %q, want the first failed step", res.Message)
		}
	}
}

// Each ✓ shows the duration of its step, from the times of its receipt.
func TestCompletedNoticesTellTheTime(t *testing.T) {
	w := everyWorld(t)
	p := w.process()
	p.person = yes()
	p.must()
	told := 0
	for _, n := range p.shown {
		if n.Kind != session.NoticeCompleted {
			continue
		}
		told++
		st := w.sess.Steps[n.Item.ID]
		if want := time.Duration(st.EndedUS-st.StartedUS) * time.Microsecond; n.Took != want || want <= 0 {
			t.Errorf("%s: told %s, its receipt says %s", n.Item.ID, n.Took, want)
		}
	}
	if told != 8 {
		t.Errorf("%d steps were told, want 8", told)
	}
}

// Processes that a command leaves running are listed after its ✓. Without any there is no
// list.
func TestLeftRunning(t *testing.T) {
	for shell, want := range map[string][]string{"leaves": {"77 sleep [redacted]"}, "ledger x": nil} {
		w := newWorld(t, plan(task("t", command("s", shell))))
		p := w.process()
		wantResult(t, p.must(), session.Completed, "", "")
		var got []string
		for _, n := range p.shown {
			if n.Kind == session.NoticeInfo {
				got = append(got, n.Detail...)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: left (-want +got):\n%s", shell, d)
		}
	}
}

// The path of the workspace leads to another directory between two steps. Finished work
// is recorded, and the next step does nothing.
func TestWorkspaceReplaced(t *testing.T) {
	w := newWorld(t, plan(task("t", command("a", "ledger a"), write("b", "f", "b"))))
	p := w.process()
	w.fault, w.nth = &session.Error{Code: session.ErrEnvironment, Message: "moved"}, map[string]int{"in place": 2}
	wantResult(t, p.must(), session.Paused, session.ReasonEnvironment, session.ErrEnvironment)
	if w.count("effect") != 1 || w.Session().Done != 1 {
		t.Errorf("Execute: %d effects, %d steps done, want 1 of each", w.count("effect"), w.Session().Done)
	}
	wantResult(t, w.process().must(), session.Completed, "", "")
	w.inOrder("effect t/a/main:1", "commit completed t/a/main:1 + paused environment", "effect t/b/main:1")
}

// If the files cannot be checked after a command, no step has failed, and the next resume
// takes the result.
func TestFilesThatCannotBeLookedAt(t *testing.T) {
	w := newWorld(t, plan(task("t", write("w", "f", "x"), command("c", "ledger once"))))
	w.fails["stat"] = &session.Error{Code: session.ErrFileStep, Message: "reading failed"}
	wantResult(t, w.process().must(), session.Paused, session.ReasonEnvironment, session.ErrEnvironment)
	wantResult(t, w.process().must(), session.Completed, "", "")
	if d := cmp.Diff([]string{"once"}, w.ledger); d != "" {
		t.Errorf("ledger (-want +got):\n%s", d)
	}
}

// If the clock is set back while a command runs, its duration is not negative.
func TestClockSetBackDuringACommand(t *testing.T) {
	w := newWorld(t, plan(task("t", command("s", "back"))))
	wantResult(t, w.process().must(), session.Completed, "", "")
	if took := payload[session.StepCompletedData](w, session.StepCompleted).Command.DurationUS; took != 0 {
		t.Errorf("duration: got %d us, want 0", took)
	}
}

// The receipt of a command that outlived its starting process has the time when the
// command ended. Any other receipt has its own time.
func TestReceiptOfAttached(t *testing.T) {
	for crash, want := range map[string]int64{"claimed": 30, "": 0} {
		w := newWorld(t, plan(task("t", command("s", "x"))))
		w.crashIn, w.crashNth = crash, 1
		if crash != "" {
			if _, crashed, err := w.process().run(); !crashed || err != nil {
				t.Fatalf("run: crashed %v, %v", crashed, err)
			}
		}
		wantResult(t, w.process().must(), session.Completed, "", "")
		if got := payload[session.StepCompletedData](w, session.StepCompleted).EndedUS; got != want {
			t.Errorf("killed in %q: got an end at %d us, want %d", crash, got, want)
		}
	}
}

// A step fails in each case with its own code and message in the receipt.
func TestFailedSteps(t *testing.T) {
	for _, c := range []struct {
		name, want string
		step       session.Step
		code       session.Code
	}{
		{"exit", "exited with status 3", command("s", "exit 3"), session.ErrCommand},
		{"signal", "crashed with SIGSEGV", command("s", "signal SIGSEGV"), session.ErrCommand},
		{"timeout", "exceeded its timeout of 0s and was ended", command("s", "slow"), session.ErrTimeout},
		{"timeout_of_another_user", "of 0s and could not be ended: 77 sudo runs with another user's rights", command("s", "beyond"), session.ErrTimeout},
		{"start", "could not be started: /bin/sh: no such file", command("s", "unstartable"), session.ErrCommand},
		{"refused", "dir leaves", command("s", "refuse"), session.ErrEscape},
		{"capture_long", "longer than 64 KiB", command("s", "repeat 65537 x", capturing("V")), session.ErrCommand},
		{"capture_endless", "longer than 64 KiB", command("s", "spaces", capturing("V")), session.ErrCommand},
		{"capture_binary", "is not text", command("s", `raw "a\x00b"`, capturing("V")), session.ErrCommand},
		{"capture_utf8", "is not text", command("s", `raw "\xff"`, capturing("V")), session.ErrCommand},
		{"read", "no file nowhere", read("s", "nowhere"), session.ErrFileStep},
		{"edit", "no single match", session.Step{ID: "s", Kind: session.KindEdit, Changes: []session.Change{{Op: session.KindEdit, Path: "f", Old: "a"}}}, session.ErrFileStep},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, plan(task("t", c.step)))
			p := w.process()
			res := p.must()
			wantResult(t, res, session.Paused, session.ReasonTaskFailed, c.code)
			d := payload[session.StepFailedData](w, session.StepFailedEvent)
			if d.Code != c.code || !strings.Contains(d.Message, c.want) || d.Attempt != 1 {
				t.Errorf("receipt: got %+v, want code %s and %q", d, c.code, c.want)
			}
			if res.Next.String() != "[resume abc123]" {
				t.Errorf("next: got %q", res.Next)
			}
			if !strings.Contains(p.log.String(), `"event":"step_failed"`) {
				t.Errorf("log: the failure is not in %s", p.log.String())
			}
			w.inOrder("commit failed t/s/main:1", "notice failed t/s")
		})
	}
}

// If a limit prevents the start of a command, the plan is not at fault. The session stays
// resumable with any policy, and the next resume tries again.
func TestStarvedCommand(t *testing.T) {
	for _, policy := range []session.OnFailure{session.FailurePauses, session.FailureFails, session.FailureContinues} {
		w := newWorld(t, plan(task("t", command("a", "starve")), task("u", command("b", "ledger X"))))
		w.plan.OnFailure = policy
		res := w.process().must()
		wantResult(t, res, session.Paused, session.ReasonEnvironment, session.ErrInternal)
		if !strings.Contains(res.Message, "try again; the machine gives acode no more") || res.Next.String() != "[resume abc123]" || len(w.ledger) > 0 {
			t.Errorf("%s: got %+v, ledger %q", policy, res, w.ledger)
		}
		w.plan.Tasks[0].Steps[0] = command("a", "ledger Y")
		wantResult(t, w.process().must(), session.Completed, "", "")
		if d := cmp.Diff([]string{"Y", "X"}, w.ledger); d != "" {
			t.Errorf("%s: ledger (-want +got):\n%s", policy, d)
		}
		w.inOrder("effect t/a/main:1", "commit failed t/a/main:1", "effect t/a/main:2")
	}
}

// Captures reach the environment of later commands and the contents of later files. The
// step's own environment takes precedence.
func TestCaptures(t *testing.T) {
	w := newWorld(t, plan(
		task("a", command("v", "echo 1.2.3", capturing("VERSION")), command("again", "env VERSION")),
		after(task("b",
			write("f", "f", "v${VERSION} $${VERSION} ${OTHER}"),
			session.Step{ID: "e", Kind: session.KindEdit, Changes: []session.Change{{Op: session.KindEdit, Path: "f", Old: "v1", New: "w${VERSION}-"}}},
			command("own", "env VERSION", func(r *session.Run) { r.Env = map[string]string{"VERSION": "mine", "A": "1"} }),
			command("base", "env BASE"),
		), "a"),
		task("c", command("blind", "env VERSION")),
	))
	p := w.process()
	p.environ = []string{"BASE=base", "VERSION=outer"}
	wantResult(t, p.must(), session.Completed, "", "")
	if got, want := w.files["f"], "w1.2.3-.2.3 ${VERSION} ${OTHER}"; got != want {
		t.Errorf("content: got %q, want %q", got, want)
	}
	if d := cmp.Diff([]string{"1.2.3", "mine", "base", "outer"}, w.ledger); d != "" {
		t.Errorf("environment (-want +got):\n%s", d)
	}
}

// A step sees an earlier capture, not that of a later step with the same name.
func TestCaptureTakenTwice(t *testing.T) {
	w := newWorld(t, plan(task("t", command("one", "echo 1", capturing("V")), write("first", "first", "${V}"),
		command("two", "echo 2", capturing("V")), write("second", "second", "${V}"))))
	wantResult(t, w.process().must(), session.Completed, "", "")
	w.holds(map[string]string{"first": "1", "second": "2"})
}

// A step right after a capture sees it, although its receipt is not durable yet.
func TestCaptureOfAPendingReceipt(t *testing.T) {
	w := newWorld(t, plan(task("t", command("v", "echo x", capturing("V")), write("use", "f", "${V}"))))
	wantResult(t, w.process().must(), session.Completed, "", "")
	if w.files["f"] != "x" {
		t.Errorf("content: got %q, want the captured value", w.files["f"])
	}
	w.inOrder("commit completed t/v/main:1 + started t/use/main:1")
}

// A capture that redaction does not change may be in the journal itself.
func TestCaptureByValue(t *testing.T) {
	w := newWorld(t, plan(task("t", command("v", "echo x", capturing("V")), command("use", "env V"))))
	p := w.process()
	w.refuses["open"] = session.ErrKey // no blob is needed
	p.between = func() {
		w.sess.Steps[id("t", "v")] = &session.StepState{StepID: id("t", "v"), Status: session.StepDone, Attempt: 1, Capture: &session.Capture{Name: "V", Value: "plain"}}
		p.next.Items[0].Action = session.ActionSkip
	}
	wantResult(t, p.must(), session.Completed, "", "")
	if d := cmp.Diff([]string{"plain"}, w.ledger); d != "" {
		t.Errorf("environment (-want +got):\n%s", d)
	}
}

// The environment of a command always has the same order: inherited, captures, its own.
func TestEnvironmentOrder(t *testing.T) {
	for range 10 {
		w := newWorld(t, plan(task("t", command("v", "echo 1", capturing("CB")), command("w", "echo 2", capturing("CA")), command("x", "exit 0", func(r *session.Run) {
			r.Env = map[string]string{"C": "5", "A": "3", "B": "4"}
		}))))
		p := w.process()
		p.environ = []string{"Z=0", "Y=0"}
		p.must()
		if d := cmp.Diff([]string{"Z=0", "Y=0", "CA=2", "CB=1", "A=3", "B=4", "C=5"}, w.lastEnv); d != "" {
			t.Fatalf("environment (-want +got):\n%s", d)
		}
	}
}

// A problem that a person can fix in the workspace is a failure of the step, recorded
// with its code.
func TestFileFailures(t *testing.T) {
	for code, want := range map[session.Code]session.Code{
		session.ErrReadOnly: session.ErrReadOnly, session.ErrEscape: session.ErrEscape, "": session.ErrFileStep,
	} {
		w := newWorld(t, plan(task("t", write("s", "f", "x"))))
		w.fails["apply"] = errStore
		if code != "" {
			w.fails["apply"] = fmt.Errorf("apply: %w", code)
		}
		wantResult(t, w.process().must(), session.Paused, session.ReasonTaskFailed, want)
		if d := payload[session.StepFailedData](w, session.StepFailedEvent); d.Code != want {
			t.Errorf("receipt: got %s, want %s", d.Code, want)
		}
	}
}

// A capture whose blob is damaged stops the session with an error of the store.
func TestCaptureLost(t *testing.T) {
	for _, use := range []session.Step{command("use", "env V"), write("use", "f", "${V}")} {
		w := newWorld(t, plan(task("t", command("v", "echo x", capturing("V")), use)))
		w.refuses["open"] = session.ErrKey
		_, _, err := w.process().run()
		if !errors.Is(err, session.ErrKey) || !strings.Contains(err.Error(), "t/v") {
			t.Errorf("Execute %s: got %v, want ErrKey and who captured it\n%s", use.Kind, err, strings.Join(w.trace, "\n"))
		}
	}
}

// NFR-013: shown and stored outputs are redacted. Long outputs keep their ends.
func TestOutputs(t *testing.T) {
	w := newWorld(t, plan(task("t",
		command("secret", "echo hunter2"), command("long", "repeat 300000 y"), command("longer", "repeat 900000 y"), command("mid", "repeat 5000 z"), command("edge", "repeat 131072 w"), command("two", "repeat 262144 v"))))
	p := w.process()
	wantResult(t, p.must(), session.Completed, "", "")
	type kept struct {
		text, blob string
		bytes      int64
		cut        bool
	}
	var got []kept
	for _, e := range w.events {
		if e.Type == session.StepCompleted {
			var d session.StepCompletedData
			if err := e.Decode(&d); err != nil {
				t.Fatal(err)
			}
			o := d.Command.Stdout
			got = append(got, kept{o.Text, w.blobs[o.Blob.Hash], o.Bytes, o.Cut})
			if whole := w.blobs[o.Whole.Hash]; o.Cut != (int64(len(whole)) == o.Bytes) {
				t.Errorf("%s: %d of %d bytes are kept whole, cut %v", d.StepID, len(whole), o.Bytes, o.Cut)
			}
		}
	}
	half := strings.Repeat("y", 128<<10)
	want := []kept{
		{"[redacted]\n", "", 8, false},
		{"", half + "\n[acode: the middle was left out]\n" + half, 300000, true},
		{"", half + "\n[acode: the middle was left out]\n" + half, 900000, true},
		{"", strings.Repeat("z", 5000), 5000, false},
		{"", strings.Repeat("w", 131072), 131072, false},
		{"", strings.Repeat("v", 262144), 262144, false},
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(kept{})); d != "" {
		t.Errorf("outputs (-want +got):\n%s", d)
	}
}

// NFR-013: no part of a secret at the cut stays.
func TestCutSecret(t *testing.T) {
	const half = 128 << 10
	for _, total := range []int{300_000, 2*half + 3, 900_000} {
		for _, at := range []int{half - 3, total - half - 4, total - half - 1, half + 1} {
			w := newWorld(t, plan(task("t", command("s", "secret"))))
			w.secret = strings.Repeat("x", at) + "hunter2" + strings.Repeat("x", total-at-7)
			wantResult(t, w.process().must(), session.Completed, "", "")
			o := payload[session.StepCompletedData](w, session.StepCompleted).Command.Stdout
			kept := strings.NewReplacer("[acode: the middle was left out]", "", "[redacted]", "", "x", "", "\n", "").Replace(w.blobs[o.Blob.Hash])
			if strings.ContainsAny(kept, "hun2") || o.Bytes != int64(total) || !o.Cut {
				t.Errorf("secret at %d of %d: %q is kept of it, %d bytes, cut %v", at, total, kept, o.Bytes, o.Cut)
			}
			if whole := w.blobs[o.Whole.Hash]; len(whole) < total || strings.Contains(whole, "hunter2") {
				t.Errorf("secret at %d of %d: %d bytes are kept whole, with it: %v", at, total, len(whole), strings.Contains(whole, "hunter2"))
			}
			if n := o.Blob.Bytes; n > 2*half+100 || n < 2*half-100 {
				t.Errorf("secret at %d of %d: %d bytes are kept", at, total, n)
			}
		}
	}
}

// A secret that is not valid text is found before its output is made valid. The bytes
// after it matter too.
func TestSecretThatIsNoText(t *testing.T) {
	w := newWorld(t, plan(task("t", command("s", "secret"))))
	w.secret = "a" + bytesSecret + "\x80b"
	wantResult(t, w.process().must(), session.Completed, "", "")
	if got := payload[session.StepCompletedData](w, session.StepCompleted).Command.Stdout.Text; got != "a[redacted]\ufffdb" {
		t.Errorf("output: got %q", got)
	}
}

// NFR-013: the same for a secret as long as a file of credentials.
func TestCutLongSecret(t *testing.T) {
	const half, total = 128 << 10, 900_000
	for _, at := range []int{half - 6_000, half - 11_000, total - half - 6_000, total - half - 1_000} {
		w := newWorld(t, plan(task("t", command("s", "secret"))))
		w.secret = strings.Repeat("x", at) + longSecret + strings.Repeat("x", total-at-len(longSecret))
		wantResult(t, w.process().must(), session.Completed, "", "")
		kept := w.blobs[payload[session.StepCompletedData](w, session.StepCompleted).Command.Stdout.Blob.Hash]
		if strings.Contains(kept, "s3cr3t") {
			t.Errorf("secret at %d: a part of it is kept", at)
		}
		if len(kept) < half {
			t.Errorf("secret at %d: %d bytes are kept", at, len(kept))
		}
	}
}

// Changes of a command to the session's own files are in its receipt (FR-045).
func TestCommandChangesFilesOfTheSession(t *testing.T) {
	w := newWorld(t, plan(task("t", write("w", "f", "one"), write("v", "e", "one"), command("c", "write f two"), command("d", "write g three"))))
	wantResult(t, w.process().must(), session.Completed, "", "")
	if got := w.sess.Files["f"]; got.Hash != hash("two") || !got.Wrote {
		t.Errorf("f: got %+v, want the hash after the command, still written by the session", got)
	}
	var told [][]string
	for _, e := range w.events {
		var d session.StepCompletedData
		if e.Type == session.StepCompleted && e.Decode(&d) == nil && d.Command != nil {
			paths := []string{}
			for _, f := range d.Files {
				paths = append(paths, f.Path)
			}
			told = append(told, paths)
		}
	}
	if d := cmp.Diff([][]string{{"f"}, {}}, told); d != "" {
		t.Errorf("files in the receipts of the commands (-want +got):\n%s", d)
	}
	if w.sess.Files["g"] != nil {
		t.Errorf("g: a file that no file step touched is tracked")
	}
}

func yes() person { return person{approve: answer(engine.Answer{Granted: true, By: "anna"})} }

// A captured value may be a secret, so the redactor learns it before anything with it is
// stored or shown.
func TestCapturedIsLearntFirst(t *testing.T) {
	w := newWorld(t, plan(task("t", command("a", "echo hush", capturing("V")))))
	wantResult(t, w.process().must(), session.Completed, "", "")
	first := slices.IndexFunc(w.trace, func(line string) bool { return strings.HasPrefix(line, "stage ") })
	if learnt := slices.Index(w.trace, "captured V"); learnt < 0 || learnt > first {
		t.Errorf("captured at %d, first kept at %d:\n%s", learnt, first, strings.Join(w.trace, "\n"))
	}
}

// A new mode that a command gives a file of the session is in its receipt, so the next
// resume does not ask.
func TestCommandChangesAMode(t *testing.T) {
	w := newWorld(t, plan(task("t", write("w", "f", "text"), command("c", "chmod f"))))
	wantResult(t, w.process().must(), session.Completed, "", "")
	if f := w.sess.Files["f"]; f == nil || f.Mode != 0o755 {
		t.Errorf("files: got %+v, want mode 0755", f)
	}
}
