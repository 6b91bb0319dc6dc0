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

// FR-039, FR-040, FR-042: each successful check is reported on its own line.
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

// FR-045: the policy decides about significant changes. An abort leaves the session
// unchanged. A continuation keeps the accepted content and records who decided.
func TestChangedFiles(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy resume.OnChanges
		goOn   bool
		fails  error
		// An empty by means that the resume is refused.
		by    string
		asked bool
	}{
		{"continue", resume.ChangesContinue, false, nil, "flag", false},
		{"abort", resume.ChangesAbort, true, nil, "", false},
		{"prompt_yes", resume.ChangesPrompt, true, nil, "person", true},
		{"default_yes", "", true, nil, "person", true},
		{"prompt_no", resume.ChangesPrompt, false, nil, "", true},
		{"no_person", resume.ChangesPrompt, true, session.ErrEnvironment, "", true},
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
					!strings.Contains(e.Message, "unchanged") || e.Next.String() != "look at them, then: [decide_changes abc123 /moved]" {
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
				b.add(d) // The journal accepts it.
			}
		})
	}
}

// A change belongs to the session if a command without a receipt ran at that time, unless
// receipts record the changes of the file. The last comparison was at a receipt or
// earlier, so commands with receipts cannot have made the change (FR-044, FR-045).
func TestOwnChanges(t *testing.T) {
	// us is in nanoseconds.
	const us = int64(1000)
	started := func(b *bench) int64 { return b.sess.Steps[id("t", "make")].StartedUS }
	for name, c := range map[string]struct {
		record func(start int64) session.CommandRecord
		// then runs after the start.
		then func(b *bench)
		own  []string
	}{
		"finished": {func(s int64) session.CommandRecord {
			return session.CommandRecord{State: session.CommandFinished, EndedUS: s + 20}
		}, nil, []string{"a-during", "a-moved", "a-second", "a-tick", "a-to-the-end", "b-deleted"}},
		"unknown": {func(s int64) session.CommandRecord {
			return session.CommandRecord{State: session.CommandUnknown, AliveUS: s + 20}
		}, nil, []string{"a-during", "a-moved", "a-second", "a-tick", "a-to-the-end", "b-deleted"}},
		"unknown_with_an_end": {func(s int64) session.CommandRecord {
			return session.CommandRecord{State: session.CommandUnknown, EndedUS: s + 19, AliveUS: s + 30}
		}, nil, []string{"a-during", "a-moved", "a-second", "a-tick", "b-deleted"}},
		"unknown_at_once": {func(s int64) session.CommandRecord {
			return session.CommandRecord{State: session.CommandUnknown, AliveUS: s - 1000}
		}, nil, []string{"a-second", "a-tick"}},
		"uncertain": {func(s int64) session.CommandRecord {
			return session.CommandRecord{State: session.CommandUnknown, AliveUS: s + 20}
		}, func(b *bench) {
			b.add(session.Draft{Type: session.StepUnknown, Data: session.StepUnknownData{StepID: id("t", "make"), Key: key(id("t", "make"), 1), Attempt: 1}})
		}, []string{"a-during", "a-moved", "a-second", "a-tick", "a-to-the-end", "b-deleted"}},
		"runs": {func(int64) session.CommandRecord { return session.CommandRecord{State: session.CommandRunning} }, nil,
			[]string{"a-during", "a-moved", "a-second", "a-tick", "a-to-the-end", "b-deleted", "c-copied", "c-deleted", "c-later"}},
		"lingers": {func(int64) session.CommandRecord { return session.CommandRecord{State: session.CommandLingering} }, nil,
			[]string{"a-during", "a-moved", "a-second", "a-tick", "a-to-the-end", "b-deleted", "c-copied", "c-deleted", "c-later"}},
		"the_clock_was_set_back": {func(s int64) session.CommandRecord {
			return session.CommandRecord{State: session.CommandFinished, EndedUS: s - 5}
		}, nil, []string{"a-during", "a-moved", "a-second", "a-tick", "a-to-the-end", "b-deleted", "c-copied", "c-deleted", "c-later"}},
		"never_started": {func(int64) session.CommandRecord { return session.CommandRecord{State: session.CommandUnclaimed} }, nil, nil},
		"completed": {func(s int64) session.CommandRecord {
			return session.CommandRecord{State: session.CommandFinished, EndedUS: s + 20}
		}, func(b *bench) { b.completed(id("t", "make")) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, usual())
			b.acquired("")
			b.started(id("t", "w"), session.KindWrite)
			b.completed(id("t", "w"), session.FileState{Path: "out", Hash: "1"})
			b.started(id("t", "make"), session.KindRun)
			start := started(b)
			if c.then != nil {
				c.then(b)
			}
			b.record = c.record(start)
			at := start * us
			second := at / 1e9 * 1e9 // the time in a file system that stores whole seconds
			b.changed = []session.ChangedFile{
				{Path: "a-during", Kind: session.FileModified, MTimeNS: at + 1, Asks: true},
				{Path: "a-moved", Kind: session.FileCreated, MTimeNS: at - 1e9, CTimeNS: at + 1, Asks: true},
				{Path: "a-second", Kind: session.FileModified, MTimeNS: second, CTimeNS: second, Asks: true},
				{Path: "a-tick", Kind: session.FileCreated, MTimeNS: at - 10e6, CTimeNS: at - 10e6, Asks: true},
				{Path: "a-to-the-end", Kind: session.FileModified, MTimeNS: at + 20*us, Asks: true},
				{Path: "b-deleted", Kind: session.FileDeleted, CTimeNS: at + 2, Asks: true},
				{Path: "c-before", Kind: session.FileModified, MTimeNS: at - 10e6 - 1, Asks: true},
				{Path: "c-copied", Kind: session.FileModified, MTimeNS: at + 1, CTimeNS: at + 20*us + 1, Asks: true}, // copied later with its old time
				{Path: "c-deleted", Kind: session.FileDeleted, CTimeNS: at + 20*us + 1, Asks: true},
				{Path: "c-later", Kind: session.FileModified, MTimeNS: at + 20*us + 1, Asks: true},
				{Path: "c-no-time", Kind: session.FileModified, Asks: true},
				{Path: "c-second", Kind: session.FileModified, MTimeNS: second - 1e9, CTimeNS: second - 1e9, Asks: true},
				{Path: "out", Kind: session.FileModified, MTimeNS: at + 1, Asks: true},
			}
			b.r.Options.OnChanges = resume.ChangesContinue
			ready, err := b.resume()
			if err != nil {
				t.Fatal(err)
			}
			var own []string
			for _, c := range ready.Changed {
				if (c.Session == session.FileBeside) == c.Asks {
					t.Errorf("%s: got %+v, want exactly one of own and asking", c.Path, c)
				}
				if !c.Asks {
					own = append(own, c.Path)
				}
			}
			if d := cmp.Diff(c.own, own); d != "" {
				t.Errorf("own (-want +got):\n%s", d)
			}
		})
	}
	b := newBench(t, usual())
	b.acquired("")
	b.started(id("t", "w"), session.KindWrite)
	b.completed(id("t", "w"))
	b.changed = []session.ChangedFile{{Path: "x", Kind: session.FileModified, MTimeNS: b.sess.Steps[id("t", "w")].StartedUS * us, Asks: true}}
	if _, err := b.resume(); !errors.Is(err, session.ErrEnvironment) {
		t.Errorf("Resume: got %v; want only the files of a file step to be its own", err)
	}
	b = newBench(t, usual())
	b.acquired("")
	b.started(id("t", "make"), session.KindRun)
	b.add(session.Draft{Type: session.StepUnknown, Data: session.StepUnknownData{StepID: id("t", "make"), Key: key(id("t", "make"), 1), Attempt: 1}})
	b.fails["look"] = errPort
	if _, err := b.resume(); !errors.Is(err, errPort) {
		t.Errorf("Resume: got %v, want that of the record of an uncertain command", err)
	}
}

