package terminal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/process"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

func rows() []app.Row {
	row := func(short string, state session.State, task string, ago time.Duration) app.Row {
		return app.Row{Summary: session.Summary{
			ID: sessionID, Short: short, State: state, Task: task, Workspace: "/home/me/" + short,
			Tasks: 3, Steps: 8, Done: 5, Epoch: 2, LastSeq: 1234, CreatedUS: usAgo(ago + time.Hour), UpdatedUS: usAgo(ago),
		}}
	}
	rs := []app.Row{
		row("abc123", session.Paused, "Add input validation", 10*time.Minute),
		row("def456", session.Executing, "Fix login bug", 5*time.Minute),
		row("ghi789", session.AwaitingApproval, "Deploy\x1b[31m 日本", 72*time.Hour),
		row("jkl012", session.Created, "Future", -time.Hour),
		row("mno345", session.Failed, "Old", 5*time.Hour),
		row("pqr678", session.Completed, "New", 5*time.Second),
	}
	rs[0].Reason, rs[1].Interrupted, rs[2].Running = session.ReasonSignal, true, true
	return rs
}

func status() app.Status {
	return app.Status{
		Row: rows()[0], At: app.Position{Task: 2, Tasks: 3, Step: 3, Steps: 5}, Detail: "interrupted by SIGINT",
		Holder: &app.Holder{ID: process.ID{PID: 4711}, Host: "box", Since: clock(), Command: "acode resume\x07"},
		Notes:  []string{"the command of Task 2, Step 3 still runs"}, Next: session.Words("acode resume abc123"),
	}
}

func show() app.Details {
	v := app.Details{Status: status(), Titles: []string{"Analyze existing code"}}
	for i, it := range manual().Items {
		it.Status = session.StepDone
		s := app.StepDetails{Item: it}
		if i == 5 {
			s.Item.Status, s.Item.Attempt, s.Code, s.Message = session.StepFailed, 2, session.ErrCommand, "exit 1"
			s.Output = []string{"--- FAIL: TestShop", "\x1b[31mFAIL"}
		}
		v.Steps = append(v.Steps, s)
	}
	return v
}

func dryRun() app.Forecast {
	c := manual()
	c.Remaining, c.Items[5].Action = 8, session.ActionRollBack
	return app.Forecast{
		Session: aSession(session.Paused), Checkpoint: app.Position{Task: 2, Tasks: 3, Step: 3, Steps: 5},
		Next: *c, Changed: []session.ChangedFile{{Path: "a\nb", Kind: session.FileModified, Session: session.FileRead, MTimeNS: clock().Add(-2 * time.Hour).UnixNano(), Asks: true}},
		Warnings: []string{"git branch was main, is x\ny"},
	}
}

func events() []session.Event {
	event := func(seq uint64, kind session.EventType, data any) session.Event {
		payload, err := json.Marshal(data)
		if err != nil {
			panic(err)
		}
		return session.Event{ID: [16]byte{1, 2, 3, byte(seq)}, Session: sessionID, Seq: seq, TimeUS: clock().UnixMicro(), Type: kind, Actor: "acode", Epoch: 1, Payload: payload}
	}
	id := session.StepID{Task: "build", Step: "make"}
	es := []session.Event{
		event(1, session.SessionCreated, session.SessionCreatedData{Short: "abc123", Task: "Add\tit"}),
		event(2, session.StateChanged, session.StateChangedData{From: session.Created, To: session.Paused, Reason: session.ReasonUser}),
		event(3, session.ExecutionAcquired, session.ExecutionAcquiredData{Host: "box", PID: 7}),
		event(4, session.StepStarted, session.StepStartedData{StepID: id, Attempt: 2, By: "check"}),
		event(5, session.StepFailedEvent, session.StepFailedData{StepID: id, Attempt: 1, Code: session.ErrCommand, Message: "exit 1"}),
		event(6, session.CheckpointCreated, session.CheckpointCreatedData{Why: "risk"}),
		event(7, session.SessionCreated, nil), event(8, session.StateChanged, nil),
	}
	es[6].Payload, es[7].Payload = []byte("\x1b{"), []byte("[1")
	return es
}

// page returns a page that writes to w as text or for a script.
func page(w io.Writer, js bool) terminal.Page {
	return terminal.Page{Out: w, JSON: js, Now: clock, Spell: session.Hint.String}
}

