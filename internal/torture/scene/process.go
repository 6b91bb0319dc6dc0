package scene

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/acode-dev/acode/internal/torture/model"
)

// Process is a process that acode or a command left.
type Process struct {
	PID  int
	argv []string
}

// String returns the process for reports.
func (p Process) String() string { return strconv.Itoa(p.PID) + " " + strings.Join(p.argv, " ") }

// Supervises reports whether the process is a supervisor.
func (p Process) Supervises() bool { return len(p.argv) > 1 && p.argv[1] == "supervise" }

// Left returns the processes that run in this place. All of them have its ledger in their
// environment.
func (p Place) Left() []Process {
	names, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil
	}
	mark := []byte("\x00" + model.LedgerVariable + "=" + p.Ledger() + "\x00")
	var all []Process
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(append([]byte{0}, b...), mark) {
			// The process belongs to another place or has ended.
			continue
		}
		argv, err := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
		if err != nil || len(argv) == 0 {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err == nil {
			all = append(all, Process{pid, strings.Split(strings.TrimSuffix(string(argv), "\x00"), "\x00")})
		}
	}
	return all
}

// CommandsLeft returns the remaining commands and their children.
func (p Place) CommandsLeft() []Process {
	return slices.DeleteFunc(p.Left(), Process.Supervises)
}
