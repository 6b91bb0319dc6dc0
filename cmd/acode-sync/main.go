// Command acode-sync delivers sessions to a server and looks after it. It is the part of acode
// that links PostgreSQL's driver and the metrics, kept apart from the part that carries out
// steps: acode starts it, in the background or for its own commands sync, syncer, metrics,
// admin and session list --remote.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/cmd/app"
)

func main() { os.Exit(run(context.Background(), os.Args[1:])) }

func run(ctx context.Context, args []string) int {
	return app.Delivery(ctx, args, func(h *app.Host) []*cobra.Command {
		p := &program{h}
		return []*cobra.Command{p.syncCommand(), p.syncerCommand(), p.metricsCommand(), p.adminCommand(), p.sessionCommand()}
	})
}

// program is one invocation.
type program struct{ *app.Host }
