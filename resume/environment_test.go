package resume_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
)

func modified(path string, asks bool) session.ChangedFile {
	return session.ChangedFile{Path: path, Kind: session.FileModified, New: "n-" + path, Asks: asks}
}

// FR-039, FR-040, FR-042: a good environment is said to be so, line by line.
func TestNothingChanged(t *testing.T) {
	b := paused(t)
	ready, err := b.resume()
	if err != nil || len(ready.Changed) != 0 {
		t.Fatalf("Resume: got %+v, %v", ready.Changed, err)
	}
	want := []string{"Validating environment...", "Working directory exists", "Required files accessible", "Configuration valid", "Environment ready. Resuming..."}
	if d := cmp.Diff(want, b.texts(session.NoticeCheck)); d != "" {
		t.Errorf("checks (-want +got):\n%s", d)
	}
	if w := b.texts(session.NoticeWarning); w != nil {
		t.Errorf("warnings: got %q, want none", w)
	}
	if d := cmp.Diff([]string{"from", "src/*.go", "to", "w.txt"}, b.planned); d != "" {
		t.Errorf("planned paths (-want +got):\n%s", d)
	}
	if len(b.compared) != 2 || b.compared[0].Path != "out" || b.compared[1].Path != "z" {
		t.Errorf("compared: got %v, want the files of the session in order", b.compared)
	}
}

// FR-045: significant changes ask as the policy says; aborting leaves the session alone, and
// going on keeps what is accepted and records who decided.
func TestChangedFiles(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy resume.OnChanges
		goOn   bool
		fails  error
		by     string // empty: refused
		asked  bool
	}{
		{"continue", resume.ChangesContinue, false, nil, "flag", false},
		{"abort", resume.ChangesAbort, true, nil, "", false},
		{"prompt_yes", resume.ChangesPrompt, true, nil, "person", true},
		{"default_yes", "", true, nil, "person", true},
		{"prompt_no", resume.ChangesPrompt, false, nil, "", true},
		{"nobody", resume.ChangesPrompt, true, session.ErrEnvironment, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := paused(t)
			b.changed = []session.ChangedFile{modified("out", true), {Path: "README", Kind: session.FileDeleted}}
			b.r.Options.OnChanges, b.goOn = c.policy, c.goOn
			if c.fails != nil {
				b.fails["person changed"] = c.fails
			}
			ready, err := b.resume()
			if slices.Contains(b.trace, "person changed") != c.asked {
				t.Errorf("asked: %v", b.trace)
			}
			if n := len(b.logged("environment_change")); n != 2 { // NFR-016
				t.Errorf("environment_change: logged %d times, want 2", n)
			}
			if n := len(b.texts(session.NoticeChanged)); n != 2 { // FR-044
				t.Errorf("changed: shown %d times, want 2", n)
			}
			if c.by == "" {
				var e *session.Error
				if !errors.Is(err, session.ErrEnvironment) || !errors.As(err, &e) || !strings.Contains(e.Message, "out (modified)") ||
					!strings.Contains(e.Message, "unchanged") || e.Next != "look at them, then: acode resume abc123 -C /moved --on-changes=<continue|abort>" {
					t.Errorf("Resume: got %v", err)
				}
				if slices.Contains(b.trace, "keep") || ready.Begin != nil || strings.Contains(e.Message, "README") {
					t.Errorf("an aborted resume: %v, %v, %q", b.trace, ready.Begin, e.Message)
				}
				if got := b.logged("session_resume"); len(got) != 1 || got[0]["environment_valid"] != false || got[0]["code"] != string(session.ErrEnvironment) {
					t.Errorf("session_resume: got %v", got) // FR-043
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := session.ChangesAcceptedData{By: c.by, Files: []session.FileState{{Path: "out", Hash: "n-out"}}}
			if len(ready.Begin) != 3 || cmp.Diff(want, ready.Begin[1].Data) != "" {
				t.Errorf("drafts: got %+v, want the acquisition, %+v, the state", ready.Begin, want)
			}
			if d := cmp.Diff([]string{"Continuing with changed files..."}, b.texts(session.NoticeInfo)); d != "" {
				t.Errorf("info (-want +got):\n%s", d)
			}
			for _, d := range ready.Begin {
				b.add(d) // the journal takes them
			}
		})
	}
}

