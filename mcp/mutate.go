package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
	"github.com/acode-dev/acode/tool"
)

// The names of errors that other servers of tasks use.
const (
	invalidOperation session.Code = "INVALID_OPERATION"
	invalidState     session.Code = "INVALID_STATE"
)

// once carries out a request that changes something, unless it was carried out before.
// first returns the session of the request and its epoch. do may be called again after a
// restart, and must then do nothing that was done.
func (q *request) once(first func() (session.ID, uint64, error), do func(*app.Errand) (report, error)) (out report, err error) {
	name := q.args.Text(requestID)
	if name == "" || len(name) > 200 {
		return out, tool.Usage(requestID+" has no character, or more than 200", "send a UUID, for example")
	}
	q.turn.Lock()
	defer q.turn.Unlock()
	e, err := q.site.Errand(name, session.CallDigest(q.call.Params.Name, q.args.Canonical()), first)
	if err != nil {
		return out, err
	}
	if e.Answer != nil {
		return out, json.Unmarshal(e.Answer, &out)
	}
	if out, err = do(e); err != nil {
		return out, err
	}
	out.RequestID = name
	return out, e.Done(out)
}

// changed answers a request about a task.
func (q *request) changed(outcome string, s *session.Session, text string) report {
	return report{Outcome: outcome, TaskID: s.ID, ShortID: s.Short, Text: fmt.Sprintf(text, s.Short, q.Mask(terminal.Clean(s.Task)))}
}

// plan returns the text of the plan.
func (q *request) plan() ([]byte, error) {
	text, file := q.args.Text("plan"), q.args.Text("file")
	if (text == "") == (file == "") {
		return nil, tool.Usage("RunTask takes either plan or file", "send the text of the plan as plan, or the path of a file as file")
	}
	if text != "" {
		return []byte(text), nil
	}
	return q.site.PlanFile(file)
}

func (q *request) run(ctx context.Context) (report, error) {
	params, plan := q.args.Values("params"), sync.OnceValues(q.plan)
	first := func() (session.ID, uint64, error) {
		text, err := plan()
		if err == nil {
			err = q.options.Check(ctx, text, params)
		}
		if err != nil {
			return "", 0, err
		}
		id, err := q.site.NewID()
		return id, 0, err
	}
	return q.once(first, func(e *app.Errand) (report, error) {
		text, err := plan()
		if err != nil {
			return report{}, err
		}
		s, err := q.site.StartApart(ctx, e.Session, text, params)
		if err != nil {
			return report{}, err
		}
		return q.changed("started", s, "Started task %s: %s. It continues when this client leaves; GetTask shows how it is."), nil
	})
}

// notYet refuses the arguments of a later version.
func notYet(what string) error {
	return refusal{error: &session.Error{Code: session.ErrUsage, Message: what + " is not possible yet; nothing was changed", Next: session.Words("start a new task with RunTask")}, as: invalidOperation}
}

func (q *request) resume(ctx context.Context, id session.ID) (report, error) {
	switch {
	case q.args.Yes("retry"):
		return report{}, notYet("to try a failed task again")
	case q.args.Text("context") != "":
		return report{}, notYet("to give a resumed task more context")
	}
	first := func() (session.ID, uint64, error) { return q.resumable(ctx, id) }
	do := func(e *app.Errand) (report, error) {
		s, err := q.site.ResumeApart(ctx, id, e.Epoch, q.args.Text("conflict") == "override")
		if err != nil {
			return report{}, q.notResumed(ctx, id, err)
		}
		return q.changed("resumed", s, "Task %s was continued: %s. GetTask shows how it is."), nil
	}
	out, err := q.once(first, do)
	if !errors.Is(err, session.ErrApproval) || !q.asks() {
		return out, err
	}
	if err := q.ask(ctx, id); err != nil {
		return report{}, err
	}
	return q.once(first, do)
}

