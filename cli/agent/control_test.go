package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acode-dev/acode/internal/caller"
)

// controlled starts a server of control tools that may change something.
func (p place) controlled(args ...string) client {
	p.t.Helper()
	c := p.begin(append([]string{"mcp", "--allow-write"}, args...)...)
	if err := c.Hello("tester", nil); err != nil {
		p.t.Fatal(err)
	}
	return c
}

// begin starts a server.
func (p place) begin(args ...string) client {
	p.t.Helper()
	c, err := caller.Start(p.command(args...))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = c.Process.Kill() }) // it may have ended
	return client{c, p.t}
}

// done makes a call of a control tool that must succeed.
func (c client) done(outcome, tool string, arguments map[string]any) caller.Structured {
	c.t.Helper()
	return c.want(outcome, tool, arguments).Structured
}

// no makes a call that must be refused with a code, and whose hint must have the words.
func (c client) no(code, hint, tool string, arguments map[string]any) caller.Structured {
	c.t.Helper()
	r, err := c.Call(tool, arguments)
	if s := r.Structured; err != nil || !r.IsError || s.Outcome != "denied" || s.Code != code || !strings.Contains(s.Hint, hint) || !strings.Contains(r.Content[0].Text, code) {
		c.t.Fatalf("%s %v: got %+v, %v, want %s with the hint %q", tool, arguments, r, err, code, hint)
	}
	return r.Structured
}

// planOf returns a plan of one task whose steps have the ids a, b and so on.
func planOf(steps ...string) string {
	text := "version: 1\ntask: Try it\ntasks:\n  - id: one\n    steps:\n"
	for i, s := range steps {
		text += fmt.Sprintf("      - {id: %c, %s}\n", 'a'+i, s)
	}
	return text
}

// shown is the data of GetTask.
type shown struct {
	Session struct {
		State   string `json:"state"`
		Reason  string `json:"reason"`
		Running bool   `json:"running"`
	} `json:"session"`
	Holder *struct{ PID int } `json:"holder"`
	Left   int                `json:"left"`
}

// get waits until a task stops, and returns how it is.
func (c client) get(id string, wait int) (s shown) {
	c.t.Helper()
	r := c.done("done", "GetTask", map[string]any{"task_id": id, "wait_s": wait})
	if err := json.Unmarshal(r.Data, &s); err != nil || r.TaskID == "" || r.Text == "" {
		c.t.Fatalf("GetTask: got %s, %v", r.Data, err)
	}
	return s
}

func (c client) state(id, want string) {
	c.t.Helper()
	if s := c.get(id, 30); s.Session.State != want {
		c.t.Fatalf("task %s: got %+v, want %s", id, s, want)
	}
}

// run starts a task and returns its id.
func (c client) run(request, plan string) string {
	c.t.Helper()
	return c.done("started", "RunTask", map[string]any{"plan": plan, "request_id": request}).TaskID
}

func (p place) write(name, content string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.ws, name), []byte(content), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// A client starts a task from a text and from a file, with params, and looks at it.
func TestTasks(t *testing.T) {
	p := newPlace(t)
	c := p.controlled()
	if got := string(c.done("done", "ListTasks", nil).Data); got != `{"v":1,"sessions":[]}` {
		t.Errorf("ListTasks without a store: got %s", got)
	}
	id := c.run("r1", planOf("run: echo said", "run: echo line >> ledger"))
	c.state(id, "completed")
	if got := p.read("ledger"); got != "line\n" {
		t.Errorf("ledger: got %q", got)
	}
	p.write("plan.yml", "params:\n  - {name: WHO, required: true}\n"+planOf("run: echo $WHO >> ledger"))
	c.no("ACODE-USAGE-001", "params", "RunTask", map[string]any{"file": "plan.yml", "request_id": "r2"})
	c.no("ACODE-USAGE-001", "acode run FILE", "RunTask", map[string]any{"plan": planOf("prompt: Fix it"), "request_id": "r3"})
	second := c.done("started", "RunTask", map[string]any{"file": "plan.yml", "params": map[string]any{"WHO": "anna"}, "request_id": "r2"})
	c.state(second.TaskID, "completed")
	if got := p.read("ledger"); got != "line\nanna\n" {
		t.Errorf("ledger: got %q", got)
	}
	for tool, want := range map[string]string{"ListTasks": id, "GetTask": "Try it", "TaskLogs": "== one/a, attempt 1\nsaid\n", "ListCheckpoints": "2 checkpoints", "ListApprovals": "No question", "SyncStatus": "off (local only)"} {
		args := map[string]any{"task_id": id}
		if tool == "ListTasks" {
			args = nil
		}
		if r := c.done("done", tool, args); !strings.Contains(r.Text+string(r.Data), want) {
			t.Errorf("%s: got %q and %s, want %q", tool, r.Text, r.Data, want)
		}
	}
	if r := c.done("done", "TaskLogs", map[string]any{"task_id": id, "step": "one/a", "limit": 3}); !strings.HasSuffix(r.Text, "left out …\nid\n") {
		t.Errorf("TaskLogs: got %q, want its end", r.Text)
	}
}

