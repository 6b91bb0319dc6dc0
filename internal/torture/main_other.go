//go:build !linux

package main

import (
	"fmt"
	"os"
)

// main says what is missing: processes are traced with ptrace and seccomp.
func main() {
	fmt.Fprintln(os.Stderr, "torture: kills at counted system calls need Linux")
	os.Exit(1)
}
