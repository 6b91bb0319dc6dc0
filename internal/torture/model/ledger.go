package model

import (
	"regexp"
	"slices"
	"strings"
)

// LedgerVariable names the environment variable with the path of the ledger.
const LedgerVariable = "TORTURE_LEDGER"

// RepairedSuffix is the suffix of the file beside the ledger that a person makes to
// repair the cause of a failure.
const RepairedSuffix = ".repaired"

// signature returns shell text that appends a command's line to the ledger in one write.
// It begins with a line end, because a power cut may have left half of a line, and ends
// with a full stop, so that half of a line does not count.
func signature(extra string) string {
	return `printf '\n%s\n' "$ACODE_IDEMPOTENCY_KEY$EXTRA` + extra + `." >> "$` + LedgerVariable + `"`
}

// asked returns shell text that searches for the whole line of a step.
func asked(task, id string) string {
	return `grep -q ":` + task + "/" + id + `/.*[.]$" "$` + LedgerVariable + `"`
}

// checkOf returns a check key that asks the ledger whether a step happened.
func checkOf(task, id string) string {
	return "check: " + quote(asked(task, id))
}

// line matches the line of a step, which the ledger must hold once.
func (s Step) line() *regexp.Regexp {
	return regexp.MustCompile(`^v1:[0-9a-f-]{36}:` + regexp.QuoteMeta(s.Name()) + `/main:[0-9]+` + regexp.QuoteMeta(s.Extra+".") + `$`)
}

// Count counts the lines of each step in a ledger. Lines of no step count for the empty
// name.
func (p Plan) Count(ledger string) map[string]int {
	lines := map[string]int{}
	for line := range strings.Lines(ledger) {
		if line = strings.TrimSuffix(line, "\n"); line == "" {
			continue
		}
		i := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Signs && s.line().MatchString(line) })
		if i < 0 {
			lines[""]++
			continue
		}
		lines[p.Steps[i].Name()]++
	}
	return lines
}
