package terminal_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

// resume prints the notices of the manual's example: header, one step, the end.
func resume(s *screen) {
	c := manual()
	it := c.Items[5]
	s.Notice(session.Notice{Kind: session.NoticeSession, Session: aSession(session.Paused), Text: "Add input validation"})
	for _, text := range []string{"Working directory exists", "Required files accessible", "Configuration valid"} {
		s.Notice(session.Notice{Kind: session.NoticeCheck, Text: text})
	}
	s.Notice(session.Notice{Kind: session.NoticeHeader, Session: aSession(session.Executing), Next: c})
	s.Notice(session.Notice{Kind: session.NoticeStarted, Item: &it})
	s.Notice(session.Notice{Kind: session.NoticeOutput, Item: &it, Text: "compiling"})
	s.Notice(session.Notice{Kind: session.NoticeCompleted, Item: &it, Took: 1200 * time.Millisecond, Text: "done"})
	next := c.Items[6]
	s.Notice(session.Notice{Kind: session.NoticeStarted, Item: &next})
	s.Notice(session.Notice{Kind: session.NoticeFailed, Item: &next, Took: 40 * time.Millisecond, Text: "exit status 1", Detail: []string{"last line"}})
	s.Notice(session.Notice{Kind: session.NoticeUncertain, Item: &c.Items[7], Took: 2 * time.Minute, Text: "the machine went down"})
	s.Notice(session.Notice{Kind: session.NoticeInfo, Text: "the command runs on", Detail: []string{"pid 7"}})
	s.Notice(session.Notice{Kind: session.NoticeWarning, Text: "validation is switched off", Detail: []string{"by config"}})
	s.Notice(session.Notice{Kind: session.NoticeResult, Session: aSession(session.Paused), Result: paused()})
	s.Notice(session.Notice{Kind: session.NoticeInfo, Text: "after the end"})
}

func paused() *session.Result {
	return &session.Result{
		Session: sessionID, Short: "abc123", State: session.Paused, Reason: session.ReasonTaskFailed,
		Done: 6, Left: 2, Code: session.ErrCommand, Message: "Task 2, Step 4 failed", Next: session.Words("acode resume abc123"),
	}
}

func verbose(o *terminal.Options) { o.Verbose = 1 }

// A session whose process ended in an active state is interrupted, not executing.
func TestResultOfAnInterruptedSession(t *testing.T) {
	for _, state := range []session.State{session.Created, session.Planning, session.Executing} {
		s := newScreen(t, nil)
		r := paused()
		r.State, r.Reason = state, session.ReasonSignal
		s.Notice(session.Notice{Kind: session.NoticeResult, Result: r})
		if got, want := s.out.String(), "Session abc123 interrupted (signal): 6 steps done, 2 left\n"; !strings.HasPrefix(got, want) {
			t.Errorf("result in state %s: got %q, want %q first", state, got, want)
		}
	}
}

// T2, FR-020: the same notices and options give the same bytes. With -v they are those of
// the manual's "Resume Specific", "What Gets Skipped" and "Environment Validation".
// Without -v unchanged parts are left out.
func TestResume(t *testing.T) {
	for name, change := range map[string]func(*terminal.Options){
		"resume_plain":   nil,
		"resume_quiet":   func(o *terminal.Options) { o.Quiet = true },
		"resume_verbose": verbose,
		"run_verbose":    func(o *terminal.Options) { o.Verbose, o.Fresh = 1, true },
		"resume_ascii":   func(o *terminal.Options) { o.ASCII = true },
		"resume_color":   func(o *terminal.Options) { o.Color = true },
		"resume_fresh":   func(o *terminal.Options) { o.Fresh = true },
		"resume_json":    func(o *terminal.Options) { o.JSON, o.Live, o.Color = true, true, true },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScreen(t, change)
			resume(s)
			golden(t, name, s.both())
		})
	}
}

