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

// startTime gives the start of a process in clock ticks since boot.
func startTime(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name of the program stands in parentheses and may itself hold some.
	_, rest, ok := bytes.Cut(b[bytes.LastIndexByte(b, ')')+1:], []byte(" "))
	fields := strings.Fields(string(rest))
	if !ok || len(fields) < 20 {
		return 0, fmt.Errorf("read /proc/%d/stat: %q", pid, b)
	}
	if state := fields[0]; state == "Z" || state == "X" {
		return 0, errGone
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

func executable(pid int) (string, error) { return os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)) }

// sameExecutable reports whether a process runs the very file that this one runs, under
// whatever name.
func sameExecutable(pid int) bool {
	own, ownErr := os.Stat("/proc/self/exe")
	other, otherErr := os.Stat(fmt.Sprintf("/proc/%d/exe", pid))
	return ownErr == nil && otherErr == nil && os.SameFile(own, other)
}
