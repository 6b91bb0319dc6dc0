package anthropic

import "github.com/acode-dev/acode/session"

// Body is the body of a request.
func (m Model) Body(r session.ModelRequest) string { return string(m.body(r)) }