// listed yields events without an error.
func listed(events ...session.Event) iter.Seq2[session.Event, error] {
	return func(yield func(session.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// blockCase is one output of a command, as text and as JSON. It has no JSON when another
// case has the same.
type blockCase struct {
	name     string
	write    func(terminal.Page) error
	textOnly bool
}

func blocks() []blockCase {
	settings := []terminal.Setting{{"resume.in_progress_strategy", "rollback", "default"}, {"log.level", "debug\x1b", "/home/me/.agent/config.yml:3"}}
	codes := []terminal.ExitCode{{0, "done", []session.Code{}}, {14, "no resumable session", []session.Code{session.ErrNoResumable, session.ErrUnknownID}}}
	minimal := app.Status{Row: rows()[1]}
	fresh := app.Forecast{Session: &session.Session{Short: "abc123", State: session.Created}, Next: session.Continuation{Remaining: 1}}
	at := []app.Position{{Task: 2, Tasks: 3, Step: 3, Steps: 5}, {}}
	return []blockCase{
		{"list", func(p terminal.Page) error { return p.List(rows(), false) }, false},
		{"list_all", func(p terminal.Page) error { return p.List(rows(), true) }, true},
		{"list_waiting", func(p terminal.Page) error { return p.List(rows()[:2], false) }, true},
		{"list_empty", func(p terminal.Page) error { return p.List(nil, true) }, false},
		{"list_remote", func(p terminal.Page) error { return p.RemoteList(remoteRows(), session.ErrOffline) }, false},
		{"list_remote_empty", func(p terminal.Page) error { return p.RemoteList(nil, nil) }, false},
		{"found", func(p terminal.Page) error { return p.Found(rows()[:1], at, session.Words("all of them")) }, true},
		{"found_many", func(p terminal.Page) error { return p.Found(rows()[:4], at, session.Words("all of them")) }, true},
		{"status", func(p terminal.Page) error { return p.Status(status()) }, false},
		{"status_minimal", func(p terminal.Page) error { return p.Status(minimal) }, false},
		{"show", func(p terminal.Page) error { return p.Show(show()) }, false},
		{"history", func(p terminal.Page) error { return p.History(listed(events()...)) }, false},
		{"dry_run", func(p terminal.Page) error { return p.DryRun(dryRun()) }, false},
		{"dry_run_fresh", func(p terminal.Page) error { return p.DryRun(fresh) }, false},
		{"config_origin", func(p terminal.Page) error { return p.ConfigShow(settings, true) }, false},
		{"config", func(p terminal.Page) error { return p.ConfigShow(settings, false) }, true},
		{"exit_codes", func(p terminal.Page) error { return p.ExitCodes(codes) }, false},
	}
}

// remoteRows are rows of a server. The server has not projected the last one.
func remoteRows() []terminal.RemoteRow {
	var out []terminal.RemoteRow
	for _, r := range rows()[:3] {
		out = append(out, terminal.RemoteRow{RemoteSummary: session.RemoteSummary{Summary: r.Summary, Host: "laptop", Device: "d1", Projected: r.LastSeq, ReceivedUS: r.UpdatedUS}})
	}
	out[0].Pending, out[1].Forked = 3, true
	out[2].Summary, out[2].Host, out[2].Projected = session.Summary{ID: out[2].ID, LastSeq: 9}, "", 0
	return out
}

func TestBlocks(t *testing.T) {
	for _, c := range blocks() {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := c.write(page(&out, false)); err != nil {
				t.Fatal(err)
			}
			golden(t, c.name, out.String())
			if c.textOnly {
				return
			}
			out.Reset()
			if err := c.write(page(&out, true)); err != nil {
				t.Fatal(err)
			}
			golden(t, c.name+"_json", out.String())
			for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
				if v := decode(t, line)["v"]; v != 1.0 {
					t.Errorf("v: got %v, want 1", v)
				}
			}
		})
	}
}

