// Package syncer implements the command line of acode-sync, the program that delivers to
// a server and administers it.
package syncer

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/cli"
)

// Main executes the command line of acode-sync and returns the exit status.
func Main(ctx context.Context, args []string) int {
	return cli.Run(ctx, args, func(i *cli.Invocation) []*cobra.Command {
		p := &program{Invocation: i}
		return []*cobra.Command{p.syncCommand(), p.syncerCommand(), p.metricsCommand(), p.adminCommand(), p.sessionCommand(), p.listCommand("ls")}
	})
}

// program is one invocation.
type program struct {
	*cli.Invocation
	// undelivered is the error of the delivery before an operator's command; nil when
	// everything was delivered.
	undelivered error
}
