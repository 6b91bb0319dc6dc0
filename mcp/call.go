package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/tool"
)

// answer is the structured content of an answer, and the operations whose results it has.
type answer struct {
	result
	// results are the operations with a final outcome in this answer.
	results []session.StepID
}

// call implements service.
func (c *calls) call(ctx context.Context, r *sdk.CallToolRequest, used tool.Tool) (*sdk.CallToolResult, func(), error) {
	t, err := c.talk(r)
	if err != nil {
		return nil, nil, err
	}
	a, err := t.carryOut(ctx, r, used)
	if err != nil {
		return nil, nil, err
	}
	var written func()
	if a.Outcome == outcomeTold {
		written = t.tells(a.results)
	} else if len(a.results) > 0 {
		written = t.gives(a.results)
	}
	return reply(a.result, isError(a.Outcome)), written, nil
}

// carryOut carries a call out. ctx ends with the request.
func (t *talk) carryOut(ctx context.Context, r *sdk.CallToolRequest, used tool.Tool) (answer, error) {
	args, err := used.Check(r.Params.Arguments, t.workspace)
	if err != nil {
		return answer{}, err
	}
	if used.Changes() {
		return t.change(ctx, r, used, args)
	}
	return t.read(used, args)
}

// change carries out a call that changes something, or does what the rule about owed
// calls says instead.
func (t *talk) change(ctx context.Context, r *sdk.CallToolRequest, used tool.Tool, args tool.Arguments) (answer, error) {
	name := metaText(r.Params.Meta, MetaCall)
	call := app.Call{Tool: used.Name, Arguments: args.Canonical(), Step: used.Step(args)}
	v, f, err := t.decide(Request{Tool: call.Tool, Digest: call.Digest(), Name: name, Fresh: args.Yes(tool.Fresh)})
	if err != nil {
		return answer{}, err
	}
	switch v.Do {
	case Conflict:
		return answer{}, &session.Error{Code: session.ErrConflict, Message: fmt.Sprintf("another call of this connection has the name %q; nothing was changed", tool.Cut(name, 60))}
	case Same:
		return t.same(f)
	case Tell:
		return t.tell(v.List)
	case Recover:
		t.land(name, f, v.Op, nil)
		return t.wait(v.Op, true)
	}
	a, err := t.run(ctx, r.Session, call)
	t.land(name, f, a.Op, err)
	if err != nil {
		return answer{}, err
	}
	return t.give(a, false)
}

// run carries a new call out. It asks the person at the client where it may.
func (t *talk) run(ctx context.Context, client *sdk.ServerSession, call app.Call) (app.CallResult, error) {
	for i, c := range call.Step.Changes {
		full, err := t.Restore(t.ctx, c)
		if err != nil {
			return app.CallResult{}, err
		}
		call.Step.Changes[i] = full
	}
	a, err := t.Do(t.ctx, call, t.options.Patience)
	if t.options.Elicits && elicits(client) && errors.Is(err, session.ErrApproval) {
		return t.ask(ctx, client, call)
	}
	return a, err
}

// same answers a call as the one with its name.
func (t *talk) same(f *flight) (answer, error) {
	select {
	case <-f.done:
	case <-t.ctx.Done():
		return answer{}, t.ctx.Err()
	}
	if f.err != nil {
		return answer{}, f.err
	}
	return t.wait(f.op, false)
}

// tell lists the owed calls.
func (t *talk) tell(list []session.StepID) (answer, error) {
	var owed []app.CallResult
	var results []session.StepID
	for _, op := range list {
		a, err := t.Answered(t.ctx, op)
		if err != nil {
			return answer{}, err
		}
		owed = append(owed, a)
		if a.Outcome != app.CallRuns {
			results = append(results, op)
		}
	}
	r, err := t.told(t.ctx, owed)
	return answer{r, results}, err
}

// wait waits for an operation and gives its result.
func (t *talk) wait(op session.StepID, recovered bool) (answer, error) {
	a, err := t.Wait(t.ctx, op, t.options.Patience)
	if err != nil {
		return answer{}, err
	}
	return t.give(a, recovered)
}

func (t *talk) give(a app.CallResult, recovered bool) (answer, error) {
	r, err := t.describe(t.ctx, a, recovered)
	if err != nil || a.Outcome == app.CallRuns {
		return answer{result: r}, err
	}
	return answer{r, []session.StepID{a.Op}}, nil
}

// read carries out a call that is no operation to be owed.
func (t *talk) read(used tool.Tool, args tool.Arguments) (answer, error) {
	call := app.Call{Tool: used.Name, Arguments: args.Canonical(), Step: used.Step(args)}
	var text, note string
	var err error
	switch used.Name {
	case "read_file":
		text, note, err = t.ReadFile(t.ctx, call, int(args.Number("line")), int(args.Number("lines")))
	case "list_files":
		text, note, err = t.ListFiles(t.ctx, call, int(args.Number("limit")))
	case "search":
		text, note, err = t.SearchFiles(t.ctx, call)
	case "session_state":
		return t.state()
	default:
		return t.control(used, args)
	}
	if note != "" {
		note = "(" + note + ")"
	}
	return answer{result: result{Outcome: app.CallDone, Text: text, Note: note}}, err
}

// control carries out a call about an operation.
func (t *talk) control(used tool.Tool, args tool.Arguments) (answer, error) {
	op, err := operation(args.Text("handle"))
	if err != nil {
		return answer{}, err
	}
	switch used.Name {
	case "wait_command":
		return t.wait(op, false)
	case "command_output":
		text, next, total, err := t.Output(t.ctx, op, args.Number("from"), int(args.Number("limit")))
		if err != nil {
			return answer{}, err
		}
		if next < total {
			text += fmt.Sprintf("\n… %d of %d bytes follow; read them from %d …", total-next, total, next)
		}
		return answer{result: result{Operation: op.Op, Handle: op.Op, Outcome: app.CallDone, Text: text}}, nil
	case "stop_command":
		a, err := t.Stop(t.ctx, op)
		if err != nil {
			return answer{}, err
		}
		return t.give(a, false)
	}
	a, err := t.Answered(t.ctx, op)
	if err != nil {
		return answer{}, err
	}
	return t.give(a, false)
}

// state lists the open and the owed calls.
func (t *talk) state() (answer, error) {
	owed, err := t.Owed(t.ctx)
	if err != nil {
		return answer{}, err
	}
	_, short := t.Session(t.ctx)
	r := result{Outcome: app.CallDone}
	var out strings.Builder
	if short == "" {
		out.WriteString("This conversation has no session yet; its first call makes one.\n")
	} else {
		fmt.Fprintf(&out, "Session %s in %s.\n", short, t.workspace)
	}
	for _, a := range owed {
		fmt.Fprintf(&out, "%s: %s %s: %s, began at %s\n", a.Op.Op, a.Tool, a.Label, a.Outcome, t.clock(a.StartedUS))
		r.Owed = append(r.Owed, result{Operation: a.Op.Op, Handle: a.Op.Op, Label: a.Label, Outcome: a.Outcome, Changed: []change{}})
	}
	if len(owed) == 0 {
		out.WriteString("No operation runs, and you have seen the answers of all.\n")
	}
	r.Text = strings.TrimRight(out.String(), "\n")
	return answer{result: r}, nil
}
