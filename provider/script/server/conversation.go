package server

import (
	"encoding/json"
	"time"
)

// Conversation is a request for the next message of a model.
type Conversation struct {
	// Model is the name that the client asked for.
	Model string
	// System has the instructions of the client.
	System string
	Tools  []Tool
	// Messages are in their order, oldest first.
	Messages []Message
}

// Tool is a tool that the model may call.
type Tool struct{ Name, Description string }

// Message is one message. A message of the model has Text and Calls; one of the client
// has Text and Results.
type Message struct {
	// Own says that the message is one of the model.
	Own     bool
	Text    string
	Calls   []Call
	Results []Result
}

// Call is a call of a tool.
type Call struct {
	// ID is unique in a conversation. In a Reply it may be empty: the server then makes
	// one.
	ID   string
	Name string
	// Arguments are a JSON object.
	Arguments json.RawMessage
}

// Result is the result of a call.
type Result struct {
	// ID is that of the call.
	ID   string
	Text string
	// IsError says that the client marked the result as an error. Only some dialects can.
	IsError bool
}

// Reply is a message of the model: text, calls, or both.
type Reply struct {
	Text  string
	Calls []Call
	// Pause is the time between two events of a stream.
	Pause time.Duration
	// Refused is an error that the client gets instead of the message; empty for none.
	Refused string
}

// Model is a script: it returns the next message. It may be called by many goroutines.
type Model func(Conversation) Reply

// tokens estimates the size of a text for the counts that clients want.
func tokens(bytes int) int { return bytes/4 + 1 }

// size returns the number of bytes of a reply.
func (r Reply) size() int {
	n := len(r.Text)
	for _, c := range r.Calls {
		n += len(c.Name) + len(c.Arguments)
	}
	return n
}
