package campaign_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const ledgerFile = "ledger"

// promptSite is a site with one prompt step.
type promptSite struct{ site }

func (s promptSite) log() string { return filepath.Join(s.root, "requests") }

func newPromptSite(t testing.TB, dir, program string) promptSite {
	t.Helper()
	s := promptSite{newSite(t, dir, "version: 1\ntask: Prompt\ntasks:\n  - id: fix\n    steps:\n      - {id: code, prompt: Carry out the script, tools: [files, commands]}\n", nil)}
	s.program = program
	must(t, os.MkdirAll(filepath.Join(dir, "config", "acode"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "config", "acode", "config.yml"),
		fmt.Appendf(nil, "model: m\napprovals: {command: allow, delete: allow}\nmodels:\n  m: {provider: script, script: %q, log: %q}\n", filepath.Join(dir, "script"), s.log()), 0o600))
	return s
}

// request is a request that the model got.
type request struct {
	Messages []struct {
		Role  string `json:"role"`
		Text  string `json:"text"`
		Call  string `json:"call"`
		Cut   bool   `json:"cut"`
		Calls []struct {
			ID string `json:"id"`
		} `json:"calls"`
	} `json:"messages"`
}

func (s promptSite) requests(t testing.TB) (all []request) {
	t.Helper()
	raw, err := os.ReadFile(s.log())
	must(t, err)
	for line := range strings.Lines(string(raw)) {
		var r request
		must(t, json.Unmarshal([]byte(line), &r))
		all = append(all, r)
	}
	return all
}

// replyFiles returns the sizes of the replies that are arriving.
func (s promptSite) replyFiles() (sizes []int64) {
	files, _ := filepath.Glob(filepath.Join(s.store(), "replies", "*", "*")) // the pattern is well formed
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			sizes = append(sizes, info.Size())
		}
	}
	return sizes
}

func (s promptSite) has(file, text string) bool {
	raw, _ := os.ReadFile(filepath.Join(s.ws(), file)) // there is none before its call
	return strings.Contains(string(raw), text)
}
