package secrets_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// formats are the places in which a text stands in files, outputs, headers and errors.
var formats = []string{"%s", "  %s  ", "# %s", "// %s", "- %s", "\"%s\"", "'%s'", "(%s)", "[%s]", "{%s}", "<a>%s</a>", "x: %s", "see %s, please", "export %s", "$ %s",
	"error: %s: no such host", "curl -H '%s' http://localhost", "- name: a\n  value: %s", "| %s | b |", "2026-01-02T03:04:05Z INFO %s"}

// everywhere returns all texts in all formats, in parts that can be read at once.
func everywhere(all []kind) (parts []string) {
	const most = 30_000
	var part strings.Builder
	for _, k := range all {
		for _, f := range formats {
			fmt.Fprintf(&part, f+"\n", k.text)
			if part.Len() > most {
				parts = append(parts, part.String())
				part.Reset()
			}
		}
	}
	return append(parts, part.String())
}

// asked is a request to a model, as the script of a model logs it.
type asked struct {
	System   string
	Messages []struct{ Role, Text string }
}

// No secret reaches a model, except in bytes that it sent itself: neither by exact search
// nor for gitleaks. acode neither stores nor shows one either.
func TestNothingReachesAModel(t *testing.T) {
	all := kinds()
	if len(all) < 40 || len(formats) < 20 {
		t.Fatalf("%d secrets in %d formats are too few", len(all), len(formats))
	}
	s := newSite(t, all)
	must(t, os.WriteFile(s.in("config/acode/config.yml"), []byte("log: {level: debug}\napprovals: {command: allow, delete: allow, git: allow}\nmodel: m\nmodels: {m: {provider: script, script: "+s.in("script")+", log: "+s.in("requests")+"}}\n"), 0o600))
	var files []string
	for i, text := range everywhere(all) {
		files = append(files, fmt.Sprintf("part%d.txt", i))
		must(t, os.WriteFile(s.in("ws/"+files[i]), []byte(text), 0o600))
	}
	var script []string
	reply := func(id, tool string, args m) {
		raw, err := json.Marshal(m{"calls": []m{{"id": id, "tool": tool, "arguments": args}}})
		must(t, err)
		script = append(script, string(raw))
	}
	for _, f := range files {
		reply("r"+f, "read_file", m{"path": f})
		reply("s"+f, "search", m{"pattern": ".", "path": f})
		reply("c"+f, "run_command", m{"command": "cat " + f})
		reply("e"+f, "run_command", m{"command": "cat " + f + " >&2; exit 3"})
		reply("n"+f, "run_command", m{"command": "cp " + f + " copy; ./$(head -c 200 " + f + ")"})
	}
	for _, k := range all { // from within a key of several lines
		if lines := strings.Count(k.text, "\n"); lines > 3 {
			name := strings.ReplaceAll(k.name, " ", "-") + ".pem"
			must(t, os.WriteFile(s.in("ws/"+name), []byte(k.text+"\n"), 0o600))
			reply("m"+name, "read_file", m{"path": name, "line": lines / 2})
			reply("t"+name, "run_command", m{"command": fmt.Sprintf("sed -n 1,%dp %s", lines/2+1, name)})
		}
	}
	reply("env", "run_command", m{"command": "env; cat /proc/self/environ"})
	script = append(script, `{"text":"done"}`)
	must(t, os.WriteFile(s.in("script"), []byte(strings.Join(script, "\n")), 0o600))
	prompt := "Look at everything"
	for i := range 3 {
		prompt += "\n" + all[i].text
	}
	plan := s.plan(t, "plan.yml", m{"version": 1, "task": "Ask", "tasks": []m{{"id": "fix", "steps": []m{{"id": "code", "prompt": prompt, "tools": []string{"files", "commands"}, "max_turns": 1000}}}}})
	s.acode(t, 0, "-v", "run", "--max-turns=none", "--tokens=none", plan)
	s.acode(t, 0, "verify")
	for _, args := range [][]string{{"session", "export"}, {"session", "history", "--format", "json"}, {"session", "history"}, {"--json", "session", "show"}, {"logs"}} {
		s.acode(t, 0, append(args, shortID(t, s))...)
	}

	raw, err := os.ReadFile(s.in("requests"))
	must(t, err)
	var last asked
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	must(t, json.Unmarshal([]byte(lines[len(lines)-1]), &last))
	var sent strings.Builder
	for _, msg := range last.Messages {
		if msg.Role != "assistant" {
			sent.WriteString(msg.Text + "\n")
		}
	}
	if len(lines) != len(script) || strings.Count(sent.String(), "***") < len(all)*len(formats) {
		t.Fatalf("%d requests, the last with %d masks: looking shows little", len(lines), strings.Count(sent.String(), "***"))
	}
	findings := 0
	for _, k := range append(s.kept(t), kept{"shown", s.shown.String()}, kept{"the last request", sent.String()}) {
		for _, name := range found(k.text, all) {
			findings++
			t.Errorf("%s holds %s", k.name, name)
		}
		if strings.Contains(k.name, "acode.db") {
			continue
		}
		for _, f := range scan(t, k.text) {
			if !own.MatchString(f.Secret) && (f.RuleID != "private-key" || keyLine.MatchString(f.Match)) {
				findings++
				t.Errorf("%s: gitleaks finds %s: %.200s", k.name, f.RuleID, f.Match)
			}
		}
	}
	t.Logf("%d kinds in %d formats, %d requests, %d bytes sent: %d found", len(all), len(formats), len(lines), sent.Len(), findings)
}
