package openai

import "github.com/acode-dev/acode/session"

// Body is the body of a request.
func (m Model) Body(r session.ModelRequest) any { return m.request(r) }
