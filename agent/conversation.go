// Package agent decides how a conversation with a model continues, and tells the model
// the outcomes of its calls. It is pure: equal events give equal messages and equal
// decisions (FR-036).
package agent

import (
	"errors"
	"slices"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/tool"
)

// Render is the version of the words that this package makes of events.
const Render = 4

// Conversation holds the messages of a prompt step. It begins empty; Add takes its events
// in their order.
type Conversation struct {
	Step session.StepID
	// Powers are those of the model.
	Powers []string
	// Plans says that the model makes a plan.
	Plans bool
	// Workspace is an absolute path.
	Workspace string
	// Decode reads the bytes of a reply of a provider.
	Decode func(provider string, raw []byte) (session.Reply, error)

	// the model that was asked last
	model    session.ModelSetup
	messages []session.Message
	// last whole reply, and the calls of it that have an outcome
	reply *session.Reply
	done  map[int]bool
	// index of the result of the first call of reply
	results int
	history
	progress progress
	// tokens of the last whole reply and all before it, and how many messages these are
	known   int64
	counted int
	// changes of files that no message has told, by their paths
	accepted map[string]session.ChangedFile
}

// Add takes the next event of the session. It ignores the events of other steps. read
// reads the content that an event names.
func (c *Conversation) Add(e session.Event, read func(session.BlobRef) ([]byte, error)) (err error) {
	r := reader{read: read}
	switch e.Type {
	case session.MessageAdded:
		var d session.MessageAddedData
		if err = e.Decode(&d); err == nil && d.Of() == c.Step {
			c.added(d)
		}
	case session.ChangesAccepted:
		var d session.ChangesAcceptedData
		if err = e.Decode(&d); err == nil {
			c.accept(d)
		}
	case session.ModelAsked:
		var d session.ModelAskedData
		if err = e.Decode(&d); err == nil && d.Of() == c.Step {
			c.model = d.Model
		}
	case session.ModelAnswered:
		var d session.ModelAnsweredData
		if err = e.Decode(&d); err == nil && d.Of() == c.Step {
			err = c.answered(d, &r)
		}
	case session.ModelFailed:
		var d session.ModelFailedData
		if err = e.Decode(&d); err == nil && d.Of() == c.Step {
			err = c.failed(d, &r)
		}
	case session.ContextReduced:
		var d session.ContextReducedData
		if err = e.Decode(&d); err == nil && d.Of() == c.Step {
			c.reduced(d)
		}
	case session.OperationCompleted:
		var d session.OperationCompletedData
		if err = e.Decode(&d); err == nil && d.Of() == c.Step {
			c.wrote(d.Files)
			c.result(d.StepID, completed(d, &r), false, true)
		}
	case session.OperationFailed:
		var d session.OperationFailedData
		if err = e.Decode(&d); err == nil && d.Of() == c.Step {
			c.result(d.StepID, failed(d, &r), true, true)
		}
	case session.OperationUnknown:
		var d session.OperationUnknownData
		if err = e.Decode(&d); err == nil && d.Of() == c.Step {
			c.result(d.StepID, unknown(d, &r), true, true)
		}
	}
	if err != nil {
		return err
	}
	return r.err
}

func (c *Conversation) added(d session.MessageAddedData) {
	if d.Kind == session.MessageRefused || d.Kind == session.MessageDenied {
		c.result(d.StepID, d.Text, true, false)
		return
	}
	if d.Kind == session.MessageResumed {
		c.accepted = nil
		c.progress.resumed()
	}
	c.messages = append(c.messages, session.Message{Role: session.RoleUser, Text: d.Text})
	switch d.Kind {
	case session.MessagePrompt, session.MessageRules, session.MessageBefore:
		if c.kept == len(c.messages)-1 {
			c.kept++
		}
	}
}

// answered adds a reply, and keeps the places of the results behind it.
func (c *Conversation) answered(d session.ModelAnsweredData, r *reader) error {
	reply, err := c.Decode(c.model.Provider, r.blob(d.Reply))
	if err != nil || r.err != nil {
		return err
	}
	c.progress.turn(c.reply == nil)
	c.messages = append(c.messages, session.Message{Role: session.RoleModel, Text: reply.Text, Calls: reply.Calls, Native: reply.Native, Model: c.model})
	if d.Usage.Tokens() > 0 {
		c.known, c.counted = d.Usage.Tokens(), len(c.messages)
	}
	c.replied(d.Op, len(c.messages)-1)
	c.reply, c.done, c.results = &reply, map[int]bool{}, len(c.messages)
	for _, call := range reply.Calls {
		c.messages = append(c.messages, session.Message{Role: session.RoleTool, Call: call.ID})
	}
	return nil
}

// failed adds the part of a reply that arrived, as the model's own unfinished words.
// Calls of it do not count, nor does the rest of a part that cannot be read.
func (c *Conversation) failed(d session.ModelFailedData, r *reader) error {
	c.reply, c.done = nil, nil
	if d.Part.Hash == "" {
		return nil
	}
	part, err := c.Decode(c.model.Provider, r.blob(d.Part))
	if err != nil && !errors.Is(err, session.ErrModel) || r.err != nil {
		return err
	}
	if part.Text != "" {
		c.messages = append(c.messages, session.Message{Role: session.RoleModel, Text: part.Text, Cut: true})
	}
	return nil
}

// result fills the place of the result of a call of the last reply.
func (c *Conversation) result(id session.StepID, text string, failed, carriedOut bool) {
	_, n, ok := session.TurnCall(id.Op)
	if !ok || c.reply == nil || n > len(c.reply.Calls) {
		return
	}
	m := &c.messages[c.results+n-1]
	m.Text, m.Failed, c.done[n] = text, failed, true
	c.progress.result(c.reply.Calls[n-1], text, carriedOut)
	c.had(id.Op, c.reply.Calls[n-1], text)
}

// Version implements engine.Conversation.
func (c *Conversation) Version() int { return Render }

// Last returns the last whole reply, and which of its calls have an outcome. The reply is
// nil if the model is to be asked.
func (c *Conversation) Last() (reply *session.Reply, done map[int]bool) { return c.reply, c.done }

// Request returns the request to the model.
func (c *Conversation) Request() session.ModelRequest {
	return session.ModelRequest{System: c.system(), Messages: slices.Clone(c.messages), Tools: c.offers(), Replies: c.gone + len(c.starts)}
}

// offers returns the tools that the model may use.
func (c *Conversation) offers() (out []session.ModelTool) {
	for _, t := range c.tools() {
		out = append(out, session.ModelTool{Name: t.Name, About: t.About, Schema: t.JSONSchema()})
	}
	if c.Plans {
		out = append(out, propose())
	}
	return out
}

// tools returns the tools that the model may use, in the order in which they are offered.
func (c *Conversation) tools() []tool.Tool {
	return append(slices.DeleteFunc(tool.Work(), func(t tool.Tool) bool {
		return t.Needs != "" && !slices.Contains(c.Powers, string(t.Needs))
	}), readOutput(), finish())
}