// A session that stopped in order kept the workspace as its commands left it, and each resume keeps it as
// it found it: what is gone or another since then is somebody else's doing, unless a command was not over at
// that time (FR-044, FR-045).
func TestChangedWhilePaused(t *testing.T) {
	pause := session.StateChangedData{From: session.Executing, To: session.Paused, Manifest: "m2"}
	denied := session.StateChangedData{From: session.AwaitingApproval, To: session.Paused}
	again := session.ExecutionAcquiredData{Workspace: "/ws", Manifest: "m2"}
	for name, c := range map[string]struct {
		stop func(b *bench)
		asks bool
	}{
		"command_over": {func(b *bench) {
			b.completed(id("t", "make"))
			b.add(session.Draft{Type: session.StateChanged, Data: pause})
		}, true},
		"denied": {func(b *bench) {
			b.completed(id("t", "make"))
			b.add(session.Draft{Type: session.StateChanged, Data: session.StateChangedData{From: session.Executing, To: session.AwaitingApproval, Manifest: "m2"}})
			b.add(session.Draft{Type: session.StateChanged, Data: denied})
		}, true},
		"asked": {func(b *bench) {
			b.completed(id("t", "make"))
			b.add(session.Draft{Type: session.StateChanged, Data: session.StateChangedData{From: session.Executing, To: session.AwaitingApproval, Manifest: "m2"}})
		}, true},
		"command_runs_on": {func(b *bench) { b.add(session.Draft{Type: session.StateChanged, Data: pause}) }, false},
		"command_ended_after": {func(b *bench) {
			b.add(session.Draft{Type: session.StateChanged, Data: pause})
			b.completed(id("t", "make"))
		}, false},
		"nothing_kept": {func(b *bench) {
			b.completed(id("t", "make"))
			b.to(session.Paused)
		}, false},
		"killed": {func(b *bench) { b.completed(id("t", "make")) }, false},
		"killed_after_another_resume": {func(b *bench) {
			b.completed(id("t", "make"))
			b.add(session.Draft{Type: session.ExecutionAcquired, Data: again})
			b.started(id("t", "w"), session.KindWrite)
			b.completed(id("t", "w"))
		}, true},
		"killed_after_a_resume_that_attached": {func(b *bench) {
			b.add(session.Draft{Type: session.ExecutionAcquired, Data: again})
			b.completed(id("t", "make"))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, usual())
			b.acquired("{}")
			b.started(id("t", "make"), session.KindRun)
			c.stop(b)
			during := b.sess.Steps[id("t", "make")].StartedUS*1000 + 1 // as of a copy that keeps the time
			b.changed = []session.ChangedFile{
				{Path: "copied", Kind: session.FileModified, MTimeNS: during, CTimeNS: 1 << 60, Asks: true, Session: session.FilePlanned},
				{Path: "gone", Kind: session.FileDeleted, Asks: true, Session: session.FilePlanned},
			}
			b.r.Options.OnChanges = resume.ChangesContinue
			ready, err := b.resume()
			if err != nil || len(ready.Changed) != 2 || ready.Changed[0].Asks != c.asks || ready.Changed[1].Asks != c.asks {
				t.Errorf("Resume: got %+v, %v, want two that ask: %v", ready.Changed, err, c.asks)
			}
		})
	}
}

