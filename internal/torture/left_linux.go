package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/acode-dev/acode/internal/torture/model"
)

// process is one that a scenario left.
type process struct {
	pid  int
	argv []string
}

// String names the process in reports.
func (p process) String() string { return strconv.Itoa(p.pid) + " " + strings.Join(p.argv, " ") }

// supervises reports whether the process is a supervisor.
func (p process) supervises() bool { return len(p.argv) > 1 && p.argv[1] == "supervise" }

// left gives the processes that live in this place: all of them know its ledger.
func (p place) left() []process {
	names, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil
	}
	mark := []byte("\x00" + model.LedgerVariable + "=" + p.ledger() + "\x00")
	var all []process
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(append([]byte{0}, b...), mark) {
			continue // it is somebody else's, or has ended
		}
		argv, err := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
		if err != nil || len(argv) == 0 {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err == nil {
			all = append(all, process{pid, strings.Split(strings.TrimSuffix(string(argv), "\x00"), "\x00")})
		}
	}
	return all
}

// commandsLeft gives those of them that are commands, or were started by one.
func (p place) commandsLeft() []process {
	return slices.DeleteFunc(p.left(), process.supervises)
}

// killSupervisors kills the supervisors of this place.
func (s *scenario) killSupervisors() {
	for _, p := range s.left() {
		if p.supervises() && syscall.Kill(p.pid, syscall.SIGKILL) == nil {
			s.killed++
			s.onSuper++
			s.tell("   killed: %v", p)
		}
	}
}

// killLeft ends whatever a scenario that went wrong left.
func (s *scenario) killLeft() {
	for _, p := range slices.Backward(s.left()) {
		_ = syscall.Kill(p.pid, syscall.SIGKILL) // it may have ended meanwhile
	}
}
