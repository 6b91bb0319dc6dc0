// Command acode runs long work, a plan of tasks and steps, so that no crash, kill or
// power cut loses work, repeats a side effect or hides what happened.
package main

import (
	"context"
	"os"

	"github.com/acode-dev/acode/cli"
)

func main() { os.Exit(cli.Main(context.Background(), os.Args[1:])) }
