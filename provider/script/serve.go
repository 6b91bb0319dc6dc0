package script

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/acode-dev/acode/provider/script/server"
)

// Serve returns the reply to a conversation with a server. As for Ask, n whole messages
// of the model lead to line n+1. A message without calls whose text is only the beginning
// of its line was cut off, and does not count.
func (m Model) Serve(c server.Conversation) server.Reply {
	lines, err := m.lines()
	if err != nil {
		return server.Reply{Refused: err.Error()}
	}
	if len(c.Messages) > 0 {
		lines = linesFor(lines, c.Messages[0].Text)
	}
	n := 0
	for _, msg := range c.Messages {
		if !msg.Own {
			continue
		}
		if n < len(lines) {
			if l, err := m.read(lines, n); err == nil && len(msg.Calls) == 0 && msg.Text != l.Text && strings.HasPrefix(l.Text, msg.Text) {
				continue
			}
		}
		n++
	}
	l, err := m.read(lines, n)
	if err != nil {
		return server.Reply{Refused: err.Error()}
	}
	r := server.Reply{Text: l.Text, Pause: time.Duration(l.Pause) * time.Millisecond}
	for _, c := range l.Calls {
		if !json.Valid(c.Arguments) {
			c.Arguments = json.RawMessage("{}")
		}
		r.Calls = append(r.Calls, server.Call{ID: c.ID, Name: c.Tool, Arguments: c.Arguments})
	}
	return r
}
