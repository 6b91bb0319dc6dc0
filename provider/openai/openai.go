// Package openai asks models over the chat completions of OpenAI, which many servers
// understand.
package openai

import (
	"context"
	"encoding/json"
	"io"
	"net/url"

	"github.com/acode-dev/acode/provider/wire"
	"github.com/acode-dev/acode/session"
)

// Provider is the name of the dialect in the configuration.
const Provider = "openai"

// DefaultURL is the base URL of OpenAI.
const DefaultURL = "https://api.openai.com/v1"

// Model is a model behind chat completions.
type Model struct{ *wire.Client }

// New returns a model. It returns ErrConfig for options that it cannot use.
func New(o wire.Options) (Model, error) {
	o.Provider = Provider
	c, err := wire.New(o)
	return Model{c}, err
}

// Ask implements engine.Model.
func (m Model) Ask(ctx context.Context, r session.ModelRequest, into io.Writer) error {
	h := m.Bearer()
	h.Set("Accept", "text/event-stream")
	return m.Post(ctx, "chat/completions", h, m.body(r), into)
}

// Check implements engine.Model.
func (m Model) Check(ctx context.Context) error {
	_, err := m.Get(ctx, "models/"+url.PathEscape(m.Model), m.Bearer())
	return wire.Checked(err)
}

// request is the body of a request without its messages.
type request struct {
	Model string      `json:"model"`
	Tools []wire.Tool `json:"tools,omitempty"`
	// MaxTokens is for other servers, MaxCompletionTokens for OpenAI.
	MaxTokens           int           `json:"max_tokens,omitempty"`
	MaxCompletionTokens int           `json:"max_completion_tokens,omitempty"`
	Stream              bool          `json:"stream"`
	StreamOptions       streamOptions `json:"stream_options"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// body returns the body of a request.
func (m Model) body(r session.ModelRequest) []byte {
	out := request{Model: m.Model, Tools: wire.Tools(r.Tools), Stream: true, StreamOptions: streamOptions{true}}
	if m.Host() == "api.openai.com" {
		out.MaxCompletionTokens = m.MaxOutputTokens
	} else {
		out.MaxTokens = m.MaxOutputTokens
	}
	messages := []json.RawMessage{encode(message{Role: "system", Content: &r.System})}
	var calls wire.Calls
	for _, msg := range r.Messages {
		messages = append(messages, m.message(msg, &calls))
	}
	return wire.Body(out, messages)
}

// message is a message that acode writes.
type message struct {
	Role    string  `json:"role"`
	Content *string `json:"content"`
	Calls   []call  `json:"tool_calls,omitempty"`
	// Call is the id of the call whose result this is.
	Call string `json:"tool_call_id,omitempty"`
}

type call struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function called `json:"function"`
}

type called struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// message returns a message in the form of the dialect.
func (m Model) message(msg session.Message, calls *wire.Calls) json.RawMessage {
	out := message{Role: string(msg.Role), Content: &msg.Text}
	switch msg.Role {
	case session.RoleModel:
		native := wire.Native(msg, m.Setup())
		ids := calls.Message(msg, native)
		if native {
			return msg.Native
		}
		for i, c := range msg.Calls {
			out.Calls = append(out.Calls, call{ids[i], "function", called{c.Tool, string(wire.Arguments(c))}})
		}
		if msg.Text == "" && len(out.Calls) > 0 {
			out.Content = nil
		}
	case session.RoleTool:
		id, ok := calls.Result()
		if !ok {
			out.Role = string(session.RoleUser)
		}
		out.Call = id
	}
	return encode(out)
}

func encode(m message) json.RawMessage {
	raw, err := json.Marshal(m)
	if err != nil {
		panic("openai: a message must encode: " + err.Error())
	}
	return raw
}
