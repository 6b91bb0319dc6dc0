// Package anthropic asks models over Anthropic's messages.
package anthropic

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/acode-dev/acode/provider/wire"
	"github.com/acode-dev/acode/session"
)

// Provider is the name of the dialect in the configuration.
const Provider = "anthropic"

// DefaultURL is the base URL of Anthropic.
const DefaultURL = "https://api.anthropic.com"

// defaultOutput limits a reply of a model without max_output_tokens, because the API
// needs a limit. A model that allows fewer needs max_output_tokens.
const defaultOutput = 8192

// Model is a model behind messages.
type Model struct{ *wire.Client }

// New returns a model. It returns ErrConfig for options that it cannot use.
func New(o wire.Options) (Model, error) {
	o.Provider = Provider
	c, err := wire.New(o)
	return Model{c}, err
}

func (m Model) header() http.Header {
	h := http.Header{}
	h.Set("Anthropic-Version", "2023-06-01")
	if m.Key != "" {
		h.Set("X-Api-Key", m.Key)
	}
	return h
}

// Ask implements engine.Model.
func (m Model) Ask(ctx context.Context, r session.ModelRequest, into io.Writer) error {
	return m.Post(ctx, "v1/messages", m.header(), m.body(r), into)
}

// Check implements engine.Model.
func (m Model) Check(ctx context.Context) error {
	_, err := m.Get(ctx, "v1/models/"+url.PathEscape(m.Model), m.header())
	return wire.Checked(err)
}

// request is the body of a request without its messages.
type request struct {
	Model     string  `json:"model"`
	MaxTokens int     `json:"max_tokens"`
	System    []block `json:"system"`
	Tools     []tool  `json:"tools,omitempty"`
	Stream    bool    `json:"stream"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
}

// message is a message that acode writes.
type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// block is a part of a message.
type block struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`
	// of a call
	ID    string          `json:"id,omitempty"`
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
	// of its result
	Call    string `json:"tool_use_id,omitempty"`
	Content string `json:"content,omitempty"`
	IsError bool   `json:"is_error,omitempty"`
	// Cache ends a part of the request that the server keeps for the next one.
	Cache *cache `json:"cache_control,omitempty"`
}

type cache struct {
	Type string `json:"type"`
}

// body returns the body of a request.
func (m Model) body(r session.ModelRequest) []byte {
	out := request{Model: m.Model, MaxTokens: defaultOutput, Stream: true, System: []block{{Type: "text", Text: r.System, Cache: &cache{"ephemeral"}}}}
	if m.MaxOutputTokens > 0 {
		out.MaxTokens = m.MaxOutputTokens
	}
	for _, t := range r.Tools {
		out.Tools = append(out.Tools, tool{t.Name, t.About, json.RawMessage(t.Schema)})
	}
	var messages []json.RawMessage
	var calls wire.Calls
	// blocks of the user's next message
	var user []block
	for _, msg := range r.Messages {
		switch {
		case msg.Role == session.RoleModel:
			if user != nil {
				messages = append(messages, encode("user", user))
			}
			user = nil
			if own := m.own(msg, &calls); own != nil {
				messages = append(messages, own)
			}
		case msg.Role == session.RoleTool:
			user = append(user, result(msg, &calls))
		case msg.Text != "":
			user = append(user, block{Type: "text", Text: msg.Text})
		}
	}
	if user != nil {
		user[len(user)-1].Cache = &cache{"ephemeral"}
		messages = append(messages, encode("user", user))
	}
	return wire.Body(out, messages)
}

// own returns a message of the model; nil for one without content, which the API refuses.
func (m Model) own(msg session.Message, calls *wire.Calls) json.RawMessage {
	native := wire.Native(msg, m.Setup())
	ids := calls.Message(msg, native)
	if native {
		return msg.Native
	}
	var blocks []block
	if text := strings.TrimRight(msg.Text, " \t\r\n"); text != "" { // the API refuses space at the end
		blocks = append(blocks, block{Type: "text", Text: text})
	}
	for i, c := range msg.Calls {
		blocks = append(blocks, block{Type: "tool_use", ID: ids[i], Name: c.Tool, Input: wire.Arguments(c)})
	}
	if blocks == nil {
		return nil
	}
	return encode("assistant", blocks)
}

// result returns the result of a call.
func result(msg session.Message, calls *wire.Calls) block {
	if id, ok := calls.Result(); ok {
		return block{Type: "tool_result", Call: id, Content: msg.Text, IsError: msg.Failed}
	}
	return block{Type: "text", Text: msg.Text}
}

func encode(role string, blocks []block) json.RawMessage {
	raw, err := json.Marshal(message{role, blocks})
	if err != nil {
		panic("anthropic: a message must encode: " + err.Error())
	}
	return raw
}
