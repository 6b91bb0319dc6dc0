package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

func (q *request) list(ctx context.Context) (report, error) {
	rows, err := q.site.List(ctx, false)
	if err != nil {
		return report{}, err
	}
	rows = rows[:min(len(rows), int(q.args.Number("limit")))]
	return q.page(func(p terminal.Page) error { return p.List(rows, false) })
}

// get shows a task, after it waited for its end.
func (q *request) get(ctx context.Context, id session.ID) (report, error) {
	d, err := q.site.Details(ctx, string(id), false)
	if err != nil {
		return report{}, err
	}
	if wait := time.Duration(q.args.Number("wait_s")) * time.Second; wait > 0 && d.Running {
		if err := q.follow(ctx, d.Row, wait); err != nil {
			return report{}, err
		}
		if d, err = q.site.Details(ctx, string(id), false); err != nil {
			return report{}, err
		}
	}
	out, err := q.page(func(p terminal.Page) error { return p.Show(d) })
	out.TaskID, out.ShortID = d.ID, d.Short
	return out, err
}

// follow waits until no process executes a task, at most for limit. It reports progress,
// counted in completed steps, to a client that asked for it.
func (q *request) follow(ctx context.Context, task app.Row, limit time.Duration) error {
	within, stop := context.WithTimeout(ctx, limit)
	defer stop()
	done := task.Done
	q.progress(within, done, task.Steps, "waiting")
	_, err := q.site.Follow(within, app.Following{Ref: string(task.ID), After: task.LastSeq}, func(n session.Notice) {
		if n.Kind == session.NoticeCompleted && n.Item != nil && n.Item.ID.Op == "" {
			done++
			q.progress(within, done, task.Steps, fmt.Sprintf("%s: %s", n.Item.ID, n.Item.Label))
		}
	})
	if ctx.Err() == nil && within.Err() != nil {
		return nil
	}
	return err
}

// progress reports how many steps are completed, to a client that asked for it.
func (q *request) progress(ctx context.Context, done, total int, said string) {
	if token := q.call.Params.GetProgressToken(); token != nil {
		p := &sdk.ProgressNotificationParams{ProgressToken: token, Progress: float64(done), Total: float64(total), Message: q.Mask(terminal.Clean(said))}
		_ = q.call.Session.NotifyProgress(ctx, p) // a client that is gone is noticed elsewhere
	}
}

func (q *request) logs(ctx context.Context, id session.ID) (report, error) {
	end := &tail{most: int(q.args.Number("limit"))}
	o := app.Logs{Ref: string(id), Step: q.args.Text("step"), Attempt: int(q.args.Number("attempt"))}
	o.Begin = func(step session.StepID, attempt int) error {
		_, err := fmt.Fprintf(end, "== %s, attempt %d\n", step, attempt)
		return err
	}
	if err := q.site.Logs(ctx, o, end); err != nil {
		return report{}, err
	}
	return report{Outcome: app.CallDone, TaskID: id, Text: end.String()}, nil
}

// tail keeps the end of a text.
type tail struct {
	most int
	text []byte
	// left is how many bytes before text are gone.
	left int64
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if over := len(t.text) - t.most; over > t.most {
		t.cut(over)
	}
	return len(p), nil
}

func (t *tail) cut(n int) {
	t.left += int64(n)
	t.text = bytes.Clone(t.text[n:])
}

// String returns the end of the text, and says how much is left out.
func (t *tail) String() string {
	if over := len(t.text) - t.most; over > 0 {
		t.cut(over)
	}
	text := strings.ToValidUTF8(string(t.text), "")
	if t.left > 0 {
		return fmt.Sprintf("… %d bytes before this are left out …\n%s", t.left, text)
	}
	return text
}

func (q *request) checkpoints(ctx context.Context, id session.ID) (report, error) {
	all, total, err := q.site.Checkpoints(ctx, string(id), int(q.args.Number("limit")))
	if err != nil {
		return report{}, err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s, of which %d follow:\n", terminal.Plural(total, "checkpoint"), len(all))
	for _, c := range all {
		fmt.Fprintf(&text, "seq %d at %s: %s", c.Seq, time.UnixMicro(c.TimeUS).UTC().Format(time.RFC3339), c.Step)
		if c.Damaged {
			text.WriteString(" (DAMAGED: a resume uses an earlier one)")
		}
		text.WriteString("\n")
	}
	return q.with(id, text.String(), map[string]any{"v": 1, "total": total, "checkpoints": append([]app.Checkpoint{}, all...)})
}

// with answers with a text and data.
func (q *request) with(id session.ID, text string, data any) (report, error) {
	encoded, err := json.Marshal(data)
	return report{Outcome: app.CallDone, TaskID: id, Data: encoded, Text: q.Mask(strings.TrimRight(text, "\n"))}, err
}

// waiting is a question in the data of ListApprovals.
type waiting struct {
	TaskID  session.ID `json:"task_id"`
	ShortID string     `json:"short_id"`
	Title   string     `json:"title"`
	Digest  string     `json:"digest"`
	*terminal.GateJSON
	// Next is how a person answers.
	Next string `json:"next"`
}

// MarshalJSON keeps the fields of GateJSON apart: its task_id is that of the plan.
func (w waiting) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"task_id": w.TaskID, "short_id": w.ShortID, "title": w.Title, "digest": w.Digest, "question": w.GateJSON, "next": w.Next})
}

func (q *request) approvals(ctx context.Context) (report, error) {
	all, err := q.site.Approvals(ctx, q.args.Text("task_id"))
	if err != nil {
		return report{}, err
	}
	var text strings.Builder
	list := []waiting{}
	for _, a := range all {
		next := q.spell(session.Hint{Do: session.MoveApprove, Session: a.Short, Step: a.Gate.ID})
		fmt.Fprintf(&text, "Task %s (%s): %s\n%s\n\n", a.Short, terminal.Clean(a.Task), terminal.GateText(a.Gate), next)
		list = append(list, waiting{TaskID: a.ID, ShortID: a.Short, Title: a.Task, Digest: a.Digest, GateJSON: terminal.NewGateJSON(&a.Gate), Next: next})
	}
	if len(all) == 0 {
		text.WriteString("No question waits for an answer.")
	}
	return q.with("", text.String(), map[string]any{"v": 1, "approvals": list})
}

func (q *request) sync(ctx context.Context) (report, error) {
	var id session.ID
	if ref := q.args.Text("task_id"); ref != "" {
		var err error
		if id, err = q.site.FindHere(ctx, ref); err != nil {
			return report{}, err
		}
	}
	d, err := q.site.Delivery(ctx, id)
	if err != nil {
		return report{}, err
	}
	out, err := q.page(func(p terminal.Page) error { return p.SyncStatus(d, nil) })
	out.TaskID = id
	return out, err
}