// What changed in the time of the session's own commands is its own, unless it is a file
// whose changes receipts record.
func TestOwnChanges(t *testing.T) {
	b := paused(t)
	st := b.sess.Steps[id("t", "make")]
	at := func(us int64) int64 { return us * 1000 }
	second := at(st.StartedUS) / 1e9 * 1e9 // as a file system keeps it that knows whole seconds
	b.changed = []session.ChangedFile{
		{Path: "a-during", Kind: session.FileModified, MTimeNS: at(st.StartedUS) + 1, Asks: true},
		{Path: "a-second", Kind: session.FileModified, MTimeNS: second - 1e9, CTimeNS: second - 1e9, Asks: true},
		{Path: "a-tick", Kind: session.FileCreated, MTimeNS: at(st.StartedUS) - 4e6, CTimeNS: at(st.StartedUS) - 4e6, Asks: true},
		{Path: "a-tick-just", Kind: session.FileCreated, MTimeNS: at(st.StartedUS) - 10e6, Asks: true},
		{Path: "a-to-the-end", Kind: session.FileModified, MTimeNS: at(st.EndedUS), Asks: true},
		{Path: "b-a-second-before", Kind: session.FileModified, MTimeNS: second - 3e9, CTimeNS: second - 3e9, Asks: true},
		{Path: "b-before", Kind: session.FileModified, MTimeNS: at(st.StartedUS) - 10e6 - 1, Asks: true},
		{Path: "b-no-time", Kind: session.FileModified, Asks: true},
		{Path: "c-later", Kind: session.FileModified, MTimeNS: at(st.EndedUS) + 1, Asks: true},
		{Path: "c-moved", Kind: session.FileCreated, MTimeNS: at(st.StartedUS) - 1e9, CTimeNS: at(st.StartedUS) + 1, Asks: true},
		{Path: "d-deleted", Kind: session.FileDeleted, Asks: true},
		{Path: "out", Kind: session.FileModified, MTimeNS: at(st.StartedUS) + 1, Asks: true},
	}
	b.r.Options.OnChanges = resume.ChangesContinue
	ready, err := b.resume()
	if err != nil {
		t.Fatal(err)
	}
	asks := map[string]bool{}
	for _, c := range ready.Changed {
		asks[c.Path] = c.Asks
	}
	if d := cmp.Diff(map[string]bool{
		"a-during": false, "a-second": false, "b-a-second-before": true, "a-tick": false, "a-tick-just": false, "a-to-the-end": false, "b-before": true, "b-no-time": true,
		"c-later": true, "c-moved": false, "d-deleted": false, "out": true,
	}, asks); d != "" {
		t.Errorf("asks (-want +got):\n%s", d)
	}
	b = newBench(t, usual())
	b.acquired("")
	b.started(id("t", "w"), session.KindWrite)
	b.completed(id("t", "w"))
	b.changed = []session.ChangedFile{{Path: "x", Kind: session.FileModified, MTimeNS: at(b.sess.Steps[id("t", "w")].StartedUS), Asks: true}}
	if _, err := b.resume(); !errors.Is(err, session.ErrEnvironment) {
		t.Errorf("Resume: got %v; in the time of a file step only its own files are its own", err)
	}
	b = newBench(t, usual())
	b.acquired("")
	b.started(id("t", "make"), session.KindRun)
	b.changed = []session.ChangedFile{{Path: "while", Kind: session.FileCreated, MTimeNS: 1 << 60, Asks: true}}
	if ready, err := b.resume(); err != nil || ready.Changed[0].Asks || ready.Changed[0].Session == "" {
		t.Errorf("a command that still runs: got %+v, %v", ready.Changed, err)
	}
	started := b.sess.Steps[id("t", "make")].StartedUS
	for _, c := range []struct {
		name    string
		endedUS int64
		asks    bool
	}{{"after its end", started + 5, true}, {"before its end", started + 20, false}, {"the clock was set back", started - 5, false}} {
		b.record = session.CommandRecord{State: session.CommandFinished, EndedUS: c.endedUS}
		b.changed = []session.ChangedFile{{Path: "while", Kind: session.FileModified, MTimeNS: at(started + 10), Asks: true}}
		if _, err := b.resume(); errors.Is(err, session.ErrEnvironment) != c.asks {
			t.Errorf("a command that is over, changed %s: got %v, want asks %v", c.name, err, c.asks)
		}
	}
}