// Without --allow-write the tools that change something are not listed, and refused.
func TestControlReadsOnly(t *testing.T) {
	p := newPlace(t)
	c := p.begin("mcp")
	if err := c.Hello("tester", nil); err != nil {
		t.Fatal(err)
	}
	m, err := c.Request("tools/list", map[string]any{})
	if err != nil || strings.Contains(string(m.Result), "RunTask") || !strings.Contains(string(m.Result), "GetTask") {
		t.Errorf("tools/list: got %s, %v, want only tools that read", m.Result, err)
	}
	c.no("ACODE-APPROVAL-002", "--allow-write", "RunTask", map[string]any{"plan": planOf("run: touch here"), "request_id": "r"})
	if _, err := os.Stat(filepath.Join(p.ws, "..", "state")); !os.IsNotExist(err) {
		t.Errorf("the store: got %v, want none", err)
	}
}

// A request that is made again under its name gets the same answer and does nothing
// twice, also at another server. Another request under that name is a conflict.
func TestSameRequest(t *testing.T) {
	p := newPlace(t)
	c := p.controlled()
	run := map[string]any{"plan": planOf("run: echo line >> ledger; test -e fixed", "approve: Go on?"), "request_id": "r1"}
	resume, cancel := map[string]any{"request_id": "r2"}, map[string]any{"request_id": "r3", "reason": "enough"}
	answers := map[string]string{}
	same := func(tool string, args map[string]any) {
		t.Helper()
		r, err := c.Call(tool, args)
		answer := fmt.Sprintf("%+v", r)
		if answers[tool] == "" {
			answers[tool] = answer
		}
		if err != nil || r.IsError || answer != answers[tool] {
			t.Fatalf("%s: got %s, %v, want %s", tool, answer, err, answers[tool])
		}
	}
	again := func() {
		t.Helper()
		for _, restart := range []bool{false, true} {
			if restart {
				c.kill()
				c = p.controlled()
			}
			for tool, args := range map[string]map[string]any{"RunTask": run, "ResumeTask": resume, "CancelTask": cancel} {
				if answers[tool] != "" {
					same(tool, args)
				}
			}
		}
	}
	same("RunTask", run)
	id := c.done("started", "RunTask", run).TaskID
	resume["task_id"], cancel["task_id"] = id, id
	c.state(id, "paused")
	again()
	c.no("ACODE-RESUME-007", "its own request_id", "RunTask", map[string]any{"plan": planOf("run: 'true'"), "request_id": "r1"})
	c.no("ACODE-RESUME-007", "its own request_id", "CancelTask", map[string]any{"task_id": id, "request_id": "r1"})
	p.write("fixed", "")
	same("ResumeTask", resume)
	c.state(id, "awaiting_approval")
	again()
	c.no("ACODE-RESUME-007", "its own request_id", "ResumeTask", map[string]any{"task_id": id, "request_id": "r2", "conflict": "override"})
	same("CancelTask", cancel)
	again()
	if got := p.read("ledger"); got != "line\nline\n" {
		t.Errorf("ledger: got %q, want a line for the run and one for the resume", got)
	}
	if got := strings.Count(string(c.done("done", "ListTasks", nil).Data), `"short_id"`); got != 1 {
		t.Errorf("ListTasks: got %d tasks, want 1", got)
	}
}

