package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/acode-dev/acode/provider/script/server"
)

// at returns a value inside an answer, by names and indexes. It panics if there is
// none, which fails the test.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			v = v.(object)[p]
		case int:
			v = v.([]any)[p]
		}
	}
	return v
}

func text(v any, path ...any) string { s, _ := at(v, path...).(string); return s }

func list(v any, path ...any) []any { l, _ := at(v, path...).([]any); return l }

// want checks a value.
func want(t *testing.T, v any, want any, path ...any) {
	t.Helper()
	if got := at(v, path...); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v: got %v, want %v", path, got, want)
	}
}

func raw(v any) json.RawMessage {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return out
}

func messagesRequest(c server.Conversation, stream bool) object {
	messages, tools := []object{}, []object{}
	for _, m := range c.Messages {
		role, blocks := "user", []object{}
		if m.Own {
			role = "assistant"
		}
		if m.Text != "" {
			blocks = append(blocks, object{"type": "text", "text": m.Text, "cache_control": object{"type": "ephemeral"}})
		}
		for _, call := range m.Calls {
			blocks = append(blocks, object{"type": "tool_use", "id": call.ID, "name": call.Name, "input": call.Arguments})
		}
		for i, r := range m.Results {
			block := object{"type": "tool_result", "tool_use_id": r.ID, "content": r.Text}
			if i == 1 { // both forms occur
				block["content"] = []object{{"type": "text", "text": r.Text}}
			}
			blocks = append(blocks, block)
		}
		messages = append(messages, object{"role": role, "content": blocks})
	}
	for _, t := range c.Tools {
		tools = append(tools, object{"name": t.Name, "description": t.Description, "input_schema": object{"type": "object"}})
	}
	return object{"model": c.Model, "max_tokens": 100, "system": []object{{"type": "text", "text": c.System}}, "messages": messages, "tools": tools, "stream": stream}
}

func messagesReply(t *testing.T, o object) (r server.Reply) {
	want(t, o, "message", "type")
	want(t, o, "assistant", "role")
	reason := "end_turn"
	for _, b := range list(o, "content") {
		if text(b, "type") == "text" {
			r.Text += text(b, "text")
			continue
		}
		want(t, b, "tool_use", "type")
		reason = "tool_use"
		r.Calls = append(r.Calls, server.Call{ID: text(b, "id"), Name: text(b, "name"), Arguments: raw(at(b, "input"))})
	}
	want(t, o, reason, "stop_reason")
	return r
}

// messagesStreamed builds the message from the events, as the official client does.
func messagesStreamed(t *testing.T, events []event) server.Reply {
	var m object
	var cut string
	for _, e := range events {
		want(t, e.data, e.name, "type")
		blocks := list(m, "content")
		switch e.name {
		case "message_start":
			m = at(e.data, "message").(object)
			want(t, m, nil, "stop_reason")
		case "content_block_start":
			want(t, e.data, len(blocks), "index")
			m["content"], cut = append(blocks, at(e.data, "content_block")), ""
		case "content_block_delta":
			b := blocks[int(at(e.data, "index").(float64))].(object)
			switch text(e.data, "delta", "type") {
			case "text_delta":
				b["text"] = text(b, "text") + text(e.data, "delta", "text")
			case "input_json_delta":
				cut += text(e.data, "delta", "partial_json")
				b["input"] = json.RawMessage(cut)
			}
		case "message_delta":
			m["stop_reason"] = at(e.data, "delta", "stop_reason")
		}
	}
	if last := events[len(events)-1].name; last != "message_stop" {
		t.Errorf("the last event: got %s", last)
	}
	return messagesReply(t, m)
}

func chatRequest(c server.Conversation, stream bool) object {
	messages, tools := []object{{"role": "system", "content": c.System}}, []object{}
	for _, m := range c.Messages {
		for _, r := range m.Results {
			messages = append(messages, object{"role": "tool", "tool_call_id": r.ID, "content": r.Text})
		}
		switch {
		case m.Own:
			var calls []object
			for _, call := range m.Calls {
				calls = append(calls, object{"id": call.ID, "type": "function", "function": object{"name": call.Name, "arguments": string(call.Arguments)}})
			}
			messages = append(messages, object{"role": "assistant", "content": nil, "tool_calls": calls})
		case m.Text != "":
			messages = append(messages, object{"role": "user", "content": []object{{"type": "text", "text": m.Text}}})
		}
	}
	for _, t := range c.Tools {
		tools = append(tools, object{"type": "function", "function": object{"name": t.Name, "description": t.Description, "parameters": object{"type": "object"}}})
	}
	return object{"model": c.Model, "messages": messages, "tools": tools, "stream": stream, "stream_options": object{"include_usage": true}}
}

