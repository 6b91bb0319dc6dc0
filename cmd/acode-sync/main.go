// Command acode-sync delivers sessions to a server and administers it.
//
// It links PostgreSQL's driver and the metrics, so that acode itself starts quickly.
// acode starts it in the background, and for its commands sync, syncer, metrics, admin
// and session list --remote.
package main

import (
	"context"
	"os"

	syncer "github.com/acode-dev/acode/cli/sync"
)

func main() { os.Exit(syncer.Main(context.Background(), os.Args[1:])) }
