package app

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/acode-dev/acode/policy"
)

// A rule is added below lines that a person wrote, also if the last has no end.
func TestRulesAreAdded(t *testing.T) {
	dir := t.TempDir()
	s := &Setup{Getenv: func(name string) string { return map[string]string{"XDG_CONFIG_HOME": dir}[name] }}
	file := filepath.Join(dir, "acode", "approvals.jsonl")
	rule := policy.Rule{Action: policy.Allow, Class: policy.Git}.String()
	for _, before := range []string{"", "# mine", "# mine\n\n"} {
		if err := os.RemoveAll(filepath.Dir(file)); err != nil {
			t.Fatal(err)
		}
		if before != "" {
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := s.keepRule(rule); err != nil {
				t.Fatal(err)
			}
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if rules, err := readRules(raw, file); err != nil || len(rules) != 2 {
			t.Errorf("after %q: %d rules, %v in %q", before, len(rules), err, raw)
		}
	}
}
