package terminal_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// golden compares got with testdata/<name>.golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", path, d)
	}
}

func clock() time.Time { return time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC) }

func usAgo(d time.Duration) int64 { return clock().Add(-d).UnixMicro() }

const sessionID = session.ID("0190b5a2-7c1e-7000-8000-000000000001")

// screen is a printer with its output.
type screen struct {
	*terminal.Printer
	out, err bytes.Buffer
}

func newScreen(t *testing.T, change func(*terminal.Options)) *screen {
	t.Helper()
	s := &screen{}
	o := terminal.Options{Page: page(&s.out, false), Err: &s.err, Exit: func(r session.Result) int {
		return min(len(r.Code), 1)
	}}
	if change != nil {
		change(&o)
	}
	s.Printer = terminal.New(o)
	t.Cleanup(s.Close)
	return s
}

// both returns standard output and, below a rule, standard error.
func (s *screen) both() string {
	if s.err.Len() == 0 {
		return s.out.String()
	}
	return s.out.String() + "--- stderr\n" + s.err.String()
}

func aSession(state session.State) *session.Session {
	return &session.Session{
		ID: sessionID, Short: "abc123", Task: "Add input validation", Workspace: "/home/me/project",
		State: state, Epoch: 1, Steps: map[session.StepID]*session.StepState{},
	}
}

func item(task, step int, title, label string, a session.Action, took time.Duration) session.Item {
	return session.Item{
		ID:   session.StepID{Task: "t" + string(rune('0'+task)), Step: "s" + string(rune('0'+step))},
		Task: task, Step: step, Title: title, Label: label, Kind: session.KindWrite, Action: a, Attempt: 1, Took: took,
	}
}

// manual returns the continuation of the user manual's example.
func manual() *session.Continuation {
	const skip, do = session.ActionSkip, session.ActionExecute
	c := &session.Continuation{
		Items: []session.Item{
			item(1, 1, "Analyze existing code", "Read src", skip, 5*time.Second),
			item(1, 2, "Analyze existing code", "Find login", skip, 5*time.Second),
			item(1, 3, "Analyze existing code", "List validators", skip, 2*time.Second),
			item(2, 1, "Validate", "Add helper", skip, time.Second),
			item(2, 2, "Validate", "Add types", skip, 2*time.Second),
			item(2, 3, "Validate", "Add email validator", session.ActionProceed, 0),
			item(2, 4, "Validate", "Add phone validator", do, 0),
			item(3, 1, "Finish", "Run tests", do, 0),
		},
		Skipped: 5, Remaining: 3, InProgress: []int{5}, Tasks: 3, TasksDone: 1, Saved: 15 * time.Second,
	}
	return c
}
