// Package ollama asks models over Ollama's own chat API, because its other one cannot set
// the size of the context.
package ollama

import (
	"context"
	"encoding/json"
	"io"

	"github.com/acode-dev/acode/provider/wire"
	"github.com/acode-dev/acode/session"
)

// Provider is the name of the dialect in the configuration.
const Provider = "ollama"

// DefaultURL is the base URL of a server on this machine.
const DefaultURL = "http://127.0.0.1:11434"

// Model is a model of a server of Ollama.
type Model struct{ *wire.Client }

// New returns a model. It returns ErrConfig for options that it cannot use.
func New(o wire.Options) (Model, error) {
	o.Provider = Provider
	c, err := wire.New(o)
	return Model{c}, err
}

// Ask implements engine.Model.
func (m Model) Ask(ctx context.Context, r session.ModelRequest, into io.Writer) error {
	return m.Post(ctx, "api/chat", m.Bearer(), m.body(r), into)
}

// Check implements engine.Model. It does not load the model.
func (m Model) Check(ctx context.Context) error {
	body, err := json.Marshal(map[string]string{"model": m.Model})
	if err != nil {
		return err
	}
	return wire.Checked(m.Post(ctx, "api/show", m.Bearer(), body, io.Discard))
}

// request is the body of a request without its messages.
type request struct {
	Model   string      `json:"model"`
	Tools   []wire.Tool `json:"tools,omitempty"`
	Stream  bool        `json:"stream"`
	Options options     `json:"options"`
	// Truncate and Shift are false, so that the server refuses a conversation that is too
	// long. Otherwise it drops the beginning silently.
	Truncate bool `json:"truncate"`
	Shift    bool `json:"shift"`
}

type options struct {
	NumCtx     int `json:"num_ctx,omitempty"`
	NumPredict int `json:"num_predict,omitempty"`
}

// body returns the body of a request.
func (m Model) body(r session.ModelRequest) []byte {
	out := request{Model: m.Model, Tools: wire.Tools(r.Tools), Stream: true, Options: options{NumCtx: m.ContextTokens, NumPredict: m.MaxOutputTokens}}
	messages := []json.RawMessage{encode(message{Role: "system", Content: r.System})}
	// calls of the last message of the model, whose results come next
	var open []session.ModelCall
	for _, msg := range r.Messages {
		next := message{Role: string(msg.Role), Content: msg.Text}
		switch msg.Role {
		case session.RoleModel:
			open = msg.Calls
			if wire.Native(msg, m.Setup()) {
				messages = append(messages, msg.Native)
				continue
			}
			for _, c := range msg.Calls {
				next.Calls = append(next.Calls, call{called{c.Tool, wire.Arguments(c)}})
			}
		case session.RoleTool:
			if len(open) > 0 {
				next.Tool, open = open[0].Tool, open[1:]
			}
		}
		messages = append(messages, encode(next))
	}
	return wire.Body(out, messages)
}

// message is a message that acode writes.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	Calls   []call `json:"tool_calls,omitempty"`
	// Tool is the tool whose result this is.
	Tool string `json:"tool_name,omitempty"`
}

type call struct {
	Function called `json:"function"`
}

type called struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

func encode(m message) json.RawMessage {
	raw, err := json.Marshal(m)
	if err != nil {
		panic("ollama: a message must encode: " + err.Error())
	}
	return raw
}