// Output that cannot be written is an error of the command. It neither panics nor stays
// silent.
func TestBlocksToABrokenPipe(t *testing.T) {
	for _, c := range blocks() {
		for _, js := range []bool{false, true} {
			if err := c.write(page(broken{}, js)); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("%s, JSON %v: got %v, want %v", c.name, js, err, io.ErrClosedPipe)
			}
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// A dry run has words for every action of a step.
func TestDryRunActions(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range []session.Action{session.ActionRollBack, session.ActionApplied, session.ActionAttach, session.ActionDecide, session.ActionRetry} {
		v := dryRun()
		v.Next.Items[5].Action = a
		var out bytes.Buffer
		if err := page(&out, false).DryRun(v); err != nil {
			t.Fatal(err)
		}
		for l := range strings.Lines(out.String()) {
			if strings.Contains(l, "In progress:") {
				seen[l] = true
			}
		}
	}
	if len(seen) != 5 {
		t.Errorf("lines of five actions: got %v, want five different ones", seen)
	}
}

func decode(t *testing.T, line string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Fatalf("decode %q: %v", line, err)
	}
	return m
}

func errorCase() error {
	return fmt.Errorf("resume: %w", &session.Error{
		Code: session.ErrPlan, Place: "plan.yml:3:5", Message: "unknown key \"fo\x1bo\"\n  3 | foo: bar\n    ^\n",
		Next: session.Words("remove the key"), Retryable: true,
	})
}

func TestError(t *testing.T) {
	var out bytes.Buffer
	terminal.Error(&out, errorCase(), "remove the key")
	terminal.Error(&out, &session.Error{Code: session.ErrNoResumable, Message: "no resumable session"}, "start one with: acode run")
	terminal.Error(&out, io.ErrUnexpectedEOF, "")
	terminal.ErrorJSON(&out, errorCase(), 2, "remove the key", clock(), strings.Clone)
	golden(t, "error", out.String())
}

// Fail is the result of a JSON stream, unless it already has one.
func TestFail(t *testing.T) {
	js := func(o *terminal.Options) { o.JSON, o.Exit = true, func(r session.Result) int { return 20 + r.Done } }
	t.Run("plain", func(t *testing.T) {
		s := newScreen(t, nil)
		s.Fail(errorCase(), 2, "remove the key")
		golden(t, "fail", s.both())
	})
	t.Run("json_before_a_session", func(t *testing.T) {
		s := newScreen(t, js)
		s.Notice(session.Notice{Kind: session.NoticeWarning, Text: "held back"})
		s.Fail(errorCase(), 2, "remove the key")
		s.Fail(errorCase(), 2, "remove the key")
		got := types(t, s.out.String())
		if !slices.Equal(got, []string{"warning", "result"}) {
			t.Errorf("types: got %v, want warning and one result", got)
		}
	})
	t.Run("json_in_a_session", func(t *testing.T) {
		s := newScreen(t, js)
		s.Notice(session.Notice{Kind: session.NoticeWarning, Text: "held back"})
		sess := aSession(session.Paused)
		sess.StepTotal, sess.Done = 4, 1
		s.Notice(session.Notice{Kind: session.NoticeSession, Session: sess})
		s.Fail(errorCase(), 2, "remove the key")
		s.Notice(session.Notice{Kind: session.NoticeResult, Result: paused()})
		got := types(t, s.out.String())
		if !slices.Equal(got, []string{"session", "warning", "result"}) {
			t.Errorf("types: got %v, want session, warning, result", got)
		}
		last := decode(t, lastLine(s.out.String()))
		if last["exit"] != 2.0 || last["code"] != string(session.ErrPlan) || last["session_id"] != string(sessionID) {
			t.Errorf("result: got %v, want exit 2, %s and the session", last, session.ErrPlan)
		}
		if last["done"] != 1.0 || last["left"] != 3.0 {
			t.Errorf("result: got %v done, %v left, want 1 and 3 of its steps", last["done"], last["left"])
		}
	})
	t.Run("json_after_the_result", func(t *testing.T) {
		s := newScreen(t, js)
		s.Notice(session.Notice{Kind: session.NoticeSession, Session: aSession(session.Paused)})
		s.Notice(session.Notice{Kind: session.NoticeResult, Result: paused()})
		s.Fail(errorCase(), 2, "remove the key")
		last := decode(t, lastLine(s.out.String()))
		if got := types(t, s.out.String()); len(got) != 2 || last["exit"] != 26.0 {
			t.Errorf("got %v, exit %v, want session and result with exit 26", got, last["exit"])
		}
		if s.err.Len() > 0 {
			t.Errorf("standard error: got %q, want nothing", s.err.String())
		}
	})
	t.Run("json_quiet", func(t *testing.T) {
		s := newScreen(t, func(o *terminal.Options) { js(o); o.Quiet = true })
		resume(s)
		if got := types(t, s.out.String()); !slices.Equal(got, []string{"session", "result"}) {
			t.Errorf("types: got %v, want session and result", got)
		}
	})
	t.Run("json_result_alone", func(t *testing.T) {
		s := newScreen(t, func(o *terminal.Options) { o.JSON = true })
		s.Notice(session.Notice{Kind: session.NoticeResult})
		if last := decode(t, lastLine(s.out.String())); last["exit"] != 0.0 || last["type"] != "result" {
			t.Errorf("result: got %v, want type result, exit 0", last)
		}
	})
}

// Every line of a JSON stream has the same envelope. The first line has the id and the
// last is the only result, even for unsafe text.
func TestJSONLines(t *testing.T) {
	s := newScreen(t, func(o *terminal.Options) { o.JSON = true })
	s.Notice(session.Notice{Kind: session.NoticeChanged, Changed: &session.ChangedFile{Path: "early"}})
	resume(s)
	lines := strings.Split(strings.TrimSpace(s.out.String()), "\n")
	for i, l := range lines {
		m := decode(t, l)
		_, err := time.Parse(time.RFC3339Nano, m["ts"].(string))
		if m["v"] != 1.0 || err != nil || (m["type"] == "result") != (i == len(lines)-1) || (m["type"] == "session") != (i == 0) {
			t.Errorf("line %d of %d: got %s, want v 1, a time, session first, result last", i+1, len(lines), l)
		}
	}
	if s.err.Len() > 0 {
		t.Errorf("standard error: got %q, want nothing", s.err.String())
	}
}

func types(t *testing.T, out string) (kinds []string) {
	t.Helper()
	for l := range strings.Lines(out) {
		kinds = append(kinds, decode(t, l)["type"].(string))
	}
	return kinds
}

func lastLine(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return lines[len(lines)-1]
}

// evil holds characters that could control a terminal or deceive a reader.
const evil = "a\x1b]0;title\x07\x1b[2J\u009b31m\r\n\x00\x7f\u202ebidi\u2028\u200b\U000e0041\xffz"

// T1: no output contains a control character.
func TestInjection(t *testing.T) {
	var out bytes.Buffer
	for _, js := range []bool{false, true} {
		s := newScreen(t, func(o *terminal.Options) { o.JSON, o.Verbose = js, 1 })
		poison(s)
		out.WriteString(s.both())
	}
	sum := session.Summary{ID: evil, Short: evil, State: evil, Reason: evil, Task: evil, Workspace: evil}
	row := app.Row{Summary: sum}
	far := []terminal.RemoteRow{{RemoteSummary: session.RemoteSummary{Summary: sum, Host: evil, Device: evil}}}
	view := app.Status{Row: row, Detail: evil, Holder: &app.Holder{Host: evil, Command: evil}, Notes: []string{evil}, Next: session.Words(evil)}
	it := session.Item{Title: evil, Label: evil, Why: evil, Status: evil, Kind: evil}
	steps := []app.StepDetails{{Item: it, Code: evil, Message: evil}}
	changed := []session.ChangedFile{{Path: evil, Kind: evil, Session: evil}}
	dry := app.Forecast{Session: &session.Session{Short: evil, State: evil}, Next: session.Continuation{Items: []session.Item{it}}, Changed: changed}
	event := session.Event{Type: evil, Actor: evil, Payload: []byte(evil), Session: evil}
	fine := session.Event{Type: session.StepUnknown, Payload: []byte(`{"why":"\u001b[2J\u009b"}`)}
	for _, js := range []bool{false, true} {
		p := page(&out, js)
		for _, err := range []error{
			p.List([]app.Row{row}, true), p.RemoteList(far, errors.New(evil)), p.Found([]app.Row{row}, nil, session.Words(evil)),
			p.Show(app.Details{Status: view, Titles: []string{evil}, Steps: steps}), p.DryRun(dry), p.History(listed(event, fine)),
			p.ConfigShow([]terminal.Setting{{evil, evil, evil}}, true), p.ConfigShow([]terminal.Setting{{evil, evil, evil}}, false),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	terminal.Error(&out, &session.Error{Code: evil, Message: evil, Place: evil, Next: session.Words(evil)}, "")
	_, _ = terminal.Ask(strings.NewReader("y\n"), &out, evil, true)
	_, _ = terminal.Approve(strings.NewReader("no\n"), &out, evil)
	_, _ = terminal.Choose(strings.NewReader("a\n"), &out, []string{"[A]" + evil})
	assertHarmless(t, out.String())
	if n := strings.Count(out.String(), "bidi"); n < 60 {
		t.Errorf("the poison was shown %d times, want it everywhere: this test proves nothing", n)
	}
}

// poison prints every kind of notice with evil in every text.
func poison(s *screen) {
	sess := aSession(evil)
	sess.ID, sess.Short, sess.Task, sess.Workspace = evil, evil, evil, evil
	it := session.Item{Title: evil, Label: evil, Why: evil, Status: evil, Action: session.ActionSkip, Task: 1, Step: 1}
	c := &session.Continuation{Items: []session.Item{it}}
	for _, kind := range []session.NoticeKind{
		session.NoticeSession, session.NoticeCheck, session.NoticeChanged, session.NoticeHeader, session.NoticeStarted,
		session.NoticeHandling, session.NoticeOutput, session.NoticeCompleted, session.NoticeFailed, session.NoticeUncertain,
		session.NoticeAsking, session.NoticeInfo, session.NoticeWarning, evil, session.NoticeResult,
	} {
		s.Notice(session.Notice{
			Kind: kind, Session: sess, Next: c, Item: &it, Text: evil, Detail: []string{evil}, Level: evil,
			Changed: &session.ChangedFile{Path: evil, Kind: evil, Session: evil, Asks: true},
			Result:  &session.Result{Session: evil, Short: evil, State: evil, Reason: evil, Code: evil, Message: evil, Next: session.Words(evil)},
		})
	}
}

func assertHarmless(t *testing.T, out string) {
	t.Helper()
	for _, bad := range []string{"\x1b", "\x07", "\u009b", "\r", "\x00", "\x7f", "\u202e", "\u2028", "\u200b", "\U000e0041", "\xff"} {
		if i := strings.Index(out, bad); i >= 0 {
			t.Errorf("output holds %q: %q", bad, out[max(0, i-60):min(len(out), i+20)])
		}
	}
}

func TestClean(t *testing.T) {
	for in, out := range map[string]string{
		"plain text, ünï 日本 👩\u200d🚀": "plain text, ünï 日本 👩\u200d🚀",
		evil:             `a\x1b]0;title\x07\x1b[2J\x9b31m\r\n\x00\x7f\u202ebidi\u2028\u200b\U000e0041\xffz`,
		"a\tb\ufffd\xc3": "a\\tb\ufffd\\xc3",
	} {
		want(t, "Clean", terminal.Clean(in), out)
	}
	want(t, "CleanLines", terminal.CleanLines("a\r\n\tb\rc\x1b"), "a\n\tb\\rc\\x1b")
}

func FuzzClean(f *testing.F) {
	f.Add(evil)
	f.Fuzz(func(t *testing.T, s string) {
		once := terminal.Clean(s)
		assertHarmless(t, once)
		if twice := terminal.Clean(once); twice != once {
			t.Errorf("Clean(%q): got %q, cleaned again %q", s, once, twice)
		}
	})
}

// A question reads its own line and leaves the rest to the next one.
func TestPrompts(t *testing.T) {
	in := strings.NewReader("perhaps\n\nNO\nyes\nview\nx\nA\r\ntail")
	var out bytes.Buffer
	options := []string{"[C]ontinue anyway", "[A]bort", "[V]iew changes", "no letter"}
	yes, err := terminal.Ask(in, &out, "One?", true)
	check(t, "default after an answer that is none", yes, true, err)
	yes, err = terminal.Ask(in, &out, "Two?", true)
	check(t, "no", yes, false, err)
	yes, err = terminal.Approve(in, &out, "Three?")
	check(t, "yes", yes, true, err)
	r, err := terminal.Choose(in, &out, options)
	check(t, "word", r, "v", err)
	r, err = terminal.Choose(in, &out, options)
	check(t, "letter after one that is none", r, "a", err)
	yes, err = terminal.Approve(in, &out, "Tail?")
	if yes || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("Approve at the end: got %v, %v, want false, %v", yes, err, io.ErrUnexpectedEOF)
	}
	golden(t, "prompts", out.String()+"\n")
}

func check[T comparable](t *testing.T, what string, got, want T, err error) {
	t.Helper()
	if got != want || err != nil {
		t.Errorf("%s: got %v, %v, want %v", what, got, err, want)
	}
}

// A question is not repeated for ever. A broken input is no answer; an end without
// newline is one.
func TestPromptsEnd(t *testing.T) {
	_, err := terminal.Approve(strings.NewReader(strings.Repeat("y\n", 99)), io.Discard, "Sure?")
	if !errors.Is(err, session.ErrUsage) {
		t.Errorf("Approve of no answer: got %v, want %s", err, session.ErrUsage)
	}
	_, err = terminal.Ask(brokenReader{}, io.Discard, "Sure?", true)
	if !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Ask of a broken input: got %v, want %v", err, io.ErrClosedPipe)
	}
	// A terminal that was closed.
	_, err = terminal.Ask(iotest.ErrReader(syscall.EIO), io.Discard, "Sure?", true)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("Ask on a terminal that was closed: got %v, want %v", err, io.ErrUnexpectedEOF)
	}
	yes, err := terminal.Ask(strings.NewReader("y"), io.Discard, "Sure?", false)
	check(t, "y without newline", yes, true, err)
	no, err := terminal.Ask(strings.NewReader("\n"), io.Discard, "Sure?", false)
	check(t, "default no", no, false, err)
	long, err := terminal.Ask(strings.NewReader(strings.Repeat("n", 99999)+"\ny\n"), io.Discard, "Sure?", false)
	check(t, "after an endless line", long, true, err)
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestDetect(t *testing.T) {
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer tty.Close()
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 10, Cols: 123}); err != nil {
		t.Fatal(err)
	}
	file, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, c := range map[string]struct {
		out                *os.File
		env                map[string]string
		live, color, ascii bool
		width              int
	}{
		"terminal":    {out: tty, live: true, color: true, width: 123},
		"file":        {out: file, width: 80},
		"dumb":        {out: tty, env: map[string]string{"TERM": "dumb"}, width: 123},
		"unknown":     {out: tty, env: map[string]string{"TERM": ""}, width: 123},
		"ci":          {out: tty, env: map[string]string{"CI": "true"}, color: true, width: 123},
		"ci_false":    {out: tty, env: map[string]string{"CI": "false"}, live: true, color: true, width: 123},
		"no_color":    {out: tty, env: map[string]string{"NO_COLOR": "1"}, live: true, width: 123},
		"c_locale":    {out: tty, env: map[string]string{"LC_ALL": "C", "LANG": "en_US.UTF-8"}, live: true, color: true, ascii: true, width: 123},
		"utf8_locale": {out: tty, env: map[string]string{"LC_CTYPE": "C.UTF-8", "LANG": "C"}, live: true, color: true, width: 123},
		"posix_lang":  {out: file, env: map[string]string{"LANG": "POSIX"}, ascii: true, width: 80},
	} {
		t.Run(name, func(t *testing.T) {
			if c.out == tty && !term.IsTerminal(int(tty.Fd())) {
				t.Fatal("the pty is no terminal")
			}
			env := map[string]string{"TERM": "xterm"}
			maps.Copy(env, c.env)
			o := terminal.Detect(c.out, func(k string) string { return env[k] })
			if o.Live != c.live || o.Color != c.color || o.ASCII != c.ascii || o.Width() != c.width {
				t.Errorf("Detect: got live %v, color %v, ascii %v, width %d, want %v, %v, %v, %d", o.Live, o.Color, o.ASCII, o.Width(), c.live, c.color, c.ascii, c.width)
			}
		})
	}
}

// Times have the formats of the manual.
func TestDurations(t *testing.T) {
	for d, shown := range map[time.Duration]string{
		10 * time.Microsecond: "<1ms", 40 * time.Millisecond: "40ms", 400 * time.Millisecond: "0.4s",
		1200 * time.Millisecond: "1.2s", 3 * time.Second: "3s", 9960 * time.Millisecond: "10s", 12 * time.Second: "12s",
		59600 * time.Millisecond: "59s", 125 * time.Second: "2m05s", 3725 * time.Second: "1h02m", -time.Second: "<1ms",
	} {
		s := newScreen(t, nil)
		s.Notice(session.Notice{Kind: session.NoticeCompleted, Item: &session.Item{Task: 1, Step: 1}, Took: d})
		want(t, d.String(), s.out.String(), "  ✓ Task 1, Step 1 ("+shown+")\n")
	}
}
