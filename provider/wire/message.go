package wire

import (
	"encoding/json"
	"fmt"

	"github.com/acode-dev/acode/session"
)

// Tool is a tool in the form of OpenAI and Ollama.
type Tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// Tools returns tools in the form of OpenAI and Ollama.
func Tools(list []session.ModelTool) (out []Tool) {
	for _, t := range list {
		out = append(out, Tool{"function", function{t.Name, t.About, json.RawMessage(t.Schema)}})
	}
	return out
}

// Native reports whether a model's message goes back to the model of setup as it came:
// this model wrote it, each call has an id of its own, and all arguments are objects.
// Servers refuse other messages, also those that they sent themselves.
func Native(m session.Message, setup session.ModelSetup) bool {
	if m.Native == nil || m.Model.Provider != setup.Provider || m.Model.Digest != setup.Digest {
		return false
	}
	seen := map[string]bool{"": true}
	for _, call := range m.Calls {
		if seen[call.ID] || !isObject(call.Arguments) {
			return false
		}
		seen[call.ID] = true
	}
	return true
}

// isObject reports whether s is a JSON object.
func isObject(s string) bool {
	var o map[string]json.RawMessage
	return json.Unmarshal([]byte(s), &o) == nil && o != nil
}

// Arguments returns the arguments of a call as an object, because servers refuse
// anything else. A text that is none stands in it, so that the model sees its mistake.
func Arguments(call session.ModelCall) json.RawMessage {
	switch {
	case call.Arguments == "":
		return json.RawMessage("{}")
	case isObject(call.Arguments):
		return json.RawMessage(call.Arguments)
	}
	raw, err := json.Marshal(map[string]string{"not_an_object": call.Arguments})
	if err != nil {
		panic("wire: a text must encode: " + err.Error())
	}
	return raw
}

// Calls names the calls of a conversation for a server.
type Calls struct {
	messages int
	// ids of the calls of the last message of the model, whose results come next
	open []string
}

// Message returns the ids of the calls of a message. It makes ids unless the message is
// sent as it came. They are equal in each request, and no two calls have the same.
func (c *Calls) Message(m session.Message, native bool) []string {
	c.messages, c.open = c.messages+1, nil
	for i, call := range m.Calls {
		id := call.ID
		if !native {
			id = fmt.Sprintf("acode_%d_%d", c.messages, i+1)
		}
		c.open = append(c.open, id)
	}
	return c.open
}

// Result returns the id of the next call without a result. Results come in the order of
// their calls. ok is false if each call has one.
func (c *Calls) Result() (id string, ok bool) {
	if len(c.open) == 0 {
		return "", false
	}
	id, c.open = c.open[0], c.open[1:]
	return id, true
}
