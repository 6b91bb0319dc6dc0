package lock

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// errGone is returned for a process that has ended, waited for or not.
var errGone = errors.New("the process has ended")

// process gives the start of a process in clock ticks since boot, and whether it is stopped.
func process(pid int) (start uint64, stopped bool, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false, err
	}
	// The name of the program stands in parentheses and may itself hold some.
	_, rest, ok := bytes.Cut(b[bytes.LastIndexByte(b, ')')+1:], []byte(" "))
	fields := strings.Fields(string(rest))
	if !ok || len(fields) < 20 {
		return 0, false, fmt.Errorf("read /proc/%d/stat: %q", pid, b)
	}
	state := fields[0]
	if state == "Z" || state == "X" {
		return 0, false, errGone
	}
	start, err = strconv.ParseUint(fields[19], 10, 64)
	return start, state == "T", err
}

func executable(pid int) (string, error) { return os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)) }

// sameExecutable reports whether a process runs the very file that this one runs, under
// whatever name.
func sameExecutable(pid int) bool {
	own, ownErr := os.Stat("/proc/self/exe")
	other, otherErr := os.Stat(fmt.Sprintf("/proc/%d/exe", pid))
	return ownErr == nil && otherErr == nil && os.SameFile(own, other)
}
