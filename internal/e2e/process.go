package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// child is a process below another one.
type child struct {
	pid     int
	program string
}

// children returns the living children of each process.
func children() map[int][]child {
	out := map[int][]child{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well formed
	for _, path := range stats {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		begin, end := strings.IndexByte(string(raw), '('), strings.LastIndexByte(string(raw), ')')
		rest := strings.Fields(string(raw)[end+1:])
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		parent, err2 := strconv.Atoi(rest[1])
		if err == nil && err2 == nil && rest[0] != "Z" {
			out[parent] = append(out[parent], child{pid, string(raw)[begin+1 : end]})
		}
	}
	return out
}

// kill kills a process with SIGKILL. It may have ended.
func kill(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) }

// killMain kills the client, and the launcher that only waits for it.
func (a agent) killMain(pid int) []child {
	var out []child
	if a.launcher {
		out = children()[pid]
	}
	kill(pid)
	for _, c := range out {
		kill(c.pid)
	}
	return out
}

// killTree kills a client and its servers, and returns them. With all it kills what is
// below acode's server, too: the supervisor and its commands.
func killTree(pid int, all bool) []child {
	out := stopped(pid, all)
	kill(pid)
	for _, c := range out {
		kill(c.pid)
	}
	return out
}

// stopped stops a process and those below it, so that they start no others, and returns
// those below it.
func stopped(pid int, all bool) (out []child) {
	_ = syscall.Kill(pid, syscall.SIGSTOP) // it may have ended
	for _, c := range children()[pid] {
		out = append(out, c)
		if all || c.program != serverProgram {
			out = append(out, stopped(c.pid, all)...)
		}
	}
	return out
}

// serverProgram is the program of acode's server of tools. A supervisor is acode.
const serverProgram = "acode-agent"
