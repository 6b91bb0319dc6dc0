package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// ollama is the dialect of Ollama's chat.
type ollama struct{}

// ollamaRequest is the body of a request.
type ollamaRequest struct {
	Model    string `json:"model"`
	Messages []struct {
		Role      string       `json:"role"`
		Content   string       `json:"content"`
		ToolCalls []ollamaCall `json:"tool_calls"`
		ToolName  string       `json:"tool_name"`
	} `json:"messages"`
	Tools []struct {
		Function Tool `json:"function"`
	} `json:"tools"`
	// Stream is true if it is left out.
	Stream *bool `json:"stream"`
}

type ollamaCall struct {
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// decode reads a request. Calls have no ids in this dialect, so results belong to the
// calls before them in their order.
func (ollama) decode(_ *http.Request, body []byte) (a asked, err error) {
	var in ollamaRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return a, err
	}
	if len(in.Messages) == 0 {
		return a, errors.New("messages is empty")
	}
	a.Model, a.stream = in.Model, in.Stream == nil || *in.Stream
	for _, t := range in.Tools {
		a.Tools = append(a.Tools, t.Function)
	}
	var open []Call
	for i, m := range in.Messages {
		switch m.Role {
		case "system":
			a.System += m.Content
		case "user":
			a.Messages = append(a.Messages, Message{Text: m.Content})
		case "assistant":
			next := Message{Own: true, Text: m.Content}
			for j, c := range m.ToolCalls {
				args, err := arguments(c.Function.Arguments)
				if err != nil {
					return a, err
				}
				next.Calls = append(next.Calls, Call{fmt.Sprintf("call_%d_%d", i, j), c.Function.Name, args})
			}
			open = next.Calls
			a.Messages = append(a.Messages, next)
		case "tool":
			if len(open) == 0 || m.ToolName != "" && m.ToolName != open[0].Name {
				return a, fmt.Errorf("messages[%d]: no call of %s waits for this result", i, m.ToolName)
			}
			a.Messages = append(a.Messages, Message{Results: []Result{{ID: open[0].ID, Text: m.Content}}})
			open = open[1:]
		default:
			return a, fmt.Errorf("messages[%d]: the role %q is not known", i, m.Role)
		}
	}
	return a, nil
}

func ollamaMessage(text string, calls []Call) object {
	m := object{"role": "assistant", "content": text}
	var list []object
	for _, c := range calls {
		list = append(list, object{"function": object{"name": c.Name, "arguments": c.Arguments}})
	}
	if list != nil {
		m["tool_calls"] = list
	}
	return m
}

// last returns the fields of the end of an answer.
func (ollama) last(a asked, r Reply, message object) object {
	return object{"model": a.Model, "created_at": "2030-01-01T00:00:00Z", "message": message, "done": true, "done_reason": "stop",
		"total_duration": 1, "prompt_eval_count": tokens(a.size), "eval_count": tokens(r.size())}
}

func (d ollama) answer(a asked, r Reply) any { return d.last(a, r, ollamaMessage(r.Text, r.Calls)) }

func (d ollama) stream(e *events, a asked, r Reply) {
	part := func(m object) {
		e.line(object{"model": a.Model, "created_at": "2030-01-01T00:00:00Z", "message": m, "done": false})
	}
	for _, p := range pieces(r.Text) {
		part(ollamaMessage(p, nil))
	}
	for _, c := range r.Calls {
		part(ollamaMessage("", []Call{c}))
	}
	e.line(d.last(a, r, ollamaMessage("", nil)))
}

func (ollama) refusal(message string) any { return object{"error": message} }
