package campaign_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Two prompts run at once, are killed, resumed and killed again. Each has its own
// conversation, and each effect of each happens once.
func TestPromptsAtOnce(t *testing.T) {
	s := newPromptSite(t, t.TempDir(), acodePath)
	var plan strings.Builder
	plan.WriteString("version: 1\ntask: Prompts\nmax_parallel: 2\ntasks:\n")
	for _, name := range []string{"a", "b"} {
		fmt.Fprintf(&plan, "  - {id: %s, steps: [{id: code, prompt: 'Do %[1]s', tools: [commands]}]}\n", name)
	}
	must(t, os.WriteFile(s.plan(), []byte(plan.String()), 0o600))
	var replies []string
	for n := range 8 {
		replies = append(replies, callOf(fmt.Sprint(n), "run_command", fmt.Sprintf(`{"command":"echo mark%d >> ledger; sleep 0.1"}`, n)))
	}
	s.script(t, append(replies, `{"text":"done"}`)...)
	for _, kill := range []string{"mark2", "mark5"} {
		args := []string{"resume"}
		if kill == "mark2" {
			args = []string{"run", s.plan()}
		}
		p := s.start(t, args...)
		eventually(t, kill+" is there", func() bool { return s.has(ledgerFile, kill) })
		p.signal(syscall.SIGKILL)
		if e := p.wait(t); e.exit != -1 {
			t.Fatalf("the kill at %s came too late: %v", kill, e)
		}
	}
	s.must(t, "resume")
	raw, err := os.ReadFile(filepath.Join(s.ws(), ledgerFile))
	must(t, err)
	for n := range 8 {
		if got := strings.Count(string(raw), fmt.Sprintf("mark%d\n", n)); got != 2 {
			t.Errorf("mark%d is there %d times, want once for each prompt", n, got)
		}
	}
	s.must(t, "verify")
}

// A secret of the environment reaches a model only in bytes that the model itself sent,
// and no file of the store.
func TestPromptSecrets(t *testing.T) {
	const secret = "hunter2hunter2hunter2"
	s := newPromptSite(t, t.TempDir(), acodePath)
	must(t, os.WriteFile(filepath.Join(s.ws(), "key.txt"), []byte("key: "+secret+"\n"), 0o600))
	s.script(t, callOf("a", "read_file", `{"path":"key.txt"}`), callOf("b", "run_command", `{"command":"cat key.txt"}`),
		callOf("c", "search", `{"pattern":"key"}`), `{"text":"The key is `+secret+`, I think.","calls":[{"id":"d","tool":"run_command","arguments":{"command":"echo `+secret+`"}}]}`, `{"text":"done"}`)
	s.secret = secret
	s.must(t, "run", s.plan())
	all := s.requests(t)
	if len(all) != 5 {
		t.Fatalf("the model was asked %d times, want 5", len(all))
	}
	for i, r := range all {
		for _, m := range r.Messages {
			if m.Role != "assistant" && strings.Contains(m.Text, secret) {
				t.Errorf("request %d has the secret in a message of %s: %q", i+1, m.Role, m.Text)
			}
		}
	}
	for i, m := range all[3].Messages {
		if m.Role == "tool" && !strings.Contains(m.Text, "key: ***") {
			t.Errorf("message %d of request 4 has no masked secret: %q", i+1, m.Text)
		}
	}
	must(t, filepath.WalkDir(s.store(), func(at string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(at)
		if bytes.Contains(raw, []byte(secret)) {
			t.Errorf("%s holds the secret", at)
		}
		return err
	}))
	s.must(t, "verify")
}

// The label of a long call is short, and its work is whole.
func TestLabelOfALongCall(t *testing.T) {
	text := "echo " + strings.Repeat("é", 1000) + " > out"
	s := scripted(t, "", callOf("a", "run_command", `{"command":"`+text+`"}`), `{"text":"done"}`)
	s.must(t, "run", s.plan())
	if !s.has("out", strings.Repeat("é", 1000)+"\n") {
		t.Error("the command was not carried out in whole")
	}
	history := s.must(t, "history", "--json").output
	if long := strings.Repeat("é", 200); strings.Contains(history, long) || !strings.Contains(history, `éé…"`) {
		t.Errorf("the history has a long label: %s", history)
	}
	s.must(t, "verify")
}

// acode is killed while calls of a model read. The resume makes the calls again.
func TestReadsAreKilled(t *testing.T) {
	s := scripted(t, "", `{"calls":[{"id":"a","tool":"read_file","arguments":{"path":"big"}},{"id":"b","tool":"search","arguments":{"pattern":"be good","path":"small"}}]}`, `{"text":"done"}`)
	must(t, os.WriteFile(filepath.Join(s.ws(), "small"), []byte("be good\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(s.ws(), "big"), nil, 0o600))
	must(t, os.Truncate(filepath.Join(s.ws(), "big"), 1<<30)) // reading it takes long enough for a kill
	p := s.start(t, "run", s.plan())
	eventually(t, "the calls began", func() bool { return strings.Contains(s.acode(t, "history").output, "fix/code/c1.2") })
	p.signal(syscall.SIGKILL)
	if e := p.wait(t); e.exit != -1 {
		t.Fatalf("the kill came too late: %v", e)
	}
	if history := s.acode(t, "history").output; strings.Contains(history, "OperationCompleted") {
		t.Fatalf("the kill came after the reads: %s", history)
	}
	must(t, os.Truncate(filepath.Join(s.ws(), "big"), 10))
	s.must(t, "resume")
	all := s.requests(t)
	last := all[len(all)-1].Messages
	if len(last) != 5 || !strings.Contains(last[3].Text, "be good") || last[2].Text == "" {
		t.Errorf("the request after the resume has %+v, want both results", last)
	}
	s.must(t, "verify")
}