func chatReply(t *testing.T, o object) (r server.Reply) {
	want(t, o, "chat.completion", "object")
	m := at(o, "choices", 0, "message")
	r.Text = text(m, "content")
	reason := "stop"
	for _, call := range list(m, "tool_calls") {
		want(t, call, "function", "type")
		reason = "tool_calls"
		r.Calls = append(r.Calls, server.Call{ID: text(call, "id"), Name: text(call, "function", "name"), Arguments: json.RawMessage(text(call, "function", "arguments"))})
	}
	want(t, o, reason, "choices", 0, "finish_reason")
	return r
}

// chatStreamed joins the deltas.
func chatStreamed(t *testing.T, events []event) server.Reply {
	var content string
	calls := []any{}
	var reason any
	if last := events[len(events)-1]; last.raw != "[DONE]" {
		t.Errorf("the last event: got %+v", last)
	}
	if usage := events[len(events)-2].data; len(list(usage, "choices")) != 0 || at(usage, "usage", "total_tokens").(float64) < 1 {
		t.Errorf("the usage: got %v", usage)
	}
	for _, e := range events[:len(events)-2] {
		want(t, e.data, "chat.completion.chunk", "object")
		delta := at(e.data, "choices", 0, "delta")
		content += text(delta, "content")
		for _, part := range list(delta, "tool_calls") {
			i := int(at(part, "index").(float64))
			if i == len(calls) {
				calls = append(calls, part)
				continue
			}
			f := at(calls[i], "function").(object)
			f["arguments"] = text(f, "arguments") + text(part, "function", "arguments")
		}
		reason = at(e.data, "choices", 0, "finish_reason")
	}
	return chatReply(t, object{"object": "chat.completion", "choices": []any{object{"message": object{"content": content, "tool_calls": calls}, "finish_reason": reason}}})
}

// responsesRequest has the tools in a namespace, as Codex has those of MCP servers, and
// a function beside it.
func responsesRequest(c server.Conversation, stream bool) object {
	items, tools := []object{}, []object{}
	for _, m := range c.Messages {
		if m.Text != "" {
			role, kind := "user", "input_text"
			if m.Own {
				role, kind = "assistant", "output_text"
			}
			items = append(items, object{"type": "message", "role": role, "content": []object{{"type": kind, "text": m.Text}}})
		}
		for _, call := range m.Calls {
			items = append(items, object{"type": "reasoning", "summary": []any{}}, object{"type": "function_call", "call_id": call.ID, "name": call.Name, "arguments": string(call.Arguments)})
		}
		for _, r := range m.Results {
			items = append(items, object{"type": "function_call_output", "call_id": r.ID, "output": r.Text})
		}
	}
	for _, t := range c.Tools {
		tools = append(tools, object{"type": "function", "name": t.Name, "description": t.Description, "parameters": object{"type": "object"}})
	}
	return object{"model": c.Model, "instructions": c.System, "input": items, "tools": tools, "stream": stream, "store": false}
}

func responsesReply(t *testing.T, o object) (r server.Reply) {
	want(t, o, "response", "object")
	want(t, o, "completed", "status")
	for _, item := range list(o, "output") {
		want(t, item, "completed", "status")
		switch text(item, "type") {
		case "message":
			want(t, item, "output_text", "content", 0, "type")
			r.Text += text(item, "content", 0, "text")
		case "function_call":
			r.Calls = append(r.Calls, server.Call{ID: text(item, "call_id"), Name: text(item, "name"), Arguments: json.RawMessage(text(item, "arguments"))})
		default:
			t.Errorf("an item of the type %s", text(item, "type"))
		}
	}
	return r
}

// responsesStreamed checks that the deltas give the items, and the items the response.
func responsesStreamed(t *testing.T, events []event) server.Reply {
	deltas, items := map[string]string{}, []any{}
	for i, e := range events {
		want(t, e.data, e.name, "type")
		want(t, e.data, i, "sequence_number")
		switch e.name {
		case "response.output_text.delta", "response.function_call_arguments.delta":
			deltas[text(e.data, "item_id")] += text(e.data, "delta")
		case "response.output_item.done":
			items = append(items, at(e.data, "item"))
		}
	}
	last := events[len(events)-1]
	if events[0].name != "response.created" || last.name != "response.completed" {
		t.Errorf("the events: got %s to %s", events[0].name, last.name)
	}
	if whole := at(last.data, "response", "output"); string(raw(whole)) != string(raw(items)) {
		t.Errorf("the items: got %s, want %s", raw(items), raw(whole))
	}
	for _, item := range items {
		full := text(item, "arguments")
		if text(item, "type") == "message" {
			full = text(item, "content", 0, "text")
		}
		want(t, deltas[text(item, "id")], full)
	}
	return responsesReply(t, at(last.data, "response").(object))
}

