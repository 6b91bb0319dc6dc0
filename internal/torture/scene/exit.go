package scene

import (
	"regexp"
	"strings"
	"time"
)

// ProcessLimit is how long one process may take before its session counts as stuck.
const ProcessLimit = 2 * time.Minute

// Exit statuses of acode. They are written down anew here: acode is what is judged.
const (
	ExitKilled      = -1 // of whatever a signal ended
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

// changedFiles is how acode names the files that it asks about.
var changedFiles = regexp.MustCompile(`files that the session works on changed: (.+ \(\w+\)); the session is unchanged`)

// ChangedNames gives the files that a refused resume names, in whatever it says; nil for none.
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
