// Command acode runs long work, a plan of tasks and steps. No crash, kill or power cut
// loses work, repeats a side effect or hides events.
package main

import (
	"context"
	"os"

	"github.com/acode-dev/acode/cli"
)

func main() { os.Exit(cli.Main(context.Background(), os.Args[1:])) }
