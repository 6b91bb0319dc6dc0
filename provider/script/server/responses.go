package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
)

// responses is the dialect of OpenAI's responses.
type responses struct{}

// responsesItem is an item of the input.
type responsesItem struct {
	Type      string  `json:"type"`
	Role      string  `json:"role"`
	Content   content `json:"content"`
	CallID    string  `json:"call_id"`
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	Arguments string  `json:"arguments"`
	Output    content `json:"output"`
}

// responsesTool is a tool, or a namespace of tools.
type responsesTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Tools       []responsesTool `json:"tools"`
}

// responsesRequest is the body of a request.
type responsesRequest struct {
	Model        string          `json:"model"`
	Instructions string          `json:"instructions"`
	Input        json.RawMessage `json:"input"`
	Tools        []responsesTool `json:"tools"`
	Stream       bool            `json:"stream"`
}

func (responses) decode(_ *http.Request, body []byte) (a asked, err error) {
	var in responsesRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return a, err
	}
	a = asked{stream: in.Stream, Conversation: Conversation{Model: in.Model, System: in.Instructions}}
	for _, t := range in.Tools {
		if t.Type == "function" {
			a.Tools = append(a.Tools, Tool{t.Name, t.Description})
		}
		for _, inner := range t.Tools {
			a.Tools = append(a.Tools, Tool{t.Name + namespaceEnd + inner.Name, inner.Description})
		}
	}
	items, err := responsesItems(in.Input)
	if err != nil {
		return a, err
	}
	open := map[string]bool{}
	for i, item := range items {
		if err := responsesAdd(&a.Conversation, item, open); err != nil {
			return a, fmt.Errorf("input[%d]: %w", i, err)
		}
	}
	for id := range open {
		return a, fmt.Errorf("no tool output found for function call %s", id)
	}
	return a, nil
}

// namespaceEnd stands between a namespace and the name of a tool in it.
const namespaceEnd = "::"

// responsesItems returns the items of an input, which may be a text.
func responsesItems(raw json.RawMessage) (items []responsesItem, err error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []responsesItem{{Type: "message", Role: "user", Content: content{{Text: text}}}}, nil
	}
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, errors.New("input is empty")
	}
	return items, nil
}

// responsesAdd adds an item. Calls that stand together are one message.
func responsesAdd(c *Conversation, item responsesItem, open map[string]bool) error {
	switch item.Type {
	case "message", "":
		switch text := item.Content.String(); item.Role {
		case "system", "developer":
			c.System += text
		case "user":
			c.Messages = append(c.Messages, Message{Text: text})
		case "assistant":
			c.Messages = append(c.Messages, Message{Own: true, Text: text})
		default:
			return fmt.Errorf("the role %q is not known", item.Role)
		}
	case "function_call":
		args, err := arguments([]byte(item.Arguments))
		if err != nil {
			return err
		}
		open[item.CallID] = true
		call := Call{item.CallID, item.Name, args}
		if item.Namespace != "" {
			call.Name = item.Namespace + namespaceEnd + item.Name
		}
		if n := len(c.Messages); n > 0 && c.Messages[n-1].Own {
			c.Messages[n-1].Calls = append(c.Messages[n-1].Calls, call)
		} else {
			c.Messages = append(c.Messages, Message{Own: true, Calls: []Call{call}})
		}
	case "function_call_output":
		if !open[item.CallID] {
			return fmt.Errorf("no tool call found for function call output with call_id %s", item.CallID)
		}
		delete(open, item.CallID)
		c.Messages = append(c.Messages, Message{Results: []Result{{ID: item.CallID, Text: item.Output.String()}}})
	}
	return nil
}

// items returns the items of a reply.
func (responses) items(r Reply) (out []object) {
	if r.Text != "" || len(r.Calls) == 0 {
		out = append(out, object{"type": "message", "id": name("msg_"), "status": "completed", "role": "assistant",
			"content": []object{{"type": "output_text", "text": r.Text, "annotations": []any{}}}})
	}
	for _, call := range r.Calls {
		item := object{"type": "function_call", "id": name("fc_"), "status": "completed", "call_id": call.ID, "name": call.Name, "arguments": string(call.Arguments)}
		if space, tool, ok := strings.Cut(call.Name, namespaceEnd); ok {
			item["namespace"], item["name"] = space, tool
		}
		out = append(out, item)
	}
	return out
}

// response returns the object around the items.
func (responses) response(a asked, id, status string, items []object) object {
	if items == nil {
		items = []object{}
	}
	return object{"id": id, "object": "response", "created_at": 0, "status": status, "model": a.Model, "output": items, "error": nil, "incomplete_details": nil,
		"parallel_tool_calls": true, "tool_choice": "auto", "tools": []any{}, "metadata": object{}, "usage": nil}
}

func (d responses) whole(a asked, id string, r Reply, items []object) object {
	in, out := tokens(a.size), tokens(r.size())
	whole := d.response(a, id, "completed", items)
	whole["usage"] = object{"input_tokens": in, "input_tokens_details": object{"cached_tokens": 0}, "output_tokens": out,
		"output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": in + out}
	return whole
}

func (d responses) answer(a asked, r Reply) any { return d.whole(a, name("resp_"), r, d.items(r)) }

func (d responses) stream(e *events, a asked, r Reply) {
	number := 0
	send := func(event string, data object) {
		data["type"], data["sequence_number"] = event, number
		number++
		e.send(event, data)
	}
	id := name("resp_")
	send("response.created", object{"response": d.response(a, id, "in_progress", nil)})
	send("response.in_progress", object{"response": d.response(a, id, "in_progress", nil)})
	items := d.items(r)
	for i, item := range items {
		begin := maps.Clone(item)
		begin["status"] = "in_progress"
		if item["type"] == "function_call" {
			begin["arguments"] = ""
			send("response.output_item.added", object{"output_index": i, "item": begin})
			for _, p := range pieces(item["arguments"].(string)) {
				send("response.function_call_arguments.delta", object{"item_id": item["id"], "output_index": i, "delta": p})
			}
			send("response.function_call_arguments.done", object{"item_id": item["id"], "output_index": i, "name": item["name"], "arguments": item["arguments"]})
		} else {
			begin["content"] = []any{}
			send("response.output_item.added", object{"output_index": i, "item": begin})
			at := func(more object) object {
				more["item_id"], more["output_index"], more["content_index"] = item["id"], i, 0
				return more
			}
			empty, full := object{"type": "output_text", "text": "", "annotations": []any{}}, item["content"].([]object)[0]
			send("response.content_part.added", at(object{"part": empty}))
			for _, p := range pieces(r.Text) {
				send("response.output_text.delta", at(object{"delta": p, "logprobs": []any{}}))
			}
			send("response.output_text.done", at(object{"text": r.Text, "logprobs": []any{}}))
			send("response.content_part.done", at(object{"part": full}))
		}
		send("response.output_item.done", object{"output_index": i, "item": item})
	}
	send("response.completed", object{"response": d.whole(a, id, r, items)})
}

func (responses) refusal(message string) any { return chat{}.refusal(message) }
