package campaign_test

import (
	"os"
	"path/filepath"
	"testing"
)

// A command of a model changes a path that other programs trust. acode puts it back, and
// a person applies or drops the change while the session can continue.
func TestPromptChangesAreHeld(t *testing.T) {
	change := func(id, text string) string {
		return callOf(id, "run_command", `{"command":"echo `+text+` > AGENTS.md"}`)
	}
	begin := func(t *testing.T, replies ...string) promptSite {
		s := scripted(t, "", replies...)
		must(t, os.WriteFile(filepath.Join(s.ws(), "AGENTS.md"), []byte("be good\n"), 0o600))
		return s
	}
	content := func(t *testing.T, s promptSite, want string) {
		t.Helper()
		if got, err := os.ReadFile(filepath.Join(s.ws(), "AGENTS.md")); err != nil || string(got) != want+"\n" {
			t.Errorf("AGENTS.md has %q, %v, want %q", got, err, want)
		}
	}
	t.Run("paused", func(t *testing.T) {
		s := begin(t, change("a", "one"), change("b", "two"))
		s.acode(t, "run", s.plan()).want(t, 1, "ACODE-MODEL-001")
		content(t, s, "be good")
		s.acode(t, "status").want(t, 0, "fix/code/c1.1 changed paths that other programs trust", "they wait for a person: AGENTS.md (modified)", "acode approve")
		s.acode(t, "approve").want(t, 2, "held changes of 2 calls", "fix/code/c1.1", "fix/code/c2.1")
		s.acode(t, "deny", s.id(t), "fix/code/c1.1").want(t, 0, "Dropped")
		content(t, s, "be good")
		s.acode(t, "approve").want(t, 0, "-be good", "+two", "Applied: the files are as c2.1 had left them")
		content(t, s, "two")
		s.acode(t, "approve").want(t, 2, "waits for an approval; nothing was changed")
		s.script(t, change("a", "one"), change("b", "two"), `{"text":"done"}`)
		s.must(t, "resume")
		content(t, s, "two")
		s.must(t, "verify")
	})
	t.Run("question_first", func(t *testing.T) {
		s := begin(t, change("a", "one"), `{"text":"done"}`)
		must(t, os.WriteFile(s.plan(), []byte("version: 1\ntask: Prompt\ntasks:\n  - id: fix\n    steps:\n      - {id: code, prompt: Do it, tools: [commands]}\n      - {id: ask, approve: Go on?}\n      - run: 'true'\n"), 0o600))
		s.acode(t, "run", s.plan()).want(t, 10)
		s.acode(t, "status").want(t, 0, "they wait for a person", "fix/ask asks: Go on?")
		s.acode(t, "approve").want(t, 0, "Recorded: approve")
		s.acode(t, "approve", s.id(t)).want(t, 0, "+one", "Applied") // the step is completed, the session is not
		content(t, s, "one")
		s.must(t, "resume")
		s.must(t, "verify")
	})
	t.Run("completed", func(t *testing.T) {
		s := begin(t, change("a", "one"), `{"text":"done"}`)
		s.must(t, "run", s.plan())
		s.acode(t, "status").want(t, 0, "no one decided about them: AGENTS.md (modified)")
		s.acode(t, "approve", s.id(t)).want(t, 15, "+one", "is completed", "make them yourself")
		content(t, s, "be good")
		s.must(t, "verify")
	})
}
