package engine

import (
	"context"
	"maps"
	"strings"

	"github.com/acode-dev/acode/session"
)

// values gives what ${NAME} stands for in a step: declared inputs, params, then the captures that it
// can see. secrets are the values of those that are not recorded.
func (e *Engine) values(ctx context.Context, it *session.Item, secrets map[string]string) (map[string]string, error) {
	captured, err := e.captures(ctx, it)
	if err != nil {
		return nil, err
	}
	values := e.Inputs.Values(e.Plan, secrets)
	if values == nil {
		return captured, nil
	}
	maps.Copy(values, captured)
	return values, nil
}

// asks gives the question of a gate with its values filled in. Secrets stay masked, so that the
// question is the same for a process that does not have them.
func (e *Engine) asks(ctx context.Context, it *session.Item) (string, error) {
	question := e.Plan.Tasks[it.Task-1].Steps[it.Step-1].Approve
	if !strings.Contains(question, "${") {
		return question, nil
	}
	values, err := e.values(ctx, it, e.Inputs.Masked())
	if err != nil {
		return "", err
	}
	return session.Expand(question, values), nil
}

// inputsHash names the inputs that this process executes with.
func (e *Engine) inputsHash() string {
	for _, d := range e.pending {
		if c, ok := d.Data.(session.InputsChangedData); ok {
			return c.Inputs.Hash
		}
	}
	return e.Journal.Session().Inputs
}

// digest binds an approval of it to question and to what a yes lets happen.
func (e *Engine) digest(it *session.Item, question string) string {
	return ApprovalDigest(e.Plan, e.next, it.ID, question, e.inputsHash())
}
