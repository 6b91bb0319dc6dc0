package terminal_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

func outline() terminal.OutlineView {
	item := func(task, step int, kind session.Kind, label string) session.Item {
		return session.Item{ID: session.StepID{Task: "t", Step: "s"}, Task: task, Step: step, Title: "Build\x1b[2J", Label: label, Kind: kind,
			Action: session.ActionExecute, Status: session.Pending, Attempt: 1}
	}
	return terminal.OutlineView{
		Task: "Ship\nit", Workspace: "/home/me/shop", OnFailure: session.FailurePauses, Warnings: []string{"validation is off\x07"},
		Next: &session.Continuation{Tasks: 2, Items: []session.Item{
			item(2, 1, session.KindRun, "make\rall"), item(1, 1, session.KindWrite, "Write a"), item(1, 2, session.KindRun, "Run b")}},
	}
}

// Tasks are listed in the order in which they run, and all text of the plan is clean.
func TestOutline(t *testing.T) {
	var b bytes.Buffer
	if err := page(&b, false).Outline(outline()); err != nil {
		t.Fatal(err)
	}
	want := `Would run: Ship\nit
  Workspace: /home/me/shop
  Plan: 2 tasks, 3 steps (1 write, 2 run)
  On failure: pause
  Warning: validation is off\x07
  Task 2: Build\x1b[2J
    Step 1: make\rall (run)
  Task 1: Build\x1b[2J
    Step 1: Write a (write)
    Step 2: Run b (run)
Nothing was changed: this was a dry run.
`
	if b.String() != want {
		t.Errorf("Outline: got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestOutlineJSON(t *testing.T) {
	var b bytes.Buffer
	if err := page(&b, true).Outline(outline()); err != nil {
		t.Fatal(err)
	}
	var got struct {
		V, Tasks, Steps int
		Kinds           map[string]int
		Items           []struct{ Kind, Action string }
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || strings.Count(b.String(), "\n") != 1 {
		t.Fatalf("OutlineJSON: %v in %s", err, b.String())
	}
	if got.V != 1 || got.Tasks != 2 || got.Steps != 3 || got.Kinds["run"] != 2 || got.Kinds["write"] != 1 || len(got.Items) != 3 || got.Items[0].Kind != "run" {
		t.Errorf("OutlineJSON: got %+v", got)
	}
}
