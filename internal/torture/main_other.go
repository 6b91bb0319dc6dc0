//go:build !linux

package main

import (
	"fmt"
	"os"
)

// main prints that Linux is missing: tracing needs ptrace and seccomp.
func main() {
	fmt.Fprintln(os.Stderr, "torture: kills at counted system calls need Linux")
	os.Exit(1)
}