// The header of a journal that ended while executing names the current step; a header
// with nothing left says so.
func TestHeaderEdges(t *testing.T) {
	s := newScreen(t, verbose)
	c := manual()
	c.Items, c.Skipped, c.Remaining, c.InProgress = c.Items[:5], 5, 0, nil
	s.Notice(session.Notice{Kind: session.NoticeHeader, Session: aSession(session.Executing), Next: c})
	untimed := manual()
	untimed.Items[1].Took, untimed.Items[2].Took, untimed.InProgress = 0, 0, nil
	s.Notice(session.Notice{Kind: session.NoticeHeader, Session: aSession(session.Planning), Next: untimed})
	s.Notice(session.Notice{Kind: session.NoticeHeader, Session: aSession(session.Planning)})
	golden(t, "header_edges", s.both())
}

// A header stays short for any number of steps and tasks.
func TestHeaderIsGrouped(t *testing.T) {
	many := &session.Continuation{}
	for task := 1; task <= 5000; task++ {
		for step := 1; step <= 2; step++ {
			it := item(1, 1, "", "", session.ActionSkip, time.Millisecond)
			it.Task, it.Step = task, step
			many.Items = append(many.Items, it)
			many.Skipped++
		}
	}
	t.Run("tasks_in_a_row", func(t *testing.T) {
		s := newScreen(t, verbose)
		s.Notice(session.Notice{Kind: session.NoticeHeader, Session: aSession(session.Paused), Next: many})
		golden(t, "header_many", s.both())
	})
	t.Run("tasks_with_holes", func(t *testing.T) {
		holes := &session.Continuation{}
		for i, it := range many.Items {
			if i%4 == 0 {
				it.Action = session.ActionExecute
			}
			holes.Items = append(holes.Items, it)
		}
		s := newScreen(t, verbose)
		s.Notice(session.Notice{Kind: session.NoticeHeader, Session: aSession(session.Paused), Next: holes})
		if lines := strings.Count(s.out.String(), "\n"); lines > 50 {
			t.Errorf("header of 5000 tasks with holes: got %d lines, want at most 50", lines)
		}
		if !strings.Contains(s.out.String(), "more steps (complete)") {
			t.Errorf("header: got %s, want a line that counts the rest", s.out.String())
		}
	})
}

// The manual's "Changed Files": the prompt follows the list, and the chosen action is
// printed.
func TestChangedFiles(t *testing.T) {
	change := func(path, kind string, did session.FileUse, age time.Duration, asks bool) session.Notice {
		return session.Notice{Kind: session.NoticeChanged, Changed: &session.ChangedFile{
			Path: path, Kind: kind, Session: did, MTimeNS: clock().Add(-age).UnixNano(), Asks: asks,
		}}
	}
	t.Run("asking", func(t *testing.T) {
		s := newScreen(t, verbose)
		s.Notice(session.Notice{Kind: session.NoticeSession, Session: aSession(session.Paused)})
		s.Notice(session.Notice{Kind: session.NoticeCheck, Text: "Working directory exists"})
		s.Notice(change("src/login.ts", session.FileModified, "", 5*time.Minute, true))
		s.Notice(change("src/validators.ts", session.FileModified, session.FileWrote, 3*time.Minute, true))
		s.Notice(change("src/gone.ts", session.FileDeleted, session.FileRead, time.Minute, true))
		s.Notice(session.Notice{Kind: session.NoticeChanged})
		got, err := s.Choose(strings.NewReader("c\n"), []string{"[C]ontinue anyway", "[A]bort", "[V]iew changes"})
		if err != nil || got != "c" {
			t.Errorf("Choose: got %q, %v, want c", got, err)
		}
		s.Notice(session.Notice{Kind: session.NoticeHeader, Session: aSession(session.Paused), Next: manual()})
		golden(t, "changed_asking", s.both())
	})
	t.Run("said_by_the_notices_themselves", func(t *testing.T) {
		for _, asks := range []bool{true, false} {
			s := newScreen(t, verbose)
			s.Notice(session.Notice{Kind: session.NoticeSession, Session: aSession(session.Paused)})
			s.Notice(session.Notice{Kind: session.NoticeCheck, Text: "Validating environment..."})
			s.Notice(session.Notice{Kind: session.NoticeCheck, Text: "Working directory exists"})
			s.Notice(change("src/login.ts", session.FileModified, "", 5*time.Minute, asks))
			end := session.Notice{Kind: session.NoticeCheck, Text: "Environment ready. Resuming..."}
			if asks {
				end = session.Notice{Kind: session.NoticeInfo, Text: "Continuing with changed files..."}
			}
			s.Notice(end)
			s.Notice(session.Notice{Kind: session.NoticeHeader, Session: aSession(session.Paused), Next: manual()})
			golden(t, fmt.Sprintf("changed_said_%v", asks), s.both())
		}
	})
	t.Run("warning_only", func(t *testing.T) {
		s := newScreen(t, verbose)
		s.Notice(change("README.md", session.FileCreated, "", 30*time.Second, false))
		s.Close()
		golden(t, "changed_warning", s.both())
	})
}

