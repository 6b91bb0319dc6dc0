package campaign_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// scripted returns a site with one prompt step, and a model with these replies.
func scripted(t *testing.T, keys string, replies ...string) promptSite {
	t.Helper()
	s := newPromptSite(t, t.TempDir(), acodePath)
	must(t, os.WriteFile(s.plan(), []byte("version: 1\ntask: Prompt\ntasks:\n  - id: fix\n    steps:\n      - {id: code, prompt: Do it, tools: [files, commands]"+keys+"}\n      - run: 'echo \"${ANSWER:-none}\" > answer'\n"), 0o600))
	s.script(t, replies...)
	return s
}

func (s promptSite) script(t *testing.T, replies ...string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(s.root, "script"), []byte(strings.Join(replies, "\n")+"\n"), 0o600))
}

func callOf(id, tool, arguments string) string {
	return fmt.Sprintf(`{"calls":[{"id":%q,"tool":%q,"arguments":%s}]}`, id, tool, arguments)
}

func (e ended) want(t *testing.T, exit int, parts ...string) {
	t.Helper()
	if e.exit != exit {
		t.Errorf("got %v, want exit %d", e, exit)
	}
	for _, part := range parts {
		if !strings.Contains(e.output, part) {
			t.Errorf("got %v, want %q", e, part)
		}
	}
}