// Under a step in progress only content that is neither pre-image nor post-image asks. It
// always asks, even if files are not compared.
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

// Validation that exceeds its time is refused and names the unchecked files.
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

// The timeout also limits git. A FIFO among the files that git reads would block it
// forever.
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
		if !errors.Is(err, session.ErrEnvironment) || !strings.Contains(err.Error(), "10s; not checked: the state of git") || time.Since(start) != 10*time.Second {
			t.Errorf("Resume: got %v after %s", err, time.Since(start))
		}
	})
}

// FR-040: the error for an unreadable file names the file and does not claim a timeout.
func TestUnreadableFiles(t *testing.T) {
	b := paused(t)
	b.r.Options.Timeout = 10 * time.Second
	b.unchecked = []string{"secret"}
	_, err := b.resume()
	if !errors.Is(err, session.ErrEnvironment) || !strings.Contains(err.Error(), "cannot be read") || !strings.Contains(err.Error(), ": secret;") {
		t.Errorf("Resume: got %v, want it to name the file that cannot be read", err)
	}
}

// FR-045: the path of a change matches one file, even if it contains pattern characters.
// The path of a read or a search may be a pattern. Completed steps contribute no paths.
func TestPlannedPaths(t *testing.T) {
	p := plan(session.Task{ID: "t", Steps: []session.Step{
		write("done", "done"), write("w", "pages/[id].tsx"),
		{ID: "m", Kind: session.KindMove, Changes: []session.Change{{Op: session.KindMove, From: `a\b*`, To: "what?"}}},
		{ID: "r", Kind: session.KindRead, Read: &session.Read{Path: "src/[a-z]*.go"}},
		{ID: "s", Kind: session.KindSearch, Search: &session.Search{Path: "doc?"}},
	}})
	b := newBench(t, p)
	b.acquired("")
	b.started(id("t", "done"), session.KindWrite)
	b.completed(id("t", "done"))
	want := []string{`a\\b\*`, "doc?", `pages/\[id].tsx`, "src/[a-z]*.go", `what\?`}
	if d := cmp.Diff(want, resume.Planned(p, b.sess.Status)); d != "" {
		t.Errorf("Planned (-want +got):\n%s", d)
	}
	if _, err := b.resume(); err != nil || cmp.Diff(want, b.planned) != "" || cmp.Diff(want, b.hashed) != "" {
		t.Errorf("Resume: got %v, compared %q, hashed %q, want both %q", err, b.planned, b.hashed, want)
	}
}

