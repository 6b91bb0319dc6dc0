package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// chat is the dialect of OpenAI's chat completions.
type chat struct{}

type chatCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// chatRequest is the body of a request.
type chatRequest struct {
	Model    string `json:"model"`
	Messages []struct {
		Role       string     `json:"role"`
		Content    content    `json:"content"`
		ToolCalls  []chatCall `json:"tool_calls"`
		ToolCallID string     `json:"tool_call_id"`
	} `json:"messages"`
	Tools []struct {
		Type     string `json:"type"`
		Function Tool   `json:"function"`
	} `json:"tools"`
	Stream        bool `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

func (chat) decode(_ *http.Request, body []byte) (a asked, err error) {
	var in chatRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return a, err
	}
	if len(in.Messages) == 0 {
		return a, errors.New("messages is empty")
	}
	a.Model, a.stream, a.usage = in.Model, in.Stream, in.StreamOptions.IncludeUsage
	for _, t := range in.Tools {
		a.Tools = append(a.Tools, t.Function)
	}
	open := map[string]bool{}
	for i, m := range in.Messages {
		if m.Role != "tool" {
			for id := range open {
				return a, fmt.Errorf("messages[%d]: no tool message responds to the tool_call_id %s", i, id)
			}
		}
		switch text := m.Content.String(); m.Role {
		case "system", "developer":
			a.System += text
		case "user":
			a.Messages = append(a.Messages, Message{Text: text})
		case "assistant":
			next := Message{Own: true, Text: text}
			for _, call := range m.ToolCalls {
				args, err := arguments([]byte(call.Function.Arguments))
				if err != nil {
					return a, err
				}
				next.Calls = append(next.Calls, Call{call.ID, call.Function.Name, args})
				open[call.ID] = true
			}
			a.Messages = append(a.Messages, next)
		case "tool":
			if !open[m.ToolCallID] {
				return a, fmt.Errorf("messages[%d]: no call has the tool_call_id %s", i, m.ToolCallID)
			}
			delete(open, m.ToolCallID)
			a.Messages = append(a.Messages, Message{Results: []Result{{ID: m.ToolCallID, Text: text}}})
		default:
			return a, fmt.Errorf("messages[%d]: the role %q is not known", i, m.Role)
		}
	}
	return a, nil
}

// message returns a reply as a message.
func (chat) message(r Reply) object {
	m := object{"role": "assistant", "content": nil}
	if r.Text != "" || len(r.Calls) == 0 {
		m["content"] = r.Text
	}
	var calls []object
	for _, call := range r.Calls {
		calls = append(calls, object{"id": call.ID, "type": "function", "function": object{"name": call.Name, "arguments": string(call.Arguments)}})
	}
	if calls != nil {
		m["tool_calls"] = calls
	}
	return m
}

func (chat) reason(r Reply) string {
	if len(r.Calls) > 0 {
		return "tool_calls"
	}
	return "stop"
}

func (chat) usage(a asked, r Reply) object {
	in, out := tokens(a.size), tokens(r.size())
	return object{"prompt_tokens": in, "completion_tokens": out, "total_tokens": in + out}
}

func (d chat) answer(a asked, r Reply) any {
	return object{"id": name("chatcmpl-"), "object": "chat.completion", "created": 0, "model": a.Model, "usage": d.usage(a, r),
		"choices": []object{{"index": 0, "message": d.message(r), "logprobs": nil, "finish_reason": d.reason(r)}}}
}

func (d chat) stream(e *events, a asked, r Reply) {
	id := name("chatcmpl-")
	send := func(delta object, reason any) {
		e.send("", object{"id": id, "object": "chat.completion.chunk", "created": 0, "model": a.Model,
			"choices": []object{{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": reason}}})
	}
	send(object{"role": "assistant", "content": ""}, nil)
	if r.Text != "" {
		for _, p := range pieces(r.Text) {
			send(object{"content": p}, nil)
		}
	}
	for i, call := range r.Calls {
		send(object{"tool_calls": []object{{"index": i, "id": call.ID, "type": "function", "function": object{"name": call.Name, "arguments": ""}}}}, nil)
		for _, p := range pieces(string(call.Arguments)) {
			send(object{"tool_calls": []object{{"index": i, "function": object{"arguments": p}}}}, nil)
		}
	}
	send(object{}, d.reason(r))
	if a.usage {
		e.send("", object{"id": id, "object": "chat.completion.chunk", "created": 0, "model": a.Model, "choices": []any{}, "usage": d.usage(a, r)})
	}
	e.raw("[DONE]")
}

func (chat) refusal(message string) any {
	return object{"error": object{"message": message, "type": "invalid_request_error", "param": nil, "code": nil}}
}
