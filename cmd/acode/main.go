// Command acode runs long agent work so that no crash, kill or power cut loses work, repeats
// a side effect or hides what happened. This package holds flags, wiring and exit status;
// everything else has a room of its own.
package main

import (
	"context"
	"os"
)

// version is set by the release build.
const version = "0.1.0-dev"

func main() {
	os.Exit(execute(context.Background(), os.Args[1:], stdio{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}

// stdio is where the process reads and writes.
type stdio struct{ in, out, err *os.File }