// The ends of a prompt step, each with its exit status and the way to continue.
func TestPromptEnds(t *testing.T) {
	t.Run("answer", func(t *testing.T) {
		s := scripted(t, ", capture: ANSWER", `{"text":"forty-two"}`)
		s.must(t, "run", s.plan())
		if !s.has("answer", "forty-two") {
			t.Error("the next step does not have the answer")
		}
		s.must(t, "verify")
	})
	t.Run("finish", func(t *testing.T) {
		s := scripted(t, ", capture: ANSWER", callOf("a", "finish", `{"status":"done","summary":"all of it"}`))
		s.must(t, "run", s.plan())
		if !s.has("answer", "all of it") {
			t.Error("the next step does not have the summary")
		}
	})
	t.Run("gives_up", func(t *testing.T) {
		run := callOf("a", "run_command", `{"command":"echo once >> ledger"}`)
		s := scripted(t, "", run, callOf("b", "finish", `{"status":"failed","summary":"no idea"}`))
		s.acode(t, "run", s.plan()).want(t, 22, "the model gave up: no idea")
		s.acode(t, "resume").want(t, 22, "the model gave up") // another conversation, with keys of its own
		if raw, err := os.ReadFile(filepath.Join(s.ws(), ledgerFile)); err != nil || string(raw) != "once\nonce\n" {
			t.Errorf("the ledger has %q, %v, want one line of each attempt", raw, err)
		}
		s.must(t, "verify")
	})
	t.Run("bad_calls", func(t *testing.T) {
		s := scripted(t, "", `{"calls":[{"id":"a","tool":"nope","arguments":{}},{"id":"","tool":"run_command","arguments":{"command":"touch b"}},{"id":"c","tool":"run_command","arguments":{"command":7}},{"id":"d","tool":"write_file","arguments":{"path":"../e","content":""}},{"id":"d","tool":"delete_file","arguments":{"path":"gone"}},{"id":"f","tool":"delete_file","arguments":{"path":"gone"}},{"id":"g","tool":"read_file","arguments":{"path":"gone"}}]}`, `{"text":"done"}`)
		s.must(t, "run", s.plan())
		all := s.requests(t)
		results := all[len(all)-1].Messages[2:]
		for i, part := range []string{"there is no tool", "has no id", "is not a string", "2 calls of this reply", "2 calls of this reply", "gone", "gone"} {
			if !strings.Contains(results[i].Text, part) {
				t.Errorf("result %d: got %q, want %q", i+1, results[i].Text, part)
			}
		}
		if s.has("b", "") && fileExists(s.ws()+"/b") {
			t.Error("a call without an id was carried out")
		}
	})
	t.Run("max_turns", func(t *testing.T) {
		run := callOf("a", "run_command", `{"command":"echo x >> ledger"}`)
		s := scripted(t, ", max_turns: 2", run, run, run, run, run, `{"text":"done"}`)
		s.acode(t, "run", s.plan()).want(t, 21, "has used its 2 turns", "acode resume")
		s.acode(t, "resume").want(t, 21, "has used its 2 turns")
		s.must(t, "resume")
		all := s.requests(t)
		if len(all) != 6 {
			t.Errorf("the model was asked %d times, want 6", len(all))
		}
		more := 0
		for _, m := range all[5].Messages {
			if strings.Contains(m.Text, "max_turns limit") {
				more++
			}
		}
		if more != 2 {
			t.Errorf("the last request has %d messages about the limit, want 2", more)
		}
	})
	t.Run("script_is_over", func(t *testing.T) {
		s := scripted(t, "", callOf("a", "list_files", `{}`))
		s.acode(t, "run", s.plan()).want(t, 1, "ACODE-MODEL-001")
		s.script(t, callOf("a", "list_files", `{}`), `{"text":"done"}`)
		s.must(t, "resume")
		s.must(t, "verify")
	})
	t.Run("model_is_gone", func(t *testing.T) {
		s := scripted(t, "", callOf("a", "list_files", `{}`))
		s.acode(t, "run", s.plan()).want(t, 1)
		config := filepath.Join(s.root, "config", "acode", "config.yml")
		must(t, os.WriteFile(config, fmt.Appendf(nil, "approvals: {command: allow}\nmodels:\n  other: {provider: script, script: %q}\n", filepath.Join(s.root, "script")), 0o600))
		s.acode(t, "resume").want(t, 17, `the model "m" is not configured`, "other")
		s.script(t, callOf("a", "list_files", `{}`), `{"text":"done"}`)
		s.must(t, "resume", "--model", "other")
	})
	t.Run("no_model", func(t *testing.T) {
		s := scripted(t, ", model: big")
		s.acode(t, "run", s.plan()).want(t, 3, `the model "big" is not configured; nothing was changed`)
		if fileExists(filepath.Join(s.store(), "heads")) && len(s.heads()) > 0 {
			t.Error("there is a session")
		}
	})
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (s promptSite) heads() []string {
	heads, _ := filepath.Glob(filepath.Join(s.store(), "heads", "*")) // the pattern is well formed
	return heads
}

// A signal in a reply pauses the session and keeps the part that arrived. A signal in a
// call leaves the command to its supervisor, and the resume has its result.
func TestPromptIsInterrupted(t *testing.T) {
	t.Run("in_a_reply", func(t *testing.T) {
		s := scripted(t, "", `{"text":"These are the unfinished words of the model.","pause_ms":60000}`)
		p := s.start(t, "run", s.plan())
		eventually(t, "a reply arrives", func() bool { return len(s.replyFiles()) > 0 && s.replyFiles()[0] > 0 })
		p.signal(syscall.SIGINT)
		p.wait(t).want(t, 130)
		s.script(t, `{"text":"done"}`)
		s.must(t, "resume")
		all := s.requests(t)
		last := all[len(all)-1].Messages
		if len(last) != 3 || !last[1].Cut || !strings.HasPrefix("These are the unfinished words of the model.", last[1].Text) || last[1].Text == "" {
			t.Errorf("the second request has %+v, want the part of the reply", last)
		}
		s.must(t, "verify")
	})
	t.Run("in_a_call", func(t *testing.T) {
		s := scripted(t, "", callOf("a", "run_command", `{"command":"echo began >> ledger; until test -e go; do sleep 0.02; done; echo ended"}`), `{"text":"done"}`)
		p := s.start(t, "run", s.plan())
		eventually(t, "the command runs", func() bool { return s.has(ledgerFile, "began") })
		p.signal(syscall.SIGTERM)
		p.wait(t).want(t, 143)
		must(t, os.WriteFile(filepath.Join(s.ws(), "go"), nil, 0o600))
		s.must(t, "resume")
		all := s.requests(t)
		last := all[len(all)-1].Messages
		if !strings.HasPrefix(last[2].Text, "Exit status 0") || !strings.Contains(last[2].Text, "ended") {
			t.Errorf("the result of the call is %q", last[2].Text)
		}
		s.must(t, "verify")
	})
	t.Run("cancelled_in_a_call", func(t *testing.T) {
		s := scripted(t, "", callOf("a", "run_command", `{"command":"echo began >> ledger; sleep 60"}`), `{"text":"done"}`)
		p := s.start(t, "run", s.plan())
		eventually(t, "the command runs", func() bool { return s.has(ledgerFile, "began") })
		s.must(t, "session", "cancel")
		p.wait(t).want(t, 15)
		s.must(t, "verify")
	})
	t.Run("cancelled_after_a_kill", func(t *testing.T) {
		s := scripted(t, "", callOf("a", "run_command", `{"command":"echo began >> ledger; sleep 60"}`), `{"text":"done"}`)
		p := s.start(t, "run", s.plan())
		eventually(t, "the command runs", func() bool { return s.has(ledgerFile, "began") })
		p.signal(syscall.SIGKILL)
		p.wait(t)
		s.must(t, "session", "cancel")
		s.must(t, "verify")
	})
}
