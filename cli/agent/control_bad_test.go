package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acode-dev/acode/internal/caller"
)

// badControl are calls that a server of control tools refuses, as JSON of their
// arguments. ID stands for a task of the workspace, and OTHER for one of another
// workspace.
func badControl() map[string][2]string {
	plan := strings.ReplaceAll(planOf("run: touch here"), "\n", `\n`)
	return map[string][2]string{
		"unknown_tool":          {"ApproveTask", `{"task_id":"ID"}`},
		"tool_of_other_server":  {"run_command", `{"command":"touch here"}`},
		"unknown_argument":      {"RunTask", `{"plan":"` + plan + `","request_id":"a","yes":true}`},
		"other_case":            {"RunTask", `{"Plan":"` + plan + `","request_id":"a"}`},
		"no_request_id":         {"RunTask", `{"plan":"` + plan + `"}`},
		"empty_request_id":      {"RunTask", `{"plan":"` + plan + `","request_id":""}`},
		"long_request_id":       {"RunTask", `{"plan":"` + plan + `","request_id":"` + strings.Repeat("x", 201) + `"}`},
		"no_plan":               {"RunTask", `{"request_id":"a"}`},
		"two_plans":             {"RunTask", `{"plan":"` + plan + `","file":"plan.yml","request_id":"a"}`},
		"plan_twice":            {"RunTask", `{"plan":"` + plan + `","plan":"` + plan + `","request_id":"a"}`},
		"plan_of_no_plan":       {"RunTask", `{"plan":"hello","request_id":"a"}`},
		"plan_cut":              {"RunTask", `{"plan":"version: 1\ntask: x\ntasks:\n  - {id: a, steps: [{run: ","request_id":"a"}`},
		"plan_with_a_nul":       {"RunTask", `{"plan":"` + plan + `\u0000","request_id":"a"}`},
		"plan_as_an_object":     {"RunTask", `{"plan":{"version":1},"request_id":"a"}`},
		"ten_megabytes":         {"RunTask", `{"plan":"` + plan + strings.Repeat("#", 10<<20) + `","request_id":"a"}`},
		"file_above":            {"RunTask", `{"file":"../plan.yml","request_id":"a"}`},
		"file_through_a_link":   {"RunTask", `{"file":"link/plan.yml","request_id":"a"}`},
		"absolute_file":         {"RunTask", `{"file":"/etc/passwd","request_id":"a"}`},
		"no_such_file":          {"RunTask", `{"file":"none.yml","request_id":"a"}`},
		"directory_as_file":     {"RunTask", `{"file":"dir","request_id":"a"}`},
		"empty_file_name":       {"RunTask", `{"file":"","request_id":"a"}`},
		"unknown_param":         {"RunTask", `{"plan":"` + plan + `","params":{"X":"1"},"request_id":"a"}`},
		"number_as_param":       {"RunTask", `{"plan":"` + plan + `","params":{"X":1},"request_id":"a"}`},
		"params_as_text":        {"RunTask", `{"plan":"` + plan + `","params":"X=1","request_id":"a"}`},
		"param_twice":           {"RunTask", `{"plan":"` + plan + `","params":{"X":"1","X":"2"},"request_id":"a"}`},
		"resume_without_a_task": {"ResumeTask", `{"request_id":"a"}`},
		"resume_of_an_empty_id": {"ResumeTask", `{"task_id":"","request_id":"a"}`},
		"resume_of_unknown":     {"ResumeTask", `{"task_id":"nosuch","request_id":"a"}`},
		"resume_elsewhere":      {"ResumeTask", `{"task_id":"OTHER","request_id":"a"}`},
		"unknown_conflict":      {"ResumeTask", `{"task_id":"ID","conflict":"merge","request_id":"a"}`},
		"conflict_as_boolean":   {"ResumeTask", `{"task_id":"ID","conflict":true,"request_id":"a"}`},
		"retry":                 {"ResumeTask", `{"task_id":"ID","retry":true,"request_id":"a"}`},
		"context":               {"ResumeTask", `{"task_id":"ID","context":"x","request_id":"a"}`},
		"cancel_elsewhere":      {"CancelTask", `{"task_id":"OTHER","request_id":"a"}`},
		"cancel_of_unknown":     {"CancelTask", `{"task_id":"nosuch","request_id":"a"}`},
		"look_elsewhere":        {"GetTask", `{"task_id":"OTHER"}`},
		"logs_elsewhere":        {"TaskLogs", `{"task_id":"OTHER"}`},
		"checkpoints_elsewhere": {"ListCheckpoints", `{"task_id":"OTHER"}`},
		"approvals_elsewhere":   {"ListApprovals", `{"task_id":"OTHER"}`},
		"sync_elsewhere":        {"SyncStatus", `{"task_id":"OTHER"}`},
		"negative_wait":         {"GetTask", `{"task_id":"ID","wait_s":-1}`},
		"fraction":              {"GetTask", `{"task_id":"ID","wait_s":0.5}`},
		"no_step":               {"TaskLogs", `{"task_id":"ID","step":"one"}`},
		"unknown_step":          {"TaskLogs", `{"task_id":"ID","step":"one/x"}`},
		"limit_of_0":            {"ListTasks", `{"limit":0}`},
		"array_for_object":      {"ListTasks", `[1]`},
	}
}

