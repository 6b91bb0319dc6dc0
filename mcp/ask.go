package mcp

import (
	"context"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

// asks reports whether the server may ask the person at the client, and can. From the
// version of 2026-07-28 on, a server cannot ask.
func (q *request) asks() bool {
	p := q.call.Session.InitializeParams()
	return q.site.Settings.Config.Approvals.Elicitation && p != nil && p.Capabilities != nil && p.Capabilities.Elicitation != nil && p.ProtocolVersion < "2026-07-28"
}

// ask asks the person at the client about the first question of a task, and records the
// answer. Nothing proves that a person answers, and the record says so.
func (q *request) ask(ctx context.Context, id session.ID) error {
	open, err := q.site.Approvals(ctx, string(id))
	if err != nil || len(open) == 0 {
		return err
	}
	a := open[0]
	got, err := q.call.Session.Elicit(ctx, &sdk.ElicitParams{
		Message: q.Mask(fmt.Sprintf("Task %s (%s) waits for an approval.\n%s", a.Short, terminal.Clean(a.Task), terminal.GateText(a.Gate))),
		RequestedSchema: map[string]any{"type": "object", "required": []string{"approve"}, "properties": map[string]any{
			"approve": map[string]any{"type": "boolean", "title": "Approve", "description": "true lets the task continue with these steps; false pauses it"}}},
	})
	if err != nil {
		return unanswered(a, "the client could not ask: "+err.Error())
	}
	v := app.Verdict{Ref: string(a.ID), Step: a.Gate.ID.String(), Digest: a.Digest, By: "through " + q.client() + ", not proven to be a person"}
	switch yes, said := got.Content["approve"].(bool); {
	case got.Action == "accept" && said:
		v.Grant = yes
	case got.Action == "decline":
	default:
		return unanswered(a, "the question was not answered")
	}
	if _, err := q.site.Decide(ctx, v); err != nil || v.Grant {
		return err
	}
	return &session.Error{Code: session.ErrDenied, Message: "task " + a.Short + ": " + a.Gate.ID.String() + " was denied through the client", Next: session.Do(session.MoveStatus, a.Short)}
}

func unanswered(a app.Approval, why string) error {
	return &session.Error{Code: session.ErrApproval, Message: "task " + a.Short + " waits for the approval of a person, and " + why + "; nothing was changed",
		Next: session.Hint{Do: session.MoveApproveResume, Session: a.Short, Step: a.Gate.ID}}
}