// The server is killed at any moment of a request. The request that is made again makes
// one task, whose effects happen once.
func TestRequestAfterKill(t *testing.T) {
	p := newPlace(t)
	p.controlled().run("warm", planOf("run: 'true'"))
	const kills = 4
	for i := range kills {
		run := map[string]any{"plan": planOf(fmt.Sprintf("run: echo %d >> ledger", i)), "request_id": fmt.Sprint("run ", i)}
		c := p.controlled()
		if _, err := c.BeginCall("RunTask", run); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Duration(i) * 3 * time.Millisecond)
		c.kill()
		c = p.controlled()
		var id string
		p.until("the task starts", func() bool {
			r, err := c.Call("RunTask", run)
			id = r.Structured.TaskID
			return err == nil && (!r.IsError || !r.Structured.Retryable)
		})
		c.state(id, "completed")
	}
	want := ""
	for i := range kills {
		want += fmt.Sprintln(i)
	}
	if got := p.read("ledger"); got != want {
		t.Errorf("ledger: got %q, want %q", got, want)
	}
	if got := strings.Count(string(p.controlled().done("done", "ListTasks", nil).Data), `"short_id"`); got != kills+1 {
		t.Errorf("ListTasks: got %d tasks, want %d", got, kills+1)
	}
}

// A signal that ends the client with its whole process group does not reach a task.
func TestTaskOutlivesTheGroupOfItsClient(t *testing.T) {
	p := newPlace(t)
	cmd := p.command("mcp", "--allow-write")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	server, err := caller.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	c := client{server, t}
	if err := c.Hello("tester", nil); err != nil {
		t.Fatal(err)
	}
	id := c.run("r1", planOf("run: 'touch began; until test -e go; do sleep 0.02; done; echo line >> ledger'"))
	p.until("the step", func() bool { return p.has("began") })
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
	c = p.controlled()
	if s := c.get(id, 0); !s.Session.Running {
		t.Errorf("after the end of the group: got %+v, want the task to run", s)
	}
	p.write("go", "")
	c.state(id, "completed")
	if got := p.read("ledger"); got != "line\n" {
		t.Errorf("ledger: got %q", got)
	}
}

