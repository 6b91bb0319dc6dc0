package mcp

import sdk "github.com/modelcontextprotocol/go-sdk/mcp"

// Clients that give the id of their conversation, by the names that they send.
const (
	clientClaude = "claude-code"
	clientCodex  = "codex-mcp-client"
)

// given returns the id of a conversation that a client gives in its own way; empty if it
// gives none that is always right.
//
// Claude Code starts its servers with the id in their environment. When a person begins
// another conversation with /clear, or picks an earlier one, the servers keep the old id.
// So the id counts only where no person can do that: in claude -p.
func (o *Options) given(client string, meta sdk.Meta) string {
	switch {
	case client == clientCodex:
		return metaText(meta, "threadId")
	case client == clientClaude && o.Getenv("CLAUDE_CODE_ENTRYPOINT") == "sdk-cli":
		return o.Getenv("CLAUDE_CODE_SESSION_ID")
	}
	return ""
}
