package model

import (
	"regexp"
	"slices"
	"strings"
)

// LedgerVariable names the environment variable that tells commands where the ledger is.
const LedgerVariable = "TORTURE_LEDGER"

// MendedSuffix names, beside the ledger, the file that a person makes to mend a plan.
const MendedSuffix = ".mended"

// signature is the shell text that appends a command's line to the ledger, in one write. It
// begins a line of its own, whatever a power cut left of the one before, and ends it with a full
// stop, so that half of a line is none.
func signature(extra string) string {
	return `printf '\n%s\n' "$ACODE_IDEMPOTENCY_KEY$EXTRA` + extra + `." >> "$` + LedgerVariable + `"`
}

// asked is the shell text that looks for the whole line of a step.
func asked(task, id string) string {
	return `grep -q ":` + task + "/" + id + `/.*[.]$" "$` + LedgerVariable + `"`
}

// checkOf asks the ledger whether a step happened.
func checkOf(task, id string) string {
	return "check: " + quote(asked(task, id))
}

// line is what the ledger must hold of a step, once.
func (s Step) line() *regexp.Regexp {
	return regexp.MustCompile(`^v1:[0-9a-f-]{36}:` + regexp.QuoteMeta(s.Name()) + `/main:[0-9]+` + regexp.QuoteMeta(s.Extra+".") + `$`)
}

// Count counts the lines that each step has in a ledger. What fits no step counts for the empty
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
