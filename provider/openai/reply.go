package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/acode-dev/acode/provider/wire"
	"github.com/acode-dev/acode/session"
)

// Reply implements engine.Model. It reads a stream or one answer. With an error, the
// reply has the part before it.
func (Model) Reply(raw []byte) (session.Reply, error) {
	b := builder{}
	err := b.read(raw)
	if err != nil {
		b.reason = "" // it is not whole
	}
	return b.reply(), wire.Unread(Provider, err)
}

// builder builds a message from its parts.
type builder struct {
	message wire.Object
	calls   []*toolCall
	// the bytes of a message that was not streamed
	native json.RawMessage
	usage  session.Usage
	// the reason of the end; empty while the message is not whole
	reason string
}

func (b *builder) read(raw []byte) error {
	if start := bytes.TrimLeft(raw, " \t\r\n"); len(start) > 0 && start[0] == '{' {
		if !json.Valid(start) {
			return nil // the rest of it did not arrive
		}
		return b.chunk(start, "message")
	}
	for event := range wire.Events(raw) {
		if string(event) == "[DONE]" {
			break
		}
		if err := b.chunk(event, "delta"); err != nil {
			return err
		}
	}
	return nil
}

// chunk takes a part of a stream, or a whole answer. field is the name of the message in
// it.
func (b *builder) chunk(raw []byte, field string) error {
	all, err := wire.ReadObject(raw)
	if err != nil {
		return err
	}
	if all.Get("error") != nil {
		return wire.InReply(Provider, wire.ReadFailure(raw))
	}
	if err := b.count(all.Get("usage")); err != nil {
		return err
	}
	var choices []json.RawMessage
	if list := all.Get("choices"); list == nil && all.Get("usage") == nil {
		return unknown(fmt.Sprintf("an event with %s", all.Names()))
	} else if list != nil && json.Unmarshal(list, &choices) != nil {
		return unknown("choices that are no list")
	}
	for _, one := range choices {
		if err := b.choice(one, field); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) choice(raw json.RawMessage, field string) error {
	c, err := wire.ReadObject(raw)
	if err != nil {
		return err
	}
	if i := c.Get("index"); i != nil && string(i) != "0" {
		return unknown("a second message")
	}
	b.reason = cmp.Or(c.Text("finish_reason"), b.reason)
	part := c.Get(field)
	if part == nil {
		if other := slices.DeleteFunc([]string{"delta", "message", "text"}, func(name string) bool { return c.Get(name) == nil }); len(other) > 0 {
			return unknown(other[0])
		}
		return nil
	}
	if field == "message" {
		return b.whole(part)
	}
	delta, err := wire.ReadObject(part)
	if err != nil {
		return unknown("delta that is no object")
	}
	for _, name := range delta.Names() {
		if err := b.join(name, delta); err != nil {
			return unknown("delta." + err.Error())
		}
	}
	return nil
}

// join adds a field of a delta.
func (b *builder) join(name string, delta *wire.Object) error {
	value := delta.Get(name)
	if value == nil {
		value = json.RawMessage("null")
	}
	switch name {
	case "content", "refusal", "reasoning_content", "reasoning":
		return b.message.Join(name, value)
	case "annotations", "reasoning_details":
		return b.message.Append(name, value)
	case "tool_calls":
		var parts []json.RawMessage
		if json.Unmarshal(value, &parts) != nil {
			return errors.New("tool_calls is not a list")
		}
		for _, part := range parts {
			if err := b.call(part); err != nil {
				return fmt.Errorf("tool_calls: %w", err)
			}
		}
		return nil
	}
	return b.message.Keep(name, value)
}

// call adds a part of a call.
func (b *builder) call(raw json.RawMessage) error {
	part, err := wire.ReadObject(raw)
	if err != nil {
		return err
	}
	c := b.slot(part)
	part.Remove("index")
	for _, name := range part.Names() {
		value := part.Get(name)
		switch {
		case value == nil, name == "id" && string(value) == `""`:
		case name == "function":
			c.Set(name, value)
			err = c.continues(value)
		default:
			err = c.Keep(name, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// slot returns the call to which a part belongs. Some servers leave the index out, or
// give all calls the same one. So a part with another id begins another call.
func (b *builder) slot(part *wire.Object) *toolCall {
	id, index := part.Text("id"), -1
	if raw := part.Get("index"); raw != nil {
		if json.Unmarshal(raw, &index) != nil {
			index = -1
		}
	} else if id == "" && len(b.calls) > 0 {
		return b.calls[len(b.calls)-1]
	}
	for _, c := range slices.Backward(b.calls) {
		if was := c.Text("id"); c.index == index && (id == "" || was == "" || was == id) {
			return c
		}
	}
	b.calls = append(b.calls, &toolCall{index: index})
	return b.calls[len(b.calls)-1]
}

// toolCall is a call whose parts arrive.
type toolCall struct {
	wire.Object
	// index in the stream
	index    int
	function wire.Object
}

// continues adds a part of the function. Some servers repeat its name.
func (c *toolCall) continues(raw json.RawMessage) error {
	part, err := wire.ReadObject(raw)
	if err != nil {
		return fmt.Errorf("function: %w", err)
	}
	for _, name := range part.Names() {
		value := part.Get(name)
		switch {
		case value == nil:
		case name == "arguments", name == "name" && c.function.Text("name") != part.Text("name"):
			err = c.function.Join(name, value)
		default:
			err = c.function.Keep(name, value)
		}
		if err != nil {
			return fmt.Errorf("function.%w", err)
		}
	}
	return nil
}

// whole takes a message that was not streamed.
func (b *builder) whole(raw json.RawMessage) error {
	m, err := wire.ReadObject(raw)
	if err != nil {
		return unknown("message that is no object")
	}
	b.native = raw
	for _, name := range m.Names() {
		if err := b.join(name, m); err != nil {
			return unknown("message." + err.Error())
		}
	}
	return nil
}

// count reads the usage, which some servers send more than once.
func (b *builder) count(raw json.RawMessage) error {
	var u struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
		Details    struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	if raw == nil {
		return nil
	}
	if err := json.Unmarshal(raw, &u); err != nil {
		return fmt.Errorf("usage: %w", err)
	}
	b.usage = session.Usage{Input: u.Prompt, Output: u.Completion, Cached: u.Details.Cached}
	return nil
}

// reply returns what was built. A part of a message has no native form.
func (b *builder) reply() session.Reply {
	r := session.Reply{Text: b.message.Text("content"), Usage: b.usage, Whole: b.reason != "", Ended: ended(b.reason)}
	if refusal := b.message.Text("refusal"); refusal != "" {
		r.Text, r.Ended = cmp.Or(r.Text, refusal), session.EndedRefusal
	}
	for i, c := range b.calls {
		r.Calls = append(r.Calls, session.ModelCall{Number: i + 1, ID: c.Text("id"), Tool: c.function.Text("name"), Arguments: c.function.Text("arguments")})
	}
	if r.Whole {
		r.Native = b.form()
	}
	return r
}

// ended returns the reason of the end in acode's words.
func ended(reason string) string {
	switch reason {
	case "stop", "tool_calls", "function_call":
		return ""
	case "length":
		return session.EndedLength
	case "content_filter":
		return session.EndedRefusal
	}
	return reason
}

// form returns the message to send back.
func (b *builder) form() json.RawMessage {
	if b.native != nil {
		return b.native
	}
	m := b.message
	if m.Get("role") == nil {
		m.Set("role", json.RawMessage(`"assistant"`))
	}
	if len(b.calls) == 0 {
		return m.Bytes()
	}
	if m.Text("content") == "" { // as in a message that is not streamed
		m.Set("content", json.RawMessage("null"))
	}
	var calls []json.RawMessage
	for _, c := range b.calls {
		if c.Get("function") != nil {
			c.Set("function", c.function.Bytes())
		}
		calls = append(calls, c.Bytes())
	}
	m.Set("tool_calls", wire.List(calls))
	return m.Bytes()
}

func unknown(part string) error { return wire.Unknown(Provider, part) }
