package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
	"github.com/acode-dev/acode/tool"
)

// ControlOptions configure a server of the control tools.
type ControlOptions struct {
	Connection
	// Write allows tools that start, continue and cancel tasks.
	Write bool
	// Open opens the store for the sessions of a workspace. The caller closes it. Without
	// write it opens the store for reading, and returns ErrUnknownID if there is none.
	Open func(ctx context.Context, workspace string, write bool) (*app.Site, error)
	// Check checks a plan and the values of its params. It changes nothing.
	Check func(ctx context.Context, plan []byte, params map[string]string) error
}

// control is the service of the control tools. They act on the sessions of a workspace,
// which they call tasks.
type control struct {
	*server
	options ControlOptions
	// turn is held while a request that changes something is carried out.
	turn sync.Mutex

	mu sync.Mutex
	// where is the workspace; empty before the first call.
	where string
}

// ServeControl serves the control tools to one client, as Serve does files and commands.
func ServeControl(ctx context.Context, o ControlOptions, in io.Reader, out io.Writer) error {
	o.fill()
	return serve(ctx, o.Connection, in, out, func(s *server) service { return &control{server: s, options: o} })
}

func (*control) tools() []tool.Tool { return controlTools() }

func (c *control) allows(p tool.Power) bool { return p == "" || c.options.Write }

func (c *control) words() words { return words{c.spell, controlHints()} }

func (*control) alive() {}

func (*control) close(bool) error { return nil }

// instructions implements service.
func (c *control) instructions() string {
	text := "acode executes tasks: plans of steps that survive every crash. A task continues when this client leaves.\n" +
		"- RunTask and ResumeTask return at once; GetTask says how the task is, and waits for its end with wait_s.\n" +
		"- Give each request that changes something its own request_id. To repeat a request whose answer you lost, use the same request_id: nothing is done twice.\n" +
		"- An approval needs a person, and so does a command whose outcome is unknown. No tool answers for a person."
	if !c.options.Write {
		text += "\n- This server only reads."
	}
	return text
}

const requestID = "request_id"

// controlTools returns the control tools in the order in which they are listed.
func controlTools() []tool.Tool {
	task := tool.Text("task_id", "the task: its id, its short id, or the beginning of one")
	some := task
	some.Required = false
	request := tool.Text(requestID, "your own name for this request, such as a UUID; the same name with the same arguments does nothing twice")
	plan := tool.Argument{Name: "plan", Default: "", About: "the plan as YAML or JSON text"}
	path := tool.Argument{Name: "file", Default: "", Path: true, About: "a plan file of the workspace, instead of plan"}
	return []tool.Tool{
		{Name: "RunTask", Title: "Run a task", Needs: tool.Write, Destroys: true, Open: true, About: "Start a task from a plan, given as text or as a file. It returns the task's id at once.",
			Args: []tool.Argument{plan, path, {Name: "params", Default: map[string]string{}, About: "values for the params of the plan, as strings"}, request}},
		{Name: "ResumeTask", Title: "Resume a task", Needs: tool.Write, Destroys: true, Open: true, About: "Continue a task from its last checkpoint. Completed steps are not repeated.",
			Args: []tool.Argument{task, {Name: "conflict", Default: "fail", Choices: []string{"fail", "override"}, About: "files that changed meanwhile: refuse, or continue with them"},
				{Name: "retry", Default: false, About: "try a failed task again (not yet)"}, {Name: "context", Default: "", About: "what to tell the next attempt (not yet)"}, request}},
		{Name: "CancelTask", Title: "Cancel a task", Needs: tool.Write, Destroys: true, About: "End a task for good, and its running commands.",
			Args: []tool.Argument{task, {Name: "reason", Default: "", About: "why"}, request}},
		{Name: "ListTasks", Title: "List tasks", About: "List the tasks of the workspace, the most recent first.", Args: []tool.Argument{tool.Number("limit", "how many at most", 50, 1, 10_000)}},
		{Name: "GetTask", Title: "Show a task", About: "Show the state of a task and of each step. With wait_s, wait until it stops; progress is reported to a client that asks for it.",
			Args: []tool.Argument{task, tool.Number("wait_s", "wait at most this many seconds until no process executes the task", 0, 0, 3600)}},
		{Name: "TaskLogs", Title: "Output of a task", About: "Return the end of the output of the commands of a task.",
			Args: []tool.Argument{task, {Name: "step", Default: "", About: "only this step, as TASK/STEP"}, tool.Number("attempt", "which attempt of the step; 0 means the latest", 0, 0, 1<<30),
				tool.Number("limit", "how many bytes at most", 20_000, 1, 1_000_000)}},
		{Name: "ListCheckpoints", Title: "List checkpoints", About: "List the last checkpoints of a task, and whether each is intact.",
			Args: []tool.Argument{task, tool.Number("limit", "how many at most", 100, 1, 10_000)}},
		{Name: "ListApprovals", Title: "List approvals", About: "List the questions that wait for a person. No tool answers them.", Args: []tool.Argument{some}},
		{Name: "SyncStatus", Title: "State of delivery", About: "Show the state of delivery to the server, of all tasks or of one.", Args: []tool.Argument{some}},
	}
}

