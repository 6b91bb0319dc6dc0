package pgtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// killTree kills a server's processes. It stops the first one before, so that it starts
// no more, and kills it last. killTree returns when the kernel has released their memory
// and files.
func killTree(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("freeze the server: %w", err)
	}
	if err := until(func() bool { state, _ := process(pid); return strings.ContainsAny(state, "TtZ") }); err != nil {
		return err
	}
	all := append(children(pid), pid)
	for _, p := range all {
		// The process may have ended.
		_ = syscall.Kill(p, syscall.SIGKILL)
	}
	for _, p := range all {
		if err := until(func() bool { state, _ := process(p); return state == "" || state == "Z" || state == "X" }); err != nil {
			return fmt.Errorf("process %d: %w", p, err)
		}
	}
	return nil
}

// until polls until holds returns true.
func until(holds func() bool) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for !holds() {
		select {
		case <-limit.C:
			return fmt.Errorf("waited for %v", patience)
		case <-tick.C:
		}
	}
	return nil
}

// process returns the state and parent of a process; an empty state means that it does
// not exist.
func process(pid int) (state string, parent int) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return "", 0
	}
	// No server's name contains a parenthesis.
	_, rest, _ := strings.Cut(string(b), ") ")
	words := strings.Fields(rest)
	if len(words) < 2 {
		return "", 0
	}
	parent, _ = strconv.Atoi(words[1])
	return words[0], parent
}

func children(of int) []int {
	var out []int
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if _, parent := process(pid); parent == of {
			out = append(out, pid)
		}
	}
	return out
}
