package campaign_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// judgeLedger reads lines "begin KEY" and "end KEY" and returns errors: steps that ran at
// once, and steps that did not happen exactly once.
func judgeLedger(lines []string, steps []string) []string {
	var wrong []string
	open := ""
	begun, ended := map[string]int{}, map[string]int{}
	for i, line := range lines {
		what, key, _ := strings.Cut(line, " ")
		switch what {
		case "begin":
			if open != "" {
				wrong = append(wrong, fmt.Sprintf("line %d: %s begins while %s runs", i+1, key, open))
			}
			open = key
			begun[stepOf(key)]++
		case "end":
			if open != key {
				wrong = append(wrong, fmt.Sprintf("line %d: %s ends while %q runs", i+1, key, open))
			}
			open = ""
			ended[stepOf(key)]++
		default:
			wrong = append(wrong, fmt.Sprintf("line %d: %q is of no step", i+1, line))
		}
	}
	for _, s := range steps {
		if begun[s] != 1 || ended[s] != 1 {
			wrong = append(wrong, fmt.Sprintf("%s began %d times and ended %d times", s, begun[s], ended[s]))
		}
	}
	return wrong
}

// stepOf returns the step of a key v1:SESSION:TASK/STEP/OPERATION:ATTEMPT.
func stepOf(key string) string {
	part := strings.Split(key, ":")
	if len(part) != 4 {
		return key
	}
	if name := strings.Split(part[2], "/"); len(name) == 3 {
		return name[1]
	}
	return key
}

// judgeLedger finds each way in which two processes could have executed.
func TestJudgeLedger(t *testing.T) {
	for name, c := range map[string]struct {
		lines string
		wrong int
	}{
		"in_order":    {"begin v1:s:t/a/main:1,end v1:s:t/a/main:1,begin v1:s:t/b/main:1,end v1:s:t/b/main:1", 0},
		"at_once":     {"begin v1:s:t/a/main:1,begin v1:s:t/b/main:1,end v1:s:t/a/main:1,end v1:s:t/b/main:1", 3},
		"again":       {"begin v1:s:t/a/main:1,end v1:s:t/a/main:1,begin v1:s:t/a/main:2,end v1:s:t/a/main:2,begin v1:s:t/b/main:1,end v1:s:t/b/main:1", 1},
		"half":        {"begin v1:s:t/a/main:1,end v1:s:t/a/main:1,begin v1:s:t/b/main:1", 1},
		"nothing":     {"", 3},
		"of_somebody": {"begin v1:s:t/a/main:1,end v1:s:t/a/main:1,begin v1:s:t/b/main:1,end v1:s:t/b/main:1,hello", 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judgeLedger(strings.Split(c.lines, ","), []string{"a", "b"}); len(got) != c.wrong {
				t.Errorf("judgeLedger: got %q, want %d", got, c.wrong)
			}
		})
	}
}

// signPlan returns a plan of n commands and the ids of the commands. Each command signs
// the ledger before and after its work, and a file is written between two commands.
func signPlan(n int, work string) (plan string, steps []string, files map[string]string) {
	var b strings.Builder
	b.WriteString("version: 1\ntask: Sign the ledger\ntasks:\n  - id: sign\n    steps:\n")
	files = map[string]string{}
	for i := range n {
		id := fmt.Sprintf("command%03d", i)
		steps = append(steps, id)
		fmt.Fprintf(&b, "      - {id: %s, run: %q}\n", id,
			`echo "begin $ACODE_IDEMPOTENCY_KEY" >> "$LEDGER"; `+work+`; echo "end $ACODE_IDEMPOTENCY_KEY" >> "$LEDGER"`)
		fmt.Fprintf(&b, "      - {id: file%03d, write: {path: file%03d.txt, content: \"content %d\\n\"}}\n", i, i, i)
		files[fmt.Sprintf("file%03d.txt", i)] = fmt.Sprintf("content %d\n", i)
	}
	return b.String(), slices.Clip(steps), files
}

// behindGate changes a plan of signPlan: its nth command waits while the gate is closed.
func behindGate(plan string, n int) string {
	at := strings.Index(plan, fmt.Sprintf("{id: command%03d,", n))
	return plan[:at] + strings.Replace(plan[at:], `; echo \"end `, `; while test -e \"$GATE\"; do sleep 0.02; done; echo \"end `, 1)
}