// The manual's "In-Progress Step Handling" (FR-023 to FR-028).
func TestHandling(t *testing.T) {
	handling(newScreen(t, verbose), t, "handling")
	handling(newScreen(t, nil), t, "handled")
}

func handling(s *screen, t *testing.T, name string) {
	show := func(kind session.Kind, label string, a session.Action, why string) {
		it := item(2, 3, "Validate", label, a, 0)
		it.Kind, it.Why, it.Attempt, it.Status = kind, why, 2, session.InProgress
		s.Notice(session.Notice{Kind: session.NoticeHandling, Item: &it, Level: a})
	}
	show(session.KindRead, "Read src/login.ts", session.ActionRetry, "")
	show(session.KindSearch, "Search TODO in src", session.ActionProceed, "")
	show(session.KindWrite, "Write src/validators.ts", session.ActionApplied, "")
	show(session.KindWrite, "Write src/config.ts", session.ActionRollBack, "")
	show(session.KindWrite, "Write src/other.ts", session.ActionProceed, "Nothing was written")
	show(session.KindRun, "Run make", session.ActionAttach, "The command still runs")
	show(session.KindRun, "Run make", session.ActionRetry, "The step failed before")
	show(session.KindRun, "Run deploy", session.ActionDecide, "Its supervisor was killed")
	show(session.KindRun, "", session.ActionExecute, "")
	s.Notice(session.Notice{Kind: session.NoticeHandling})
	golden(t, name, s.both())
}

func TestAsking(t *testing.T) {
	s := newScreen(t, nil)
	it := item(3, 2, "Ship", "Deploy to production?", session.ActionExecute, 0)
	s.Notice(session.Notice{Kind: session.NoticeAsking, Item: &it, Text: "Deploy to production?", Detail: []string{"then: Run deploy"}})
	s.Notice(session.Notice{Kind: session.NoticeAsking, Item: &it, Text: "Changed since it was asked"})
	s.Notice(session.Notice{Kind: session.NoticeAsking, Text: "Go on?"})
	yes, err := s.Approve(strings.NewReader("y\n\nyes\n"), "Deploy to production?")
	if !yes || err != nil {
		t.Errorf("Approve: got %v, %v, want true", yes, err)
	}
	golden(t, "asking", s.both())
}

// safe is a buffer that the ticker and the test may use at once.
type safe struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safe) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safe) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.b.Reset()
	return s.b.String()
}