// A task continues when its client and server are gone. When its own process is killed, a
// resume from the last checkpoint completes it, and no step is repeated.
func TestTaskAfterKills(t *testing.T) {
	p := newPlace(t)
	c := p.controlled()
	id := c.run("r1", planOf("run: echo a >> ledger", "run: 'echo b >> ledger; until test -e go; do sleep 0.02; done'", "run: echo c >> ledger"))
	p.until("the second step", func() bool {
		_, err := os.Stat(filepath.Join(p.ws, "ledger"))
		return err == nil && p.read("ledger") == "a\nb\n"
	})
	c.kill()
	c = p.controlled()
	s := c.get(id, 0)
	if s.Holder == nil || !s.Session.Running {
		t.Fatalf("after the end of the server: got %+v, want the task to run", s)
	}
	if err := syscall.Kill(s.Holder.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.until("killed", func() bool { return !c.get(id, 0).Session.Running })
	c.done("resumed", "ResumeTask", map[string]any{"task_id": id, "request_id": "r2"})
	c.no("INVALID_OPERATION", "GetTask", "ResumeTask", map[string]any{"task_id": id, "request_id": "r3"})
	p.write("go", "")
	c.state(id, "completed")
	if got := p.read("ledger"); got != "a\nb\nc\n" {
		t.Errorf("ledger: got %q, want each line once", got)
	}
	if out, err := p.command("verify").Output(); err != nil {
		t.Errorf("acode verify: %v\n%s", err, out)
	}
}

// A task that is over, runs, or cannot be tried again cannot be resumed.
func TestInvalidOperation(t *testing.T) {
	p := newPlace(t)
	c := p.controlled()
	ids := map[string]string{
		"completed": c.run("completed", planOf("run: 'true'")),
	}
	c.state(ids["completed"], "completed")
	ids["failed"] = c.run("failed", "on_failure: fail\n"+planOf("run: exit 1"))
	c.state(ids["failed"], "failed")
	ids["cancelled"] = c.run("cancelled", planOf("run: exit 1"))
	c.state(ids["cancelled"], "paused")
	c.done("cancelled", "CancelTask", map[string]any{"task_id": ids["cancelled"], "request_id": "cancel"})
	ids["running"] = c.run("running", planOf("run: 'touch began; until test -e go; do sleep 0.02; done'"))
	p.until("the command begins", func() bool { return p.has("began") })
	before := p.state()
	for state, id := range ids {
		r := c.no("INVALID_OPERATION", "call ", "ResumeTask", map[string]any{"task_id": id, "request_id": "resume " + state})
		if want := map[string]string{"running": "ACODE-RESUME-003"}[state]; r.Cause != cmp.Or(want, "ACODE-RESUME-002") || r.Retryable != (state == "running") {
			t.Errorf("%s: got %+v", state, r)
		}
		if state != "running" {
			c.no("INVALID_OPERATION", "GetTask", "CancelTask", map[string]any{"task_id": id, "request_id": "cancel " + state})
		}
	}
	for _, later := range []map[string]any{{"retry": true}, {"context": "try harder"}} {
		later["task_id"], later["request_id"] = ids["failed"], "later"
		if r := c.no("INVALID_OPERATION", "RunTask", "ResumeTask", later); !strings.Contains(r.Message, "not possible yet") {
			t.Errorf("got %+v", r)
		}
	}
	if after := p.state(); after != before {
		t.Errorf("the state changed from %s to %s", before, after)
	}
	p.write("go", "")
	c.state(ids["running"], "completed")
}

// sql changes the database in spite of its triggers.
func (p place) sql(text string) {
	p.t.Helper()
	db := filepath.Join(p.ws, "..", "state", "acode.db")
	triggers, err := exec.Command("sqlite3", db, "SELECT 'DROP TRIGGER '||name||';' FROM sqlite_schema WHERE type='trigger'").Output()
	if err != nil {
		p.t.Fatal(err)
	}
	again, err := exec.Command("sqlite3", db, "SELECT sql||';' FROM sqlite_schema WHERE type='trigger' ORDER BY rowid").Output()
	if err != nil {
		p.t.Fatal(err)
	}
	if out, err := exec.Command("sqlite3", db, string(triggers)+text+";\n"+string(again)).CombinedOutput(); err != nil {
		p.t.Fatalf("sqlite3: %v\n%s", err, out)
	}
}

// Damaged checkpoints are named. Without any intact one a task cannot be resumed.
func TestInvalidState(t *testing.T) {
	p := newPlace(t)
	c := p.controlled()
	id := c.run("r1", planOf("run: echo a >> ledger", "run: echo b >> ledger", "run: exit 1"))
	c.state(id, "paused")
	damaged := func() int {
		return strings.Count(string(c.done("done", "ListCheckpoints", map[string]any{"task_id": id}).Data), `"damaged":true`)
	}
	if got := damaged(); got != 0 {
		t.Errorf("damaged checkpoints: got %d, want 0", got)
	}
	p.sql("UPDATE events SET checkpoint = zeroblob(65) WHERE seq = (SELECT max(seq) FROM events WHERE checkpoint IS NOT NULL)")
	if got := damaged(); got != 1 {
		t.Errorf("damaged checkpoints: got %d, want 1", got)
	}
	p.sql("UPDATE events SET checkpoint = zeroblob(65) WHERE checkpoint IS NOT NULL")
	if got := damaged(); got != 3 {
		t.Errorf("damaged checkpoints: got %d, want 3", got)
	}
	if r := c.no("INVALID_STATE", "acode verify", "ResumeTask", map[string]any{"task_id": id, "request_id": "r2"}); r.Cause != "ACODE-RESUME-005" {
		t.Errorf("got %+v", r)
	}
	if got := p.read("ledger"); got != "a\nb\n" {
		t.Errorf("ledger: got %q", got)
	}
}

// A task whose files changed is resumed only with conflict: override. The refusal names
// the files.
func TestConflict(t *testing.T) {
	p := newPlace(t)
	c := p.controlled()
	id := c.run("r1", planOf("write: {path: mine, content: old}", "write: {path: kept, content: old}", "run: test -e fixed"))
	c.state(id, "paused")
	p.write("mine", "new")
	p.write("fixed", "")
	p.write("other", "")
	before := p.state()
	for i, conflict := range []string{"", "fail"} {
		args := map[string]any{"task_id": id, "request_id": fmt.Sprint("fail ", i)}
		if conflict != "" {
			args["conflict"] = conflict
		}
		if r := c.no("ACODE-RESUME-004", "conflict override", "ResumeTask", args); !slices.Equal(r.ChangedFiles, []string{"mine"}) {
			t.Errorf("changed files: got %q, want mine", r.ChangedFiles)
		}
	}
	if after := p.state(); after != before {
		t.Errorf("the state changed from %s to %s", before, after)
	}
	c.done("resumed", "ResumeTask", map[string]any{"task_id": id, "request_id": "r2", "conflict": "override"})
	c.state(id, "completed")
}

// A client that waits for a task is told of each step that is completed.
func TestProgress(t *testing.T) {
	p := newPlace(t)
	c := p.controlled()
	id := c.run("r1", planOf("run: 'until test -e go; do sleep 0.02; done'", "run: 'true'", "run: 'true'"))
	answer, err := c.Begin("tools/call", map[string]any{"name": "GetTask", "arguments": map[string]any{"task_id": id, "wait_s": 60}, "_meta": map[string]any{"progressToken": "mine"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Stray(0); err != nil { // the server follows the task
		t.Fatal(err)
	}
	p.write("go", "")
	if m, err := c.Await(answer); err != nil || !strings.Contains(string(m.Result), `"state":"completed"`) {
		t.Fatalf("GetTask: got %s, %v", m.Result, err)
	}
	for n, want := range []string{"waiting", "one/a: Run until", "one/b: Run true", "one/c: Run true"} {
		m, err := c.Stray(n)
		if err != nil {
			t.Fatal(err)
		}
		var of struct {
			ProgressToken, Message string
			Progress, Total        float64
		}
		if json.Unmarshal(m.Params, &of) != nil || m.Method != "notifications/progress" || of.ProgressToken != "mine" || of.Progress != float64(n) || of.Total != 3 || !strings.HasPrefix(of.Message, want) {
			t.Errorf("notification %d: got %s %s, want %q", n, m.Method, m.Params, want)
		}
	}
	id = c.run("r2", planOf("run: 'until test -e stop; do sleep 0.02; done'"))
	if s := c.get(id, 1); !s.Session.Running {
		t.Errorf("after a second: got %+v, want the task to run", s)
	}
	p.write("stop", "")
	c.state(id, "completed")
}

// The commands of a plan that a client sends run in a sandbox, also after a resume,
// unless a person switched it off.
func TestTasksAreConfined(t *testing.T) {
	p := newPlace(t)
	outside := filepath.Join(p.ws, "..", "outside")
	text := planOf("run: 'echo a >> "+outside+" || true; echo ran >> ledger'", "run: 'test -e fixed; echo b >> "+outside+" || true; echo ran >> ledger'")
	c := p.controlled()
	id := c.run("r1", text)
	c.state(id, "paused")
	p.write("fixed", "")
	c.done("resumed", "ResumeTask", map[string]any{"task_id": id, "request_id": "r2"})
	c.state(id, "completed")
	if _, err := os.Stat(outside); !os.IsNotExist(err) || p.read("ledger") != "ran\nran\n" {
		t.Errorf("outside: got %v and the ledger %q, want no file and two lines", err, p.read("ledger"))
	}
	c = p.controlled("--sandbox", "off")
	c.state(c.run("r3", text), "completed")
	if got := p.read("../outside"); got != "a\nb\n" {
		t.Errorf("without a sandbox: got %q", got)
	}
}

// Two clients, one of tasks and one of files and commands, and a person's run take turns
// in one workspace.
func TestTwoClientsAndARun(t *testing.T) {
	p := newPlace(t)
	c, agent := p.controlled(), p.serve()
	p.write("plan.yml", planOf("run: 'echo person >> ledger; until test -e go; do sleep 0.02; done'"))
	run := p.command("run", "plan.yml", "--quiet")
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	p.until("the run", func() bool { _, err := os.Stat(filepath.Join(p.ws, "ledger")); return err == nil })
	ours := map[string]any{"plan": planOf("run: echo task >> ledger"), "request_id": "r1"}
	if r := c.no("ACODE-RESUME-003", "", "RunTask", ours); !r.Retryable || !strings.Contains(r.Message, "acode run plan.yml") {
		t.Errorf("RunTask: got %+v, want it to name the run", r)
	}
	if r := agent.want("denied", "run_command", command("echo agent >> ledger")); r.Structured.Code != "ACODE-RESUME-003" || !r.Structured.Retryable {
		t.Errorf("run_command: got %+v, want it refused", r.Structured)
	}
	if list := c.done("done", "ListTasks", nil); !strings.Contains(string(list.Data), `"running":true`) {
		t.Errorf("ListTasks: got %s, want the run in it", list.Data)
	}
	p.write("go", "")
	if err := run.Wait(); err != nil {
		t.Fatal(err)
	}
	agent.want("done", "run_command", command("echo agent >> ledger"))
	c.state(c.done("started", "RunTask", ours).TaskID, "completed")
	agent.want("done", "run_command", command("echo again >> ledger"))
	if got := p.read("ledger"); got != "person\nagent\ntask\nagain\n" {
		t.Errorf("ledger: got %q", got)
	}
	list := c.done("done", "ListTasks", nil)
	if got := strings.Count(string(list.Data), `"short_id"`); got != 3 {
		t.Errorf("ListTasks: got %d tasks, want 3: %s", got, list.Text)
	}
}