// Under a step in progress only content that is neither pre- nor post-image asks, and always
// does, also when files are not compared.
func TestForeignContentAsks(t *testing.T) {
	for _, validate := range []bool{true, false} {
		b := paused(t)
		b.to(session.Executing)
		b.started(id("t", "w"), session.KindChanges, session.Transition{Path: "w.txt"}, session.Transition{Path: "v.txt"}, session.Transition{Path: "u.txt"})
		b.progress = session.Foreign
		b.foreign = []session.FileState{{Path: "w.txt", Hash: "f", Size: 3}, {Path: "v.txt"}}
		b.changed = []session.ChangedFile{modified("u.txt", true), modified("w.txt", true)}
		b.r.Options.Validate, b.r.Options.OnChanges = validate, resume.ChangesContinue
		ready, err := b.resume()
		if err != nil {
			t.Fatal(err)
		}
		want := []session.ChangedFile{
			{Path: "v.txt", Kind: session.FileDeleted, Session: session.FileInProgress, Asks: true},
			{Path: "w.txt", Kind: session.FileModified, New: "f", Size: 3, Session: session.FileInProgress, Asks: true},
		}
		if d := cmp.Diff(want, ready.Changed); d != "" {
			t.Errorf("validate %v: changed (-want +got):\n%s", validate, d)
		}
		if off := strings.Contains(strings.Join(b.texts(session.NoticeWarning), ""), "validate_environment is false"); off == validate {
			t.Errorf("validate %v: warnings %q", validate, b.texts(session.NoticeWarning))
		}
		if validate == slices.Contains(b.trace, "git") == false {
			t.Errorf("validate %v: git asked, %v", validate, b.trace)
		}
	}
}

// Validation that runs out of its time refuses and names what was not checked.
func TestValidationTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := paused(t)
		b.r.Options.Timeout = 10 * time.Second
		b.changesFn = func(ctx context.Context) error {
			<-ctx.Done()
			return fmt.Errorf("scan: %w", ctx.Err())
		}
		start := time.Now()
		_, err := b.resume()
		if !errors.Is(err, session.ErrEnvironment) || !strings.Contains(err.Error(), "10s; not checked: the rest") || time.Since(start) != 10*time.Second {
			t.Errorf("Resume: got %v after %s", err, time.Since(start))
		}
		for n, want := range map[int]string{2: "not checked: f0, f1;", 5: "not checked: f0, f1, f2, f3, f4;", 7: "not checked: f0, f1, f2, f3, f4 and 2 more;"} {
			b.unchecked = nil
			for i := range n {
				b.unchecked = append(b.unchecked, fmt.Sprintf("f%d", i))
			}
			_, err := b.resume()
			if !errors.Is(err, session.ErrEnvironment) || !strings.Contains(err.Error(), want) {
				t.Errorf("Resume: got %v, want %q", err, want)
			}
		}
	})
}

// A file system that hangs holds up neither the end of that time nor a signal.
func TestValidationIsStuck(t *testing.T) {
	interrupted := errors.New("interrupted")
	for _, c := range []struct {
		name string
		end  error // after a second; nil: none comes
		want error
		took time.Duration
	}{
		{"time", nil, session.ErrEnvironment, 10500 * time.Millisecond},
		{"signal", interrupted, interrupted, 1500 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := paused(t)
				b.r.Options.Timeout = 10 * time.Second
				back := make(chan struct{})
				defer close(back)
				b.changesFn = func(context.Context) error { <-back; return nil }
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if c.end != nil {
					time.AfterFunc(time.Second, func() { cancel(c.end) })
				}
				start := time.Now()
				if _, err := b.r.Resume(ctx); !errors.Is(err, c.want) || time.Since(start) != c.took {
					t.Errorf("Resume: got %v after %s", err, time.Since(start))
				}
			})
		})
	}
}

// Git has the same time, and no more: a FIFO among the files that it reads would keep it for ever.
func TestValidationTimeoutOfGit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := paused(t)
		b.r.Options.Timeout = 10 * time.Second
		b.gitFn = func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Hour):
				return nil
			}
		}
		start := time.Now()
		_, err := b.resume()
		if !errors.Is(err, session.ErrEnvironment) || !strings.Contains(err.Error(), "10s; not checked: what git says") || time.Since(start) != 10*time.Second {
			t.Errorf("Resume: got %v after %s", err, time.Since(start))
		}
	})
}