func geminiPath(stream bool) string {
	if stream {
		return "/v1beta/models/m:streamGenerateContent?alt=sse"
	}
	return "/v1beta/models/m:generateContent"
}

// geminiRequest leaves the ids out, as older clients do.
func geminiRequest(c server.Conversation, _ bool) object {
	contents, functions := []object{}, []object{}
	names := map[string]string{}
	for _, m := range c.Messages {
		role, parts := "user", []object{}
		if m.Own {
			role = "model"
		}
		if m.Text != "" {
			parts = append(parts, object{"text": m.Text})
		}
		for _, call := range m.Calls {
			names[call.ID] = call.Name
			parts = append(parts, object{"functionCall": object{"name": call.Name, "args": call.Arguments}})
		}
		for i, r := range m.Results {
			response := object{"output": r.Text}
			if i == 1 { // the result of an MCP server as it is
				response = object{"content": []object{{"type": "text", "text": r.Text}}}
			}
			parts = append(parts, object{"functionResponse": object{"name": names[r.ID], "response": response}})
		}
		contents = append(contents, object{"role": role, "parts": parts})
	}
	for _, t := range c.Tools {
		functions = append(functions, object{"name": t.Name, "description": t.Description, "parametersJsonSchema": object{"type": "object"}})
	}
	tools := []object{}
	if len(functions) > 0 {
		tools = append(tools, object{"functionDeclarations": functions})
	}
	return object{"contents": contents, "systemInstruction": object{"parts": []object{{"text": c.System}}}, "tools": tools}
}

func geminiReply(t *testing.T, o object) (r server.Reply) {
	want(t, o, "model", "candidates", 0, "content", "role")
	for _, p := range list(o, "candidates", 0, "content", "parts") {
		r.Text += text(p, "text")
		if call, ok := p.(object)["functionCall"]; ok {
			r.Calls = append(r.Calls, server.Call{ID: text(call, "id"), Name: text(call, "name"), Arguments: raw(at(call, "args"))})
		}
	}
	want(t, o, "STOP", "candidates", 0, "finishReason")
	return r
}

func geminiStreamed(t *testing.T, events []event) server.Reply {
	parts := []any{}
	for _, e := range events {
		parts = append(parts, list(e.data, "candidates", 0, "content", "parts")...)
	}
	last := events[len(events)-1].data
	at(last, "candidates", 0, "content").(object)["parts"] = parts
	return geminiReply(t, last)
}

// Codex has the tools of an MCP server in a namespace, in its list and in calls.
func TestNamespaceOfTools(t *testing.T) {
	var got server.Conversation
	c := clients()["responses"]
	c.request = func(server.Conversation, bool) object {
		return object{"tools": []object{{"type": "namespace", "name": "mcp__acode", "tools": []object{{"type": "function", "name": "run_command"}}}, {"type": "web_search"}},
			"input": []object{{"type": "message", "role": "user", "content": "go"}, {"type": "function_call", "call_id": "1", "namespace": "mcp__acode", "name": "run_command", "arguments": "{}"},
				{"type": "function_call_output", "call_id": "1", "output": "x"}}}
	}
	s := httptest.NewServer(server.New(server.Options{Model: func(c server.Conversation) server.Reply {
		got = c
		return server.Reply{Calls: c.Messages[1].Calls}
	}}))
	defer s.Close()
	c.reply = func(t *testing.T, o object) server.Reply {
		want(t, o, "mcp__acode", "output", 0, "namespace")
		want(t, o, "run_command", "output", 0, "name")
		return server.Reply{}
	}
	c.ask(t, s.URL, server.Conversation{}, false)
	if len(got.Tools) != 1 || got.Tools[0].Name != "mcp__acode::run_command" || got.Messages[1].Calls[0].Name != got.Tools[0].Name {
		t.Errorf("got %+v, want the namespace in the names", got)
	}
}

// Without alt=sse a stream of Gemini is a JSON array.
func TestArrayOfGemini(t *testing.T) {
	s := httptest.NewServer(server.New(server.Options{Model: script}))
	defer s.Close()
	r, err := http.Post(s.URL+"/v1beta/models/m:streamGenerateContent", "application/json", strings.NewReader(`{"contents":[{"role":"user","parts":[{"text":"x"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var parts []object
	if err := json.NewDecoder(r.Body).Decode(&parts); err != nil || len(parts) != 1 {
		t.Fatalf("got %v, %v, want one part", parts, err)
	}
	want(t, parts[0], "A title", "candidates", 0, "content", "parts", 0, "text")
}
