// Package agent implements the command line of acode-agent, the program that serves
// agents and asks models.
package agent

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/cli"
)

// Main executes the command line of acode-agent and returns the exit status.
func Main(ctx context.Context, args []string) int {
	return cli.Run(ctx, args, func(i *cli.Invocation) []*cobra.Command {
		p := &program{Invocation: i}
		i.Talks = &app.Talks{Model: model, Converse: converse, Plan: proposal}
		return append(i.Executing(), p.mcpCommand(), p.installCommand(), p.uninstallCommand(), p.devCommand())
	})
}

// program is one invocation.
type program struct{ *cli.Invocation }