// FR-044, NFR-016, ASM-018: differences of git and of configuration keys, and suspicious
// lines, only warn. Each difference is logged.
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
	if _, err := b.resume(); err != nil || !strings.Contains(strings.Join(b.texts(session.NoticeWarning), ""), "git failed") {
		t.Errorf("Resume when git fails: %v, %q", err, b.texts(session.NoticeWarning))
	}
	b = newBench(t, usual())
	b.add(session.Draft{Type: session.ExecutionAcquired, Data: session.ExecutionAcquiredData{Workspace: "/ws", Config: "no JSON"}})
	b.r.Options.Config = map[string]string{"k": "v"}
	if _, err := b.resume(); err != nil || b.texts(session.NoticeWarning) != nil || slices.Contains(b.trace, "git") {
		t.Errorf("Resume without a git state and a readable configuration: %v, %q", err, b.texts(session.NoticeWarning))
	}
}

// If the session was interrupted in a step, the warning says that the step may have
// caused a difference in git.
func TestWarningsOfGit(t *testing.T) {
	const perhapsOwn = " (the session was interrupted: one of its steps may have caused this)"
	pause := session.StateChangedData{From: session.Executing, To: session.Paused, Manifest: "m2", Git: `{"head":"1"}`}
	for name, c := range map[string]struct {
		stop func(b *bench)
		want string
	}{
		"killed":    {func(*bench) {}, "HEAD moved" + perhapsOwn},
		"paused":    {func(b *bench) { b.add(session.Draft{Type: session.StateChanged, Data: pause}) }, "HEAD moved"},
		"no_git":    {func(b *bench) { b.fails["git"] = errPort }, "git failed: " + errPort.Error()},
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

// The plan contributes only the paths of remaining steps.
func TestPlannedOfRemainingSteps(t *testing.T) {
	b := newBench(t, usual())
	b.acquired("{}")
	b.started(id("t", "w"), session.KindWrite)
	b.completed(id("t", "w"), session.FileState{Path: "w.txt", Hash: "1"})
	b.to(session.Paused)
	if _, err := b.resume(); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"from", "src/*.go", "to"}, b.planned); d != "" {
		t.Errorf("planned paths (-want +got):\n%s", d)
	}
}