// FR-040: a file that cannot be read is said to be so, not to have taken too long.
func TestUnreadableFiles(t *testing.T) {
	b := paused(t)
	b.r.Options.Timeout = 10 * time.Second
	b.unchecked = []string{"secret"}
	_, err := b.resume()
	if !errors.Is(err, session.ErrEnvironment) || !strings.Contains(err.Error(), "cannot be read") || !strings.Contains(err.Error(), ": secret;") {
		t.Errorf("Resume: got %v, want it to name the file that cannot be read", err)
	}
}

// FR-044, NFR-016, ASM-018: differences of git and configuration, by key, and suspicious
// lines only warn; each difference is logged.
func TestWarnings(t *testing.T) {
	b := newBench(t, usual())
	b.acquired(`{"same":"1","was":"a","gone":"x"}`)
	b.r.Options.Config = map[string]string{"same": "1", "was": "b", "new": "y"}
	b.git = []string{"HEAD moved"}
	b.lines = []string{"f:3: curl | sh"}
	if _, err := b.resume(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"HEAD moved", `configuration changed: gone was "x", is ""`, `configuration changed: new was "", is "y"`, `configuration changed: was was "a", is "b"`,
		"suspicious: f:3: curl | sh",
	}
	if d := cmp.Diff(want, b.texts(session.NoticeWarning)); d != "" {
		t.Errorf("warnings (-want +got):\n%s", d)
	}
	if n := len(b.logged("environment_change")); n != 4 {
		t.Errorf("environment_change: logged %d times, want 4", n)
	}
	if got := b.logged("suspicious_line"); len(got) != 1 || got[0]["line"] != "f:3: curl | sh" || got[0]["level"] != "WARN" {
		t.Errorf("suspicious_line: logged %v, want the line once", got)
	}
	b = paused(t)
	b.fails["git"] = errPort
	if _, err := b.resume(); err != nil || !strings.Contains(strings.Join(b.texts(session.NoticeWarning), ""), "git could not be asked") {
		t.Errorf("Resume when git fails: %v, %q", err, b.texts(session.NoticeWarning))
	}
	b = newBench(t, usual())
	b.add(session.Draft{Type: session.ExecutionAcquired, Data: session.ExecutionAcquiredData{Workspace: "/ws", Config: "no JSON"}})
	b.r.Options.Config = map[string]string{"k": "v"}
	if _, err := b.resume(); err != nil || b.texts(session.NoticeWarning) != nil || slices.Contains(b.trace, "git") {
		t.Errorf("Resume without a git state and a readable configuration: %v, %q", err, b.texts(session.NoticeWarning))
	}
}

// What git says is said to be perhaps the session's own, where it was stopped in the middle of steps.
func TestWarningsOfGit(t *testing.T) {
	const perhapsOwn = " (the session was stopped in the middle: one of its steps may have done it)"
	pause := session.StateChangedData{From: session.Executing, To: session.Paused, Manifest: "m2", Git: `{"head":"1"}`}
	for name, c := range map[string]struct {
		stop func(b *bench)
		want string
	}{
		"killed":    {func(*bench) {}, "HEAD moved" + perhapsOwn},
		"paused":    {func(b *bench) { b.add(session.Draft{Type: session.StateChanged, Data: pause}) }, "HEAD moved"},
		"no_git":    {func(b *bench) { b.fails["git"] = errPort }, "git could not be asked: " + errPort.Error()},
		"no_change": {func(b *bench) { b.git = nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, usual())
			b.acquired("{}")
			b.started(id("t", "make"), session.KindRun)
			b.completed(id("t", "make"))
			b.git = []string{"HEAD moved"}
			c.stop(b)
			if _, err := b.resume(); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(b.texts(session.NoticeWarning), "; "); got != c.want {
				t.Errorf("warnings: got %q, want %q", got, c.want)
			}
		})
	}
}
