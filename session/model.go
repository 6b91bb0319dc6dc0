package session

import "encoding/json"

// Role is who speaks a message.
type Role string

// The roles.
const (
	RoleUser  Role = "user"
	RoleModel Role = "assistant"
	RoleTool  Role = "tool"
)

// Message is a message of a conversation.
type Message struct {
	Role Role   `json:"role"`
	Text string `json:"text"`
	// Calls are those of a model's message.
	Calls []ModelCall `json:"calls,omitempty"`
	// Cut says that a model's message was not received to its end.
	Cut bool `json:"cut,omitempty"`
	// Call is the id of the call whose result a tool's message has.
	Call string `json:"call,omitempty"`
	// Failed says that a tool's message is an error.
	Failed bool `json:"failed,omitempty"`
	// Native is a model's message in the form of its provider, to be sent back as it is to
	// the model that wrote it. Other models get Text and Calls.
	Native json.RawMessage `json:"-"`
	// Model is the model that wrote Native.
	Model ModelSetup `json:"-"`
}

// ModelCall is a call in a reply of a model.
type ModelCall struct {
	// Number is the place in the reply, from 1.
	Number int `json:"-"`
	// ID is the provider's name of the call. It may be empty, and may occur twice.
	ID   string `json:"id"`
	Tool string `json:"tool"`
	// Arguments is a JSON object, unless the model made a mistake.
	Arguments string `json:"arguments"`
}

// ModelTool describes a tool to a model.
type ModelTool struct {
	Name  string `json:"name"`
	About string `json:"about"`
	// Schema is the JSON Schema of the arguments.
	Schema string `json:"schema"`
}

// ModelRequest is a request to a model.
type ModelRequest struct {
	System   string      `json:"system"`
	Messages []Message   `json:"messages"`
	Tools    []ModelTool `json:"tools"`
	// Replies counts the whole replies before this request, also those that were left out.
	Replies int `json:"replies"`
}

// Reply is a reply of a model.
type Reply struct {
	Text  string
	Calls []ModelCall
	Usage Usage
	// Whole says that the reply arrived to its end.
	Whole bool
	// Ended says why a whole reply ended; empty if the model had finished.
	Ended string
	// Native is the message in the form of the provider; nil if it has none of its own.
	Native json.RawMessage
}

// The reasons why a reply ended before the model had finished.
const (
	// its length is at the limit, so the arguments of its last call may be cut
	EndedLength = "length"
	// the model or a filter of the provider refused to answer
	EndedRefusal = "refusal"
)

// Decision is what a conversation does with a reply: it carries out calls, and then ends
// or asks again.
type Decision struct {
	// Calls have no outcome yet.
	Calls []ModelCall
	// Refused has the reasons against calls, by their numbers.
	Refused map[int]string
	// End is nil if the model is asked again.
	End *Ending
	// Reminder is a message to add; empty for none.
	Reminder string
}

// Ending is the end of a prompt step.
type Ending struct {
	// GaveUp says that the model could not do its task.
	GaveUp bool
	// Text is the answer, or the reason for giving up.
	Text string
}

// Permission is what the powers of a model say about a call.
type Permission struct {
	// Ask says that a person decides, and Deny that the call is denied. The call is
	// allowed if neither is set.
	Ask, Deny bool
	// Class is read, write, delete, command, network or git.
	Class string
	// Reason is a sentence.
	Reason string
	// Confine is the confinement of a command.
	Confine Confinement
	// Offer is the rule that a yes to more than this call would add, and Means says it in
	// words. Both are empty if there is none.
	Offer, Means string
}

// CallWork is the work of a call of a model in acode's terms.
type CallWork struct {
	Tool string
	// Arguments is a canonical encoding, with the defaults filled in.
	Arguments string
	Step      Step
	// Reads says that the call changes nothing.
	Reads bool
	// Found is the result of a call that reads the conversation itself; nil for any other
	// call.
	Found *string
	// Proposes says that the call proposes a plan, which Arguments are.
	Proposes bool
}

// TrustedFile is a file of a workspace that a person trusts to say how to work there.
type TrustedFile struct {
	Path string
	// Hash is the SHA-256 of Text in hex.
	Hash string
	Text string
}
