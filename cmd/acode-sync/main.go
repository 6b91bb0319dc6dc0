// Command acode-sync delivers sessions to a server and looks after it. It is the part of
// acode that links PostgreSQL's driver and the metrics, kept apart from the part that
// carries out steps: acode starts it, in the background or for its own commands sync,
// syncer, metrics, admin and session list --remote.
package main

import (
	"context"
	"os"

	syncer "github.com/acode-dev/acode/cli/sync"
)

func main() { os.Exit(syncer.Main(context.Background(), os.Args[1:])) }
