package anthropic

import (
	"bytes"
	"cmp"
	"encoding/json"
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

// builder builds a message from its events.
type builder struct {
	blocks []*part
	usage  usage
	// the reason of the end; empty while the message is not whole
	reason string
}

// part is a block of a message that arrives.
type part struct {
	// raw is the block as it began. Without deltas it is the block.
	raw    json.RawMessage
	fields *wire.Object
	// input joins the deltas of the input of a call, which are parts of a JSON text
	input   wire.Object
	changed bool
}

func (b *builder) read(raw []byte) error {
	if start := bytes.TrimLeft(raw, " \t\r\n"); len(start) > 0 && start[0] == '{' {
		if !json.Valid(start) {
			return nil // the rest of it did not arrive
		}
		return b.whole(start)
	}
	for event := range wire.Events(raw) {
		if err := b.event(event); err != nil {
			return err
		}
	}
	return nil
}

// whole takes an answer that is not streamed.
func (b *builder) whole(raw []byte) error {
	var m struct {
		Type    string            `json:"type"`
		Content []json.RawMessage `json:"content"`
		Reason  string            `json:"stop_reason"`
		Usage   json.RawMessage   `json:"usage"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return err
	}
	if m.Type == "error" {
		return wire.InReply(Provider, wire.ReadFailure(raw))
	}
	for i, one := range m.Content {
		if err := b.begin(i, one); err != nil {
			return err
		}
	}
	b.reason = m.Reason
	return b.usage.add(m.Usage)
}

// event takes an event of a stream.
func (b *builder) event(raw []byte) error {
	e, err := wire.ReadObject(raw)
	if err != nil {
		return err
	}
	index := -1
	if i := e.Get("index"); i != nil && json.Unmarshal(i, &index) != nil {
		return unknown("an index that is no number")
	}
	switch kind := e.Text("type"); kind {
	case "message_start":
		return b.start(e.Get("message"))
	case "content_block_start":
		return b.begin(index, e.Get("content_block"))
	case "content_block_delta":
		return b.delta(index, e.Get("delta"))
	case "message_delta":
		var d struct {
			Reason string `json:"stop_reason"`
		}
		if delta := e.Get("delta"); delta != nil {
			if err := json.Unmarshal(delta, &d); err != nil {
				return err
			}
		}
		b.reason = d.Reason
		return b.usage.add(e.Get("usage"))
	case "error":
		return wire.InReply(Provider, wire.ReadFailure(raw))
	case "ping", "content_block_stop", "message_stop":
	default:
		// The API may send further events, which are no part of the message.
		if index >= 0 || e.Get("delta") != nil || e.Get("content_block") != nil {
			return unknown(cmp.Or(kind, "an event without a type"))
		}
	}
	return nil
}

func (b *builder) start(raw json.RawMessage) error {
	var m struct {
		Content []json.RawMessage `json:"content"`
		Usage   json.RawMessage   `json:"usage"`
	}
	if raw != nil {
		if err := json.Unmarshal(raw, &m); err != nil {
			return err
		}
	}
	for i, one := range m.Content {
		if err := b.begin(i, one); err != nil {
			return err
		}
	}
	return b.usage.add(m.Usage)
}

// begin takes the beginning of a block.
func (b *builder) begin(index int, raw json.RawMessage) error {
	if index != len(b.blocks) || raw == nil {
		return unknown(fmt.Sprintf("the block %d at the place of block %d", index, len(b.blocks)))
	}
	raw = bytes.Clone(raw)
	fields, err := wire.ReadObject(raw)
	if err != nil {
		return unknown("a block that is no object")
	}
	b.blocks = append(b.blocks, &part{raw: raw, fields: fields})
	return nil
}

// delta takes a part of a block.
func (b *builder) delta(index int, raw json.RawMessage) error {
	if index < 0 || index >= len(b.blocks) || raw == nil {
		return unknown(fmt.Sprintf("a delta of block %d, which did not begin", index))
	}
	d, err := wire.ReadObject(raw)
	if err != nil {
		return unknown("a delta that is no object")
	}
	p, kind := b.blocks[index], d.Text("type")
	field := map[string]string{"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature", "citations_delta": "citation", "input_json_delta": "partial_json"}[kind]
	if field == "" {
		return unknown(cmp.Or(kind, "a delta without a type"))
	}
	for _, name := range d.Names() {
		if name != "type" && name != field && d.Get(name) != nil {
			return unknown(kind + "." + name)
		}
	}
	value := d.Get(field)
	if value == nil {
		return nil
	}
	p.changed = true
	switch field {
	case "citation":
		err = p.fields.Append("citations", slices.Concat([]byte("["), value, []byte("]")))
	case "partial_json":
		err = p.input.Join(field, value)
	default:
		err = p.fields.Join(field, value)
	}
	if err != nil {
		return unknown(kind + ": " + err.Error())
	}
	return nil
}

// arguments returns the input of a call. A stream begins each call with an empty input,
// which counts only if no delta followed.
func (p *part) arguments(whole bool) string {
	text := p.input.Text("partial_json")
	if text == "" && whole {
		return string(p.fields.Get("input"))
	}
	return text
}

// form returns the block to send back. It returns nil for a call whose input was cut.
func (p *part) form() json.RawMessage {
	if !p.changed {
		return p.raw
	}
	if input := p.input.Text("partial_json"); input != "" {
		if !json.Valid([]byte(input)) {
			return nil
		}
		p.fields.Set("input", json.RawMessage(input))
	}
	return p.fields.Bytes()
}

// usage counts the tokens of a message. The events give sums, not differences.
type usage struct {
	Input   int64 `json:"input_tokens"`
	Output  int64 `json:"output_tokens"`
	Read    int64 `json:"cache_read_input_tokens"`
	Created int64 `json:"cache_creation_input_tokens"`
}

// add takes the counts that an event has.
func (u *usage) add(raw json.RawMessage) error {
	if raw == nil {
		return nil
	}
	if err := json.Unmarshal(raw, u); err != nil {
		return fmt.Errorf("usage: %w", err)
	}
	return nil
}

// reply returns what was built. A part of a message has no native form.
func (b *builder) reply() session.Reply {
	u := b.usage
	r := session.Reply{Usage: session.Usage{Input: u.Input + u.Read + u.Created, Output: u.Output, Cached: u.Read}, Whole: b.reason != "", Ended: ended(b.reason)}
	for _, p := range b.blocks {
		switch p.fields.Text("type") {
		case "text":
			r.Text += p.fields.Text("text")
		case "tool_use":
			r.Calls = append(r.Calls, session.ModelCall{Number: len(r.Calls) + 1, ID: p.fields.Text("id"), Tool: p.fields.Text("name"), Arguments: p.arguments(r.Whole)})
		}
	}
	if r.Whole {
		r.Native = b.form()
	}
	return r
}

// form returns the message to send back; nil if a block of it was cut. The API refuses
// empty texts, which it sometimes sends.
func (b *builder) form() json.RawMessage {
	var blocks []json.RawMessage
	for _, p := range b.blocks {
		if p.fields.Text("type") == "text" && p.fields.Text("text") == "" {
			continue
		}
		raw := p.form()
		if raw == nil {
			return nil
		}
		blocks = append(blocks, raw)
	}
	if blocks == nil {
		return nil
	}
	return slices.Concat([]byte(`{"role":"assistant","content":`), wire.List(blocks), []byte("}"))
}

// ended returns the reason of the end in acode's words.
func ended(reason string) string {
	switch reason {
	case "end_turn", "tool_use", "stop_sequence":
		return ""
	case "max_tokens", "model_context_window_exceeded":
		return session.EndedLength
	case "refusal":
		return session.EndedRefusal
	}
	return reason
}

func unknown(part string) error { return wire.Unknown(Provider, part) }