// On a terminal, running steps are redrawn below permanent lines, with their time and
// last lines of output. At the end they are gone.
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out safe
		p := terminal.New(terminal.Options{
			Page: terminal.Page{Out: &out, Now: time.Now}, Err: &out, Live: true, Width: func() int { return 42 },
		})
		c := manual()
		it := c.Items[5]
		p.Notice(session.Notice{Kind: session.NoticeHeader, Session: aSession(session.Paused), Next: c})
		want(t, "header", out.take(), "abc123 · paused · 5 of 8 done, 15s of work kept\n")
		p.Notice(session.Notice{Kind: session.NoticeStarted, Item: &it})
		want(t, "started", out.take(), "\r\x1b[J  Validate\n    ⠋ Add email validator           0:00\n  · Finish\n  5/8 ──────────────────── Ctrl-C pauses")
		for _, line := range []string{"one", "two", "go build \x1b[2J" + strings.Repeat("x", 99), "last"} {
			p.Notice(session.Notice{Kind: session.NoticeOutput, Item: &it, Text: line})
		}
		want(t, "output alone", out.take(), "")
		time.Sleep(250 * time.Millisecond)
		synctest.Wait()
		want(t, "a tick", out.take(), "\r\x1b[A\x1b[A\x1b[A\x1b[J  Validate\n    ⠙ Add email validator           0:00\n      │ two\n      │ go build \\x1b[2Jxxxxxxxxxxxxxxx…\n      │ last\n  · Finish\n  5/8 ──────────────────── Ctrl-C pauses")
		p.Notice(session.Notice{Kind: session.NoticeWarning, Text: "slow"})
		if got, first := out.take(), "\r"+strings.Repeat("\x1b[A", 6)+"\x1b[Jwarning: slow\n\r\x1b[J  Validate\n    ⠙ Add"; !strings.HasPrefix(got, first) {
			t.Errorf("warning: got %q, want %q first", got, first)
		}
		p.Pauses()
		p.Notice(session.Notice{Kind: session.NoticeWarning, Text: "slow"})
		if got := out.take(); strings.Contains(got, "Ctrl-C") || !strings.HasSuffix(got, "  5/8 "+strings.Repeat("─", 34)) {
			t.Errorf("while it pauses: got %q, want no key that pauses it", got)
		}
		p.Release()
		want(t, "released", out.take(), "\r"+strings.Repeat("\x1b[A", 6)+"\x1b[J")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		want(t, "while another one writes", out.take(), "")
		p.Notice(session.Notice{Kind: session.NoticeCompleted, Item: &it, Took: 6500 * time.Millisecond, Text: "v0.3.0"})
		want(t, "completed", out.take(), "  Validate\n    ✓ Add email valida…  v0.3.0    6.5s\n")
		p.Close()
		p.Close()
		want(t, "closed", out.take(), "")
	})
}

// open is an answer that comes while a question is open.
type open struct {
	meanwhile func()
	answer    io.Reader
}

func (o *open) Read(b []byte) (int, error) {
	if o.meanwhile != nil {
		o.meanwhile()
		o.meanwhile = nil
	}
	return o.answer.Read(b)
}

// Lines of other tasks appear above an open question, which stays the last line.
func TestLiveAboveAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out safe
		p := terminal.New(terminal.Options{
			Page: terminal.Page{Out: &out, Now: time.Now}, Err: &out, Live: true, Width: func() int { return 42 },
		})
		defer p.Close()
		c := manual()
		it, other := c.Items[5], c.Items[6]
		p.Notice(session.Notice{Kind: session.NoticeHeader, Session: aSession(session.Paused), Next: c})
		p.Notice(session.Notice{Kind: session.NoticeStarted, Item: &it})
		out.take()
		yes, err := p.Approve(&open{answer: strings.NewReader("yes\n"), meanwhile: func() {
			if got := out.take(); !strings.HasSuffix(got, "\x1b[JShip? [yes/no] ") {
				t.Errorf("asked: got %q", got)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			want(t, "ticks", out.take(), "")
			p.Notice(session.Notice{Kind: session.NoticeCompleted, Item: &it, Took: time.Second})
			want(t, "completed", out.take(), "\r\x1b[J  Validate\n    ✓ Add email validator            1s\nShip? [yes/no] ")
			p.Notice(session.Notice{Kind: session.NoticeStarted, Item: &other})
			want(t, "started", out.take(), "\r\x1b[JShip? [yes/no] ")
		}}, "Ship?")
		if !yes || err != nil {
			t.Errorf("Approve: got %v, %v", yes, err)
		}
		p.Notice(session.Notice{Kind: session.NoticeWarning, Text: "slow"})
		if got := out.take(); !strings.HasPrefix(got, "warning: slow\n\r\x1b[J") {
			t.Errorf("after the answer: got %q", got)
		}
	})
}