// resumable refuses to resume a task that does not wait to be resumed.
func (q *request) resumable(ctx context.Context, id session.ID) (session.ID, uint64, error) {
	v, err := q.site.Status(ctx, string(id))
	if err != nil {
		return "", 0, err
	}
	no := func(as, code session.Code, why string, next session.Hint) error {
		return refusal{error: &session.Error{Code: code, Message: "task " + v.Short + " " + why + "; nothing was changed", Next: next, Retryable: code == session.ErrLocked}, as: as}
	}
	switch {
	case v.State.Terminal():
		err = no(invalidOperation, session.ErrTerminal, "is "+string(v.State), session.Then("start a new one", session.MoveRun, ""))
	case v.Calls > 0:
		err = no(invalidOperation, session.ErrUsage, "is the record of another agent's calls", session.Words("that agent continues it"))
	case v.Running:
		err = no(invalidOperation, session.ErrLocked, "runs already", session.Do(session.MoveStatus, v.Short))
	case v.Next.Do == session.MoveApproveResume:
		err = no("", session.ErrApproval, "waits for the approval of a person", v.Next)
	case v.Next.Do == session.MoveAnswer || v.Next.Do == session.MoveGiveValue:
		err = no("", session.ErrUncertain, "has a command whose outcome is unknown, and only a person in a terminal can decide about it", v.Next)
	}
	return id, v.Epoch, err
}

// notResumed adds to an error of a resume what clients look for.
func (q *request) notResumed(ctx context.Context, id session.ID, err error) error {
	switch app.CodeOf(err) {
	case session.ErrTerminal, session.ErrCancelled:
		return refusal{error: err, as: invalidOperation}
	case session.ErrNoCheckpoint:
		return refusal{error: err, as: invalidState}
	case session.ErrEnvironment:
		would, ferr := q.site.Forecast(ctx, string(id), app.Choices{})
		if ferr != nil {
			return err
		}
		changed := []string{}
		for _, c := range would.Changed {
			if c.Asks {
				changed = append(changed, c.Path)
			}
		}
		return refusal{error: err, changed: changed}
	}
	return err
}

// endsWithin is how long a cancelled task may take to end.
const endsWithin = 40 * time.Second

func (q *request) cancel(ctx context.Context, id session.ID) (report, error) {
	first := func() (session.ID, uint64, error) {
		v, err := q.site.Status(ctx, string(id))
		if err == nil && v.State.Terminal() {
			err = refusal{error: &session.Error{Code: session.ErrTerminal, Message: fmt.Sprintf("task %s is %s already; nothing was changed", v.Short, v.State), Next: session.Do(session.MoveStatus, v.Short)}, as: invalidOperation}
		}
		return id, v.Epoch, err
	}
	return q.once(first, func(*app.Errand) (report, error) {
		d, err := q.site.Cancel(context.WithoutCancel(ctx), string(id), q.client()+" over MCP", q.args.Text("reason"))
		if err != nil && !errors.Is(err, session.ErrTerminal) { // it may have ended before a restart
			return report{}, err
		}
		v, err := q.over(ctx, id)
		if err != nil {
			return report{}, err
		}
		out := q.changed(string(v.State), &session.Session{ID: v.ID, Short: v.Short, Task: v.Task}, "Task %s is "+string(v.State)+": %s.")
		for _, w := range d.Warnings {
			out.Text += "\nWarning: " + q.Mask(terminal.Clean(w))
		}
		return out, nil
	})
}

// over waits for the end of a task that was cancelled.
func (q *request) over(ctx context.Context, id session.ID) (v app.Status, err error) {
	within, stop := context.WithTimeout(ctx, endsWithin)
	defer stop()
	_, err = q.site.Follow(within, app.Following{Ref: string(id), After: app.ThisRun}, func(session.Notice) {})
	if err != nil && within.Err() == nil || ctx.Err() != nil {
		return v, err
	}
	if v, err = q.site.Status(ctx, string(id)); err == nil && !v.State.Terminal() {
		err = &session.Error{Code: session.ErrTimeout, Message: "task " + v.Short + " was asked to end, and has not ended yet", Retryable: true,
			Next: session.Words("make the same request again")}
	}
	return v, err
}
