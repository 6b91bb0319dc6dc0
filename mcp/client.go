package mcp

import sdk "github.com/modelcontextprotocol/go-sdk/mcp"

// clientCodex is the name of Codex. It gives the id of its conversation in each call.
//
// Claude Code starts its servers with an id in their environment. That one is not used:
// it is another one after /clear, when a person picks an earlier conversation, and at
// times after claude --continue.
const clientCodex = "codex-mcp-client"

// given returns the id of a conversation that a client gives in its own way; empty if
// it gives none that is always right.
func given(client string, meta sdk.Meta) string {
	if client == clientCodex {
		return metaText(meta, "threadId")
	}
	return ""
}