// A command that continued without acode keeps its start time.
func TestLiveAttach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out safe
		p := terminal.New(terminal.Options{
			Page: terminal.Page{Out: &out, Now: time.Now}, Err: &out, Live: true, Width: func() int { return 41 },
		})
		defer p.Close()
		c, s := manual(), aSession(session.Executing)
		it := c.Items[5]
		it.Action = session.ActionAttach
		s.Steps = map[session.StepID]*session.StepState{it.ID: {StepID: it.ID, Status: session.InProgress, StartedUS: time.Now().Add(-3725 * time.Second).UnixMicro()}}
		p.Notice(session.Notice{Kind: session.NoticeSession, Session: s})
		p.Notice(session.Notice{Kind: session.NoticeStarted, Item: &it})
		if got := out.take(); !strings.Contains(got, " 1:02:05") {
			t.Errorf("attached: got %q, want the time since the command began", got)
		}
	})
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// Live lines never wrap, even when the terminal prints ^C behind them.
func TestLiveWidth(t *testing.T) {
	for width := range 120 {
		synctest.Test(t, func(t *testing.T) {
			var out safe
			p := terminal.New(terminal.Options{
				Page: terminal.Page{Out: &out, Now: time.Now}, Err: &out, Live: true, Width: func() int { return width },
			})
			defer p.Close()
			p.Notice(session.Notice{Kind: session.NoticeHeader, Session: aSession(session.Paused), Next: manual()})
			for step := range 3 {
				it := item(2, 3+step, "", "Übersetze 日本語 🎉 alles", session.ActionExecute, 0)
				p.Notice(session.Notice{Kind: session.NoticeStarted, Item: &it})
				p.Notice(session.Notice{Kind: session.NoticeOutput, Item: &it, Text: strings.Repeat("日本", 99)})
			}
			out.take()
			time.Sleep(250 * time.Millisecond)
			synctest.Wait()
			_, drawn, _ := strings.Cut(out.take(), "\x1b[J")
			lines := strings.Split(drawn, "\n")
			for i, line := range lines {
				if got := wide(line); width > 14 && got > width-len("^C") {
					t.Errorf("width %d: line %d, %q, takes %d columns", width, i, line, got)
				}
			}
			if len(lines) != 9 {
				t.Errorf("width %d: got %d lines, want the title, three steps with a line of output each, what waits and the totals: %q", width, len(lines), lines)
			}
		})
	}
}

// wide counts every non-ASCII character of these tests that takes two columns.
func wide(s string) (n int) {
	for _, r := range s {
		n++
		if r > 0x2e80 {
			n++
		}
	}
	return n
}

// Lines of output are left out while the reader is behind, and their number is printed
// before the end of the step. When several steps run, each line names its step.
func TestReaderBehind(t *testing.T) {
	for _, json := range []bool{false, true} {
		behind := false
		s := newScreen(t, func(o *terminal.Options) {
			o.JSON, o.Verbose, o.Behind = json, 1, func(time.Duration) bool { return behind }
		})
		s.Notice(session.Notice{Kind: session.NoticeSession, Session: aSession(session.Executing)})
		a, b := item(1, 1, "", "First", session.ActionExecute, 0), item(2, 1, "", "Second", session.ActionExecute, 0)
		line := func(it session.Item, text string) {
			s.Notice(session.Notice{Kind: session.NoticeOutput, Item: &it, Text: text})
		}
		s.Notice(session.Notice{Kind: session.NoticeStarted, Item: &a})
		line(a, "alone")
		s.Notice(session.Notice{Kind: session.NoticeStarted, Item: &b})
		line(a, "one")
		behind = true
		line(a, "two")
		line(b, "three")
		line(a, "four")
		s.Notice(session.Notice{Kind: session.NoticeCompleted, Item: &b})
		behind = false
		line(a, "five")
		s.Notice(session.Notice{Kind: session.NoticeCompleted, Item: &a})
		name := "behind"
		if json {
			name += "_json"
		}
		golden(t, name, s.both())
	}
}

// A printer may be used from several goroutines.
func TestConcurrentNotices(t *testing.T) {
	s := newScreen(t, nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 50 {
				s.Notice(session.Notice{Kind: session.NoticeInfo, Text: fmt.Sprint("line ", i)})
			}
		})
	}
	wg.Wait()
	if got := strings.Count(s.out.String(), "line "); got != 400 {
		t.Errorf("lines: got %d, want 400", got)
	}
}
