package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/tool"
)

// finishName is the tool with which a model ends its step.
const finishName = "finish"

func finish() tool.Tool {
	return tool.Tool{Name: finishName, Title: "Finish", About: "End the task. Use it when everything is done, or when it cannot be done.",
		Args: []tool.Argument{{Name: "status", About: "whether the task is done", Default: "", Required: true, Choices: []string{"done", "failed"}},
			tool.Text("summary", "what was done, or why it cannot be done")}}
}

// Next decides about a reply. done names the calls that have an outcome.
func (c *Conversation) Next(reply session.Reply, done map[int]bool) session.Decision {
	d := session.Decision{Refused: map[int]string{}}
	ids := map[string]int{}
	for _, call := range reply.Calls {
		ids[call.ID]++
	}
	for _, call := range reply.Calls {
		ending, refused := c.ending(call)
		switch {
		case call.ID == "":
			refused = "the call has no id; make it again with an id"
		case reply.Ended == session.EndedLength && call.Number == len(reply.Calls):
			refused = "your answer was cut off at the limit of its length, perhaps within this call; make it again, and shorter"
		case ids[call.ID] > 1:
			refused = fmt.Sprintf("%d calls of this reply have the id %q; make each again with an id of its own", ids[call.ID], tool.Cut(call.ID, 60))
		case ending != nil && d.End == nil:
			d.End = ending
			continue
		}
		if done[call.Number] {
			continue
		}
		if refused != "" {
			d.Refused[call.Number] = notCarriedOut + refused
		}
		d.Calls = append(d.Calls, call)
	}
	if len(reply.Calls) == 0 {
		d.End, d.Reminder = c.without(reply)
	}
	return d
}

// without decides about a reply without calls.
func (c *Conversation) without(reply session.Reply) (end *session.Ending, reminder string) {
	switch {
	case reply.Ended == session.EndedRefusal:
		return &session.Ending{GaveUp: true, Text: "it refused to answer: " + reply.Text}, ""
	case reply.Ended == session.EndedLength:
		return nil, "Your answer was cut off at the limit of its length. Continue where it ends, or make shorter steps."
	case c.Plans:
		return nil, withoutPlan
	case strings.TrimSpace(reply.Text) == "":
		return nil, "Your answer was empty. Go on with the task; when it is done, answer in words or call finish."
	}
	return &session.Ending{Text: reply.Text}, ""
}

// ending returns the end that a call asks for. It returns nil for a call of another tool.
func (c *Conversation) ending(call session.ModelCall) (end *session.Ending, refused string) {
	if call.Tool != finishName {
		return nil, ""
	}
	args, err := finish().Check(json.RawMessage(call.Arguments), c.Workspace)
	if err != nil {
		return nil, words(err)
	}
	if c.Plans && args.Text("status") == "done" {
		return nil, withoutPlan
	}
	return &session.Ending{GaveUp: args.Text("status") == "failed", Text: args.Text("summary")}, ""
}

// Work returns the work of a call. It returns an error for a call that cannot be carried
// out; nothing was changed then.
func (c *Conversation) Work(call session.ModelCall) (session.CallWork, error) {
	if c.Plans && call.Tool == proposeName {
		return proposal(call), nil
	}
	all := c.tools()
	i := slices.IndexFunc(all, func(t tool.Tool) bool { return t.Name == call.Tool })
	if i < 0 {
		return session.CallWork{}, tool.Usage(fmt.Sprintf("there is no tool %q", tool.Cut(call.Tool, 60)), "the tools are "+strings.Join(tool.Names(all), ", "))
	}
	args, err := all[i].Check(json.RawMessage(call.Arguments), c.Workspace)
	if err != nil {
		return session.CallWork{}, err
	}
	if call.Tool == readOutputName {
		return c.reads(call, args)
	}
	return session.CallWork{Tool: call.Tool, Arguments: args.Canonical(), Step: all[i].Step(args), Reads: all[i].Needs == ""}, nil
}

// Refusal says for the model why a call was not carried out.
func (c *Conversation) Refusal(err error) string { return notCarriedOut + words(err) }

// Denial says for the model that a rule or a person denied a call.
func (c *Conversation) Denial(byPerson bool, reason string) string {
	text := "DENIED by the rules of the user"
	if byPerson {
		text = "DENIED by the user"
	}
	if reason != "" {
		text += ": " + reason
	}
	return text + ". Nothing was changed. Do not try the same by other means; go on without it, or say what you need."
}

const notCarriedOut = "NOT CARRIED OUT: "

// words puts an error in words.
func words(err error) string {
	text := err.Error()
	var e *session.Error
	if errors.As(err, &e) && e.Next.Text != "" {
		text += ". Hint: " + e.Next.Text
	}
	return text
}
