// Package syncer is the command line of acode-sync: what delivers to a server and looks
// after it.
package syncer

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/cli"
)

// Main carries out the command line of acode-sync and returns the exit status.
func Main(ctx context.Context, args []string) int {
	return cli.Run(ctx, args, func(i *cli.Invocation) []*cobra.Command {
		p := &program{Invocation: i}
		return []*cobra.Command{p.syncCommand(), p.syncerCommand(), p.metricsCommand(), p.adminCommand(), p.sessionCommand(), p.listCommand("ls")}
	})
}

// program is one invocation.
type program struct {
	*cli.Invocation
	// why delivery before an operator's command did not come to its end; nil: it did
	undelivered error
}
