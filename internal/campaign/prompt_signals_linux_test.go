package campaign_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Each signal pauses a session in each phase of a prompt, and the next resume ends the
// work. Meanwhile a second resume is refused.
func TestSignalsInEachPhase(t *testing.T) {
	const slow = `{"text":"These are the unfinished words of the model.","pause_ms":60000}`
	replying := func(s promptSite) bool { return len(s.replyFiles()) > 0 && s.replyFiles()[0] > 0 }
	for name, phase := range map[string]struct {
		args        func(s promptSite) []string
		first, then []string
		here        func(s promptSite) bool
	}{
		"planning": {func(promptSite) []string { return []string{"run", "Help me"} }, []string{slow},
			[]string{callOf("a", "propose_plan", `{"task":"Help",`+steps(`{"id":"s","run":"ls"}`)+`}`)}, replying},
		"reply": {func(s promptSite) []string { return []string{"run", s.plan()} }, []string{slow}, []string{`{"text":"done"}`}, replying},
		"call": {func(s promptSite) []string { return []string{"run", s.plan()} },
			[]string{callOf("a", "run_command", `{"command":"echo began >> ledger; until test -e go; do sleep 0.02; done"}`), `{"text":"done"}`}, nil,
			func(s promptSite) bool { return s.has(ledgerFile, "began") }},
	} {
		for exit, signal := range map[int]syscall.Signal{130: syscall.SIGINT, 143: syscall.SIGTERM, 129: syscall.SIGHUP} {
			t.Run(fmt.Sprintf("%s_%d", name, exit), func(t *testing.T) {
				s := scripted(t, "", phase.first...)
				s.configure(t, "{command: allow, plan: never}")
				p := s.start(t, phase.args(s)...)
				eventually(t, "the phase begins", func() bool { return phase.here(s) })
				s.acode(t, "resume").want(t, 16)
				asked := len(s.requests(t))
				p.signal(signal)
				p.wait(t).want(t, exit)
				if phase.then != nil {
					s.script(t, phase.then...)
				}
				must(t, os.WriteFile(filepath.Join(s.ws(), "go"), nil, 0o600))
				s.must(t, "resume")
				if n := len(s.requests(t)); n <= asked {
					t.Errorf("the model was asked %d times before the resume and %d in all", asked, n)
				}
				s.must(t, "verify")
			})
		}
	}
}
