package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// anthropic is the dialect of Anthropic's messages.
type anthropic struct{}

// anthropicRequest is the body of a request.
type anthropicRequest struct {
	Model    string `json:"model"`
	System   content
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	} `json:"tools"`
	MaxTokens int  `json:"max_tokens"`
	Stream    bool `json:"stream"`
}

// anthropicBlock is a block of a message.
type anthropicBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   content         `json:"content"`
	IsError   bool            `json:"is_error"`
}

func (anthropic) decode(_ *http.Request, body []byte) (a asked, err error) {
	var in anthropicRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return a, err
	}
	if in.MaxTokens < 1 {
		return a, errors.New("max_tokens: Field required")
	}
	if len(in.Messages) == 0 {
		return a, errors.New("messages: at least one message is required")
	}
	a = asked{stream: in.Stream, Conversation: Conversation{Model: in.Model, System: in.System.String()}}
	for _, t := range in.Tools {
		a.Tools = append(a.Tools, Tool{t.Name, t.Description})
	}
	open := map[string]bool{}
	for i, m := range in.Messages {
		blocks, err := anthropicBlocks(m.Content)
		if err != nil {
			return a, fmt.Errorf("messages.%d: %w", i, err)
		}
		if m.Role == "system" {
			for _, b := range blocks {
				a.System += b.Text
			}
			continue
		}
		next, err := anthropicMessage(m.Role, blocks, open)
		if err != nil {
			return a, fmt.Errorf("messages.%d: %w", i, err)
		}
		a.Messages = append(a.Messages, next)
	}
	return a, nil
}

// anthropicBlocks returns the blocks of a content, which may be a text.
func anthropicBlocks(raw json.RawMessage) (out []anthropicBlock, err error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []anthropicBlock{{Type: "text", Text: text}}, nil
	}
	return out, json.Unmarshal(raw, &out)
}

// anthropicMessage turns blocks into a message. As the provider does, it refuses calls
// without a result in the next message, and results without a call. open has the calls
// of the message before.
func anthropicMessage(role string, blocks []anthropicBlock, open map[string]bool) (m Message, err error) {
	m.Own = role == "assistant"
	for _, b := range blocks {
		switch b.Type {
		case "text":
			m.Text += b.Text
		case "tool_use":
			args, err := arguments(b.Input)
			if err != nil {
				return m, err
			}
			m.Calls = append(m.Calls, Call{b.ID, b.Name, args})
		case "tool_result":
			if !open[b.ToolUseID] {
				return m, fmt.Errorf("unexpected tool_use_id found in tool_result blocks: %s", b.ToolUseID)
			}
			delete(open, b.ToolUseID)
			m.Results = append(m.Results, Result{b.ToolUseID, b.Content.String(), b.IsError})
		}
	}
	for id := range open {
		return m, fmt.Errorf("tool_use ids were found without tool_result blocks immediately after: %s", id)
	}
	for _, call := range m.Calls {
		open[call.ID] = true
	}
	return m, nil
}

// anthropicReply returns the blocks of a reply and the reason of its end.
func anthropicReply(r Reply) (blocks []object, reason string) {
	reason = "end_turn"
	if r.Text != "" || len(r.Calls) == 0 {
		blocks = append(blocks, object{"type": "text", "text": r.Text})
	}
	for _, call := range r.Calls {
		reason = "tool_use"
		blocks = append(blocks, object{"type": "tool_use", "id": call.ID, "name": call.Name, "input": call.Arguments})
	}
	return blocks, reason
}

func (anthropic) answer(a asked, r Reply) any {
	blocks, reason := anthropicReply(r)
	return object{"id": name("msg_"), "type": "message", "role": "assistant", "model": a.Model, "content": blocks, "stop_reason": reason, "stop_sequence": nil,
		"usage": object{"input_tokens": tokens(a.size), "output_tokens": tokens(r.size()), "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}}
}

func (anthropic) stream(e *events, a asked, r Reply) {
	send := func(event string, data object) {
		data["type"] = event
		e.send(event, data)
	}
	blocks, reason := anthropicReply(r)
	send("message_start", object{"message": object{"id": name("msg_"), "type": "message", "role": "assistant", "model": a.Model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": object{"input_tokens": tokens(a.size), "output_tokens": 1}}})
	for i, b := range blocks {
		begin, kind, whole := object{"type": "text", "text": ""}, "text", r.Text
		if b["type"] == "tool_use" {
			begin = object{"type": "tool_use", "id": b["id"], "name": b["name"], "input": object{}}
			kind, whole = "input_json", string(b["input"].(json.RawMessage))
		}
		send("content_block_start", object{"index": i, "content_block": begin})
		for _, p := range pieces(whole) {
			delta := object{"type": kind + "_delta", "text": p}
			if kind == "input_json" {
				delta = object{"type": kind + "_delta", "partial_json": p}
			}
			send("content_block_delta", object{"index": i, "delta": delta})
		}
		send("content_block_stop", object{"index": i})
	}
	send("message_delta", object{"delta": object{"stop_reason": reason, "stop_sequence": nil}, "usage": object{"output_tokens": tokens(r.size())}})
	send("message_stop", object{})
}

func (anthropic) refusal(message string) any {
	return object{"type": "error", "error": object{"type": "invalid_request_error", "message": message}}
}
