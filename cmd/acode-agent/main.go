// Command acode-agent serves agents.
//
// It links the Model Context Protocol, so that acode itself starts quickly. acode starts
// it for its command mcp.
package main

import (
	"context"
	"os"

	"github.com/acode-dev/acode/cli/agent"
)

func main() { os.Exit(agent.Main(context.Background(), os.Args[1:])) }
