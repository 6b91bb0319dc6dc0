//go:build !linux

package pgtest

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// killTree kills a server's processes. It stops the first one before, so that it starts
// no more, and kills it last.
func killTree(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("freeze the server: %w", err)
	}
	out, err := run(exec.Command("pgrep", "-P", strconv.Itoa(pid)))
	if err != nil {
		return err
	}
	for _, word := range append(strings.Fields(out), strconv.Itoa(pid)) {
		if p, err := strconv.Atoi(word); err == nil {
			// The process may have ended.
			_ = syscall.Kill(p, syscall.SIGKILL)
		}
	}
	return nil
}
