package scene

import (
	"regexp"
	"strings"
	"time"
)

// ProcessLimit is how long one process may take before its session counts as stuck.
const ProcessLimit = 2 * time.Minute

// Exit statuses of acode. They repeat acode's own constants, because acode is under test.
const (
	// ExitKilled is the status of a process that a signal ended.
	ExitKilled      = -1
	ExitDone        = 0
	ExitUsage       = 2
	ExitApproval    = 10
	ExitTimeout     = 11
	ExitDenied      = 12
	ExitNoneToCarry = 14
	ExitOver        = 15
	ExitLocked      = 16
	ExitChanged     = 17
	ExitUncertain   = 20
	ExitFailed      = 22
)

// changedFiles matches acode's list of changed files.
var changedFiles = regexp.MustCompile(`files that the session works on changed: (.+ \(\w+\)); the session is unchanged`)

// ChangedNames returns the files that a refused resume names in its output, or nil.
func ChangedNames(text string) []string {
	m := changedFiles.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	var names []string
	for _, f := range strings.Split(m[1], ", ") {
		names = append(names, f[:strings.LastIndex(f, " (")])
	}
	return names
}
