package mcp

import (
	"context"
	"errors"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

// elicits reports whether a server can ask the person at the client. From the version of
// 2026-07-28 on, a server cannot ask.
func elicits(client *sdk.ServerSession) bool {
	p := client.InitializeParams()
	return p != nil && p.Capabilities != nil && p.Capabilities.Elicitation != nil && p.ProtocolVersion < "2026-07-28"
}

// elicit asks the person at the client for a yes. It returns an error if the question got
// no answer.
func elicit(ctx context.Context, client *sdk.ServerSession, message, about string) (yes bool, err error) {
	got, err := client.Elicit(ctx, &sdk.ElicitParams{
		Message: message,
		RequestedSchema: map[string]any{"type": "object", "required": []string{"approve"}, "properties": map[string]any{
			"approve": map[string]any{"type": "boolean", "title": "Approve", "description": about}}},
	})
	if err != nil {
		return false, fmt.Errorf("the client could not ask: %w", err)
	}
	yes, said := got.Content["approve"].(bool)
	if got.Action == "accept" && said || got.Action == "decline" {
		return yes && got.Action == "accept", nil
	}
	return false, errors.New("the question was not answered")
}

// through names the one who answers through a client.
func through(client string) string { return "through " + client + ", not proven to be a person" }

// asks reports whether the server may ask the person at the client, and can.
func (q *request) asks() bool {
	return q.site.Settings.Config.Approvals.Elicitation && elicits(q.call.Session)
}

// ask asks the person at the client about the first question of a task, and records the
// answer. Nothing proves that a person answers, and the record says so.
func (q *request) ask(ctx context.Context, id session.ID) error {
	open, err := q.site.Approvals(ctx, string(id))
	if err != nil || len(open) == 0 {
		return err
	}
	a := open[0]
	yes, err := elicit(ctx, q.call.Session, q.Mask(fmt.Sprintf("Task %s (%s) waits for an approval.\n%s", a.Short, terminal.Clean(a.Task), terminal.GateText(a.Gate))),
		"true lets the task continue with these steps; false pauses it")
	if err != nil {
		return unanswered(a, err.Error())
	}
	v := app.Verdict{Ref: string(a.ID), Step: a.Gate.ID.String(), Digest: a.Digest, By: through(q.client()), Grant: yes}
	if _, err := q.site.Decide(ctx, v); err != nil || v.Grant {
		return err
	}
	return &session.Error{Code: session.ErrDenied, Message: "task " + a.Short + ": " + a.Gate.ID.String() + " was denied through the client", Next: session.Do(session.MoveStatus, a.Short)}
}

func unanswered(a app.Approval, why string) error {
	return &session.Error{Code: session.ErrApproval, Message: "task " + a.Short + " waits for the approval of a person, and " + why + "; nothing was changed",
		Next: session.Hint{Do: session.MoveApproveResume, Session: a.Short, Step: a.Gate.ID}}
}

// ask asks the person at the client about a call until the answer fits the call, and
// carries it out after a yes. It asks about one call at a time. The question ends with
// ctx.
func (t *talk) ask(ctx context.Context, client *sdk.ServerSession, call app.Call) (app.CallResult, error) {
	t.asking.Lock()
	defer t.asking.Unlock()
	for {
		a, err := t.Do(t.ctx, call, t.options.Patience)
		var asked *app.AskedError
		if !errors.As(err, &asked) {
			return a, err
		}
		text := "An agent asks for a yes.\n" + terminal.GateText(t.Question(asked))
		yes, none := elicit(ctx, client, t.options.Mask(text), "true lets the agent do this once; false denies it")
		if none != nil {
			return a, fmt.Errorf("%w; %w", err, none)
		}
		if err := t.Answer(t.ctx, asked, app.Answer{Granted: yes, By: through(clientName(client, t.options.Mask))}); err != nil {
			return a, err
		}
	}
}