// report is the structured content of an answer. It has the text too, as result does.
type report struct {
	Outcome   string     `json:"outcome"`
	RequestID string     `json:"request_id,omitempty"`
	TaskID    session.ID `json:"task_id,omitempty"`
	ShortID   string     `json:"short_id,omitempty"`
	// Data is the JSON of the command that shows the same.
	Data json.RawMessage `json:"data,omitempty"`
	Text string          `json:"text"`
}

func (r report) answer() *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: r.Text}}, StructuredContent: r}
}

// request is one call of a control tool.
type request struct {
	*control
	call      *sdk.CallToolRequest
	workspace string
	args      tool.Arguments
	site      *app.Site
}

// client returns the name that the client gives itself.
func (q *request) client() string { return clientName(q.call.Session, q.Mask) }

func clientName(client *sdk.ServerSession, mask func(string) string) string {
	name := ""
	if p := client.InitializeParams(); p != nil && p.ClientInfo != nil {
		name = terminal.Clean(mask(tool.Cut(p.ClientInfo.Name, 100)))
	}
	return cmp.Or(name, "a client without a name")
}

// call implements service. The end of the connection ends only its waits.
func (c *control) call(ctx context.Context, r *sdk.CallToolRequest, t tool.Tool) (*sdk.CallToolResult, func(), error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(c.ctx, stop)()
	workspace, err := c.place(r.Session)
	if err != nil {
		return nil, nil, err
	}
	q := request{control: c, call: r, workspace: workspace}
	if q.args, err = t.Check(r.Params.Arguments, workspace); err != nil {
		return nil, nil, err
	}
	out, err := q.carryOut(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	return out.answer(), nil, nil
}

// place returns the workspace of the connection.
func (c *control) place(client *sdk.ServerSession) (dir string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.where == "" {
		if dir, err = c.server.workspace(client); err != nil {
			return "", err
		}
		c.where = dir
	}
	return c.where, nil
}

// carryOut opens the store and uses a tool.
func (q *request) carryOut(ctx context.Context, t tool.Tool) (report, error) {
	site, err := q.options.Open(ctx, q.workspace, t.Needs != "")
	if errors.Is(err, session.ErrUnknownID) && (t.Name == "ListTasks" || t.Name == "ListApprovals") { // there is no store yet
		return q.page(func(p terminal.Page) error { return p.List(nil, false) })
	}
	if err != nil {
		return report{}, err
	}
	q.site = site
	out, err := q.use(ctx, t)
	return out, errors.Join(err, site.Close())
}

func (q *request) use(ctx context.Context, t tool.Tool) (report, error) {
	switch t.Name {
	case "RunTask":
		return q.run(ctx)
	case "ListTasks":
		return q.list(ctx)
	case "ListApprovals":
		return q.approvals(ctx)
	case "SyncStatus":
		return q.sync(ctx)
	}
	id, err := q.site.FindHere(ctx, q.args.Text("task_id"))
	if err != nil {
		return report{}, err
	}
	switch t.Name {
	case "ResumeTask":
		return q.resume(ctx, id)
	case "CancelTask":
		return q.cancel(ctx, id)
	case "GetTask":
		return q.get(ctx, id)
	case "TaskLogs":
		return q.logs(ctx, id)
	}
	return q.checkpoints(ctx, id)
}

// page answers with the text and the JSON that print writes.
func (c *control) page(print func(terminal.Page) error) (report, error) {
	var text, data bytes.Buffer
	p := terminal.Page{Out: &text, Now: c.Now, Spell: c.spell}
	if err := print(p); err != nil {
		return report{}, err
	}
	p.Out, p.JSON = &data, true
	if err := print(p); err != nil {
		return report{}, err
	}
	return report{Outcome: app.CallDone, Data: bytes.TrimSpace(data.Bytes()), Text: c.Mask(strings.TrimRight(text.String(), "\n"))}, nil
}
