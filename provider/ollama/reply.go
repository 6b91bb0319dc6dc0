package ollama

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/acode-dev/acode/provider/wire"
	"github.com/acode-dev/acode/session"
)

// Reply implements engine.Model. It reads a stream or one answer. With an error, the
// reply has the part before it.
func (Model) Reply(raw []byte) (session.Reply, error) {
	b := builder{}
	for line := range wire.Lines(raw) {
		if err := b.line(line); err != nil {
			b.done = false
			r, _ := b.reply() // the first error counts
			return r, wire.Unread(Provider, err)
		}
	}
	return b.reply()
}

// builder builds a message from its parts.
type builder struct {
	message wire.Object
	parts   int
	// the bytes of the first part
	first json.RawMessage
	usage session.Usage
	// the reason of the end
	reason string
	done   bool
}

// line takes a part of a stream, or a whole answer.
func (b *builder) line(raw []byte) error {
	all, err := wire.ReadObject(raw)
	if err != nil {
		return err
	}
	if all.Get("error") != nil {
		return wire.InReply(Provider, wire.ReadFailure(raw))
	}
	part := all.Get("message")
	if part == nil {
		return wire.Unknown(Provider, fmt.Sprintf("a line with %s", all.Names()))
	}
	m, err := wire.ReadObject(part)
	if err != nil {
		return wire.Unknown(Provider, "message that is no object")
	}
	if b.parts++; b.parts == 1 {
		b.first = bytes.Clone(part)
	}
	for _, name := range m.Names() {
		if err := b.join(name, m.Get(name)); err != nil {
			return wire.Unknown(Provider, "message."+err.Error())
		}
	}
	return b.end(raw)
}

// join adds a field of a part.
func (b *builder) join(name string, value json.RawMessage) error {
	switch {
	case value == nil:
		return b.message.Keep(name, json.RawMessage("null"))
	case name == "content", name == "thinking":
		return b.message.Join(name, value)
	case name == "tool_calls", name == "images":
		return b.message.Append(name, value)
	}
	return b.message.Keep(name, value)
}

// end reads how and whether the reply ends.
func (b *builder) end(raw []byte) error {
	var last struct {
		Done   bool   `json:"done"`
		Reason string `json:"done_reason"`
		Input  int64  `json:"prompt_eval_count"`
		Output int64  `json:"eval_count"`
	}
	if err := json.Unmarshal(raw, &last); err != nil {
		return err
	}
	if last.Done {
		b.done, b.reason, b.usage = true, last.Reason, session.Usage{Input: last.Input, Output: last.Output}
	}
	return nil
}

// reply returns what was built. Most servers give calls no id, so acode makes them.
func (b *builder) reply() (session.Reply, error) {
	r := session.Reply{Text: b.message.Text("content"), Usage: b.usage, Whole: b.done, Ended: b.reason}
	switch b.reason {
	case "stop":
		r.Ended = ""
	case "length":
		r.Ended = session.EndedLength
	}
	var calls []struct {
		ID       string `json:"id"`
		Function called `json:"function"`
	}
	if raw := b.message.Get("tool_calls"); raw != nil && json.Unmarshal(raw, &calls) != nil {
		r.Whole = false
		return r, wire.Unknown(Provider, "message.tool_calls of another form")
	}
	for i, c := range calls {
		r.Calls = append(r.Calls, session.ModelCall{Number: i + 1, ID: cmp.Or(c.ID, fmt.Sprintf("call_%d", i+1)), Tool: c.Function.Name, Arguments: string(c.Function.Arguments)})
	}
	switch {
	case !r.Whole:
	case b.parts == 1:
		r.Native = b.first
	default:
		r.Native = b.message.Bytes()
	}
	return r, nil
}