// A bad call of a control tool changes neither the workspace nor the history, and the
// next call works.
func TestBadControlCalls(t *testing.T) {
	p, c, fill := badPlace(t)
	before := p.state()
	for name, call := range badControl() {
		t.Run(name, func(t *testing.T) {
			r, err := c.Call(call[0], json.RawMessage(fill.Replace(call[1])))
			if s := r.Structured; err != nil || !r.IsError || s.Outcome != "denied" || s.Code == "" || s.Hint == "" || len(s.Text) > 2000 {
				t.Errorf("got %+v, %v, want an error with code and hint", r, err)
			}
			if after := p.state(); after != before {
				t.Errorf("the state changed from %s to %s", before, after)
			}
		})
	}
	c.state(c.run("good", planOf("run: touch here")), "completed")
}

// badPlace returns a workspace with a task, and the ids of badControl.
func badPlace(t *testing.T) (place, client, *strings.Replacer) {
	t.Helper()
	p := newPlace(t)
	other := p
	other.ws = filepath.Join(p.ws, "..", "other")
	for _, dir := range []string{other.ws, filepath.Join(p.ws, "dir")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	other.write("plan.yml", planOf("run: touch here"))
	if err := os.Symlink("../other", filepath.Join(p.ws, "link")); err != nil {
		t.Fatal(err)
	}
	o := other.controlled()
	elsewhere := o.run("r", planOf("run: exit 1"))
	o.state(elsewhere, "paused")
	c := p.controlled()
	id := c.run("r", planOf("run: exit 1"))
	c.state(id, "paused")
	return p, c, strings.NewReplacer("ID", id, "OTHER", elsewhere)
}

// A bad line gets an error, changes nothing, and the next call works.
func TestBadControlLines(t *testing.T) {
	p, c, _ := badPlace(t)
	before := p.state()
	call := `{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"RunTask","arguments":`
	for name, line := range map[string]string{
		"half_a_line": call, "invalid_utf8": call + "{\"plan\":\"\xff\"}}}", "two_on_a_line": call + `{}}}` + call + `{}}}`, "no_json": "hello", "deep": strings.Repeat("[", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			answer := c.Expect("77")
			if err := c.Line(line); err != nil {
				t.Fatal(err)
			}
			if m, err := c.Request("ping", map[string]any{}); err != nil || m.Error != nil {
				t.Errorf("ping: got %+v, %v", m, err)
			}
			select {
			case m := <-answer:
				if r, err := m.Tool(); m.Error == nil && (err != nil || !r.IsError) {
					t.Errorf("got %+v, want an error", m)
				}
			default: // the error has no id
			}
			if after := p.state(); after != before {
				t.Errorf("the state changed from %s to %s", before, after)
			}
		})
	}
	c.state(c.run("good", planOf("run: touch here")), "completed")
}

// Of a thousand calls at once each has an answer, and equal requests make one task.
func TestThousandControlCalls(t *testing.T) {
	p := newPlace(t)
	c := p.controlled()
	var answers []<-chan caller.Message
	for i := range 1000 {
		tool, args := "ListTasks", map[string]any{}
		if i%10 == 0 {
			tool, args = "RunTask", map[string]any{"plan": planOf("run: echo line >> ledger"), "request_id": "the same"}
		}
		a, err := c.BeginCall(tool, args)
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, a)
	}
	for i, a := range answers {
		m, err := c.Await(a)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := m.Tool(); err != nil || r.IsError && (!r.Structured.Retryable || r.Structured.Hint == "") {
			t.Fatalf("call %d: got %+v, %v, want an answer or a retryable error", i, r, err)
		}
	}
	id := c.run("the same", planOf("run: echo line >> ledger"))
	c.state(id, "completed")
	if got := p.read("ledger"); got != "line\n" {
		t.Errorf("ledger: got %q, want one line", got)
	}
}

// A store that a newer acode wrote is refused.
func TestControlOfANewerStore(t *testing.T) {
	p := newPlace(t)
	c := p.controlled()
	c.state(c.run("r", planOf("run: echo line >> ledger")), "completed")
	p.sql("PRAGMA user_version = 99")
	for _, tool := range []string{"ListTasks", "RunTask"} {
		args := map[string]any{}
		if tool == "RunTask" {
			args = map[string]any{"plan": planOf("run: echo line >> ledger"), "request_id": "s"}
		}
		c.no("ACODE-STORE-001", "", tool, args)
	}
	p.sql("PRAGMA user_version = 1")
	if list := c.done("done", "ListTasks", nil); !strings.Contains(list.Text, "Try it") || p.read("ledger") != "line\n" {
		t.Errorf("afterwards: got %q and the ledger %q", list.Text, p.read("ledger"))
	}
}
