//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "bench: fsyncs are counted with ptrace and seccomp, which only Linux has")
	os.Exit(1)
}
