package engine

import (
	"context"
	"maps"
	"strings"

	"github.com/acode-dev/acode/session"
)

// values returns the values of ${NAME} in a step: declared inputs, params, then visible
// captures. secrets are the values of inputs that are not recorded.
func (b *branch) values(ctx context.Context, it *session.Item, secrets map[string]string) (map[string]string, error) {
	captured, err := b.captures(ctx, it)
	if err != nil {
		return nil, err
	}
	values := b.Inputs.Values(b.Plan, secrets)
	if values == nil {
		return captured, nil
	}
	maps.Copy(values, captured)
	return values, nil
}

// asks returns the question of a gate with its values. Secrets stay masked, so that the
// question is the same for a process that does not have them.
func (b *branch) asks(ctx context.Context, it *session.Item) (string, error) {
	question := b.Plan.Tasks[it.Task-1].Steps[it.Step-1].Approve
	if !strings.Contains(question, "${") {
		return question, nil
	}
	values, err := b.values(ctx, it, b.Inputs.Masked())
	if err != nil {
		return "", err
	}
	return session.Expand(question, values), nil
}

// digest binds an approval of the step to its question and to the following steps.
func (b *branch) digest(it *session.Item, question string) string {
	return ApprovalDigest(b.Plan, b.next, it.ID, question, b.inputs)
}

// at returns the captures that the step can see, with the steps that captured them.
func (v *visible) at(it *session.Item) map[string]session.StepID {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.by.At(it.Task-1, it.Step-1))
}
