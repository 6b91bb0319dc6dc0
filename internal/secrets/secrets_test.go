package secrets_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zricethezav/gitleaks/v8/detect"
	"github.com/zricethezav/gitleaks/v8/report"
)

type m = map[string]any

// planted returns a plan that holds each secret in every possible place.
func planted(s *site, all []kind) m {
	echo := func(text string) string { return "cat <<'END_OF_TEXT'\n" + text + "\nEND_OF_TEXT" }
	var commands, failing, files, edits, starts []m
	var texts strings.Builder
	env, names := m{}, []string{}
	for i, k := range all {
		id, path := fmt.Sprintf("k%d", i), fmt.Sprintf("files/%d.txt", i)
		texts.WriteString(k.text + "\n")
		commands = append(commands, m{"id": id, "name": "Look at " + oneLine(k.text), "run": echo(k.text)})
		failing = append(failing, m{"id": "fail-" + id, "title": oneLine(k.text), "steps": []m{{"id": "f", "run": echo(k.text) + " >&2; exit 3"}}})
		files = append(files, m{"id": id, "write": m{"path": path, "content": "# notes\n" + k.text + "\n"}})
		edits = append(edits, m{"id": "edit-" + id, "edit": m{"path": path, "old": k.text, "new": "again: " + k.text}})
		starts = append(starts, m{"id": "start-" + id, "steps": []m{{"id": "s", "run": []string{"./no such program " + k.text}}}})
		env["V"+fmt.Sprint(i)], names = k.text, append(names, fmt.Sprintf(`"$V%d"`, i))
	}
	everything := texts.String()
	large := strings.Repeat(everything+strings.Repeat("filler\n", 500), 20)
	must2(os.WriteFile(s.in("large.txt"), []byte(large), 0o600))
	tasks := []m{
		{"id": "output", "steps": commands},
		{"id": "files", "steps": append(files, edits...)},
		{"id": "more", "depends_on": []string{"files"}, "steps": []m{
			{"id": "search", "search": m{"pattern": "with|:|=", "path": "files"}},
			{"id": "read", "read": m{"path": "files/**"}},
			{"id": "env", "run": "printf '%s\\n' " + strings.Join(names, " "), "env": env},
			{"id": "large", "run": "cat ../large.txt; cat ../large.txt >&2"},
			{"id": "capture", "run": echo(all[0].text), "capture": "TEXT"},
			{"id": "use", "write": m{"path": "captured.txt", "content": "${TEXT}"}},
			{"id": "delete", "delete": m{"path": "files/0.txt"}},
			{"id": "gate", "approve": "Go on? " + everything[:2000]},
			{"id": "after", "run": "true"},
		}},
	}
	tasks = append(tasks, failing...)
	return m{"version": 1, "task": "Ship with " + all[0].text, "on_failure": "continue", "tasks": append(tasks, starts...)}
}

func oneLine(text string) string { return strings.ReplaceAll(text, "\n", " ") }

func must2(err error) {
	if err != nil {
		panic(err)
	}
}

// played runs the plan with the texts that people add to it: answers, reasons, a command
// that was killed with its supervisor, a wrong command line.
func played(t *testing.T, all []kind) *site {
	t.Helper()
	s := newSite(t, all)
	s.acode(t, 10, "-v", "run", "--plan", s.plan(t, "plan.yml", planted(s, all)))
	short := shortID(t, s)
	s.acode(t, 0, "deny", short, "more/gate", "--reason", "no: "+all[1].text+" and "+all[len(all)-1].text)
	s.acode(t, 10, "resume", short)
	s.acode(t, 0, "approve", short, "more/gate")
	s.acode(t, 22, "-v", "resume", short)
	s.acode(t, 0, "session", "cancel", short, "--reason", "because of "+all[2].text)
	return s
}

func shortID(t *testing.T, s *site) string {
	t.Helper()
	var list struct {
		Sessions []struct {
			Short string `json:"short_id"`
		}
	}
	must(t, json.Unmarshal([]byte(s.acode(t, 0, "--json", "session", "list", "--all")), &list))
	if len(list.Sessions) == 0 {
		t.Fatal("no session")
	}
	return list.Sessions[0].Short
}

// pieces returns the parts of a value that must not be found: the value, either half,
// each line of a key.
func pieces(k kind) []string {
	var out []string
	for _, line := range strings.FieldsFunc(k.value, func(r rune) bool { return r == '\n' || r == '\\' }) {
		line = strings.TrimPrefix(line, "n")
		out = append(out, line)
		if half := len(line) / 2; half >= 12 {
			out = append(out, line[:half], line[half:])
		}
	}
	return out
}

// found lists the secrets of which a text holds a piece.
func found(text string, all []kind) []string {
	var out []string
	for _, k := range all {
		if slices.ContainsFunc(pieces(k), func(p string) bool { return strings.Contains(text, p) }) {
			out = append(out, k.name)
		}
	}
	return out
}

// scan returns the findings of gitleaks in a text.
func scan(t *testing.T, text string) []report.Finding {
	t.Helper()
	d, err := detect.NewDetectorDefaultConfig()
	must(t, err)
	return d.DetectString(text)
}

// own matches texts that acode writes and that look like secrets to a scanner: hashes,
// ids, keys of steps, and the marks of redaction.
var own = regexp.MustCompile(`^(?:[0-9a-f-]{16,}|v1:[0-9a-f-]{36}:.*|\*\*\*.*)$`)

// keyLine matches the content of a private key. A title may show the first line of a key,
// which is no secret by itself.
var keyLine = regexp.MustCompile(`[A-Za-z0-9+/]{40}`)

// acode neither stores unsealed nor shows any planted secret, neither by exact search nor
// for gitleaks.
func TestNothingIsKept(t *testing.T) {
	all := kinds()
	if len(all) < 30 {
		t.Fatalf("%d secrets are too few", len(all))
	}
	s := played(t, all)
	for _, args := range [][]string{{"session", "export"}, {"session", "history", "--format", "json"}, {"session", "history"}, {"session", "show"}, {"status"}, {"--json", "session", "show"}} {
		s.acode(t, 0, append(args, shortID(t, s))...)
	}
	s.acode(t, 0, "verify")
	var bytes, findings, harmless int
	for _, k := range append(s.kept(t), kept{"shown", s.shown.String()}) {
		bytes += len(k.text)
		for _, name := range found(k.text, all) {
			findings++
			t.Errorf("%s holds %s", k.name, name)
		}
		// Pages split their content; the rows are checked above.
		if strings.Contains(k.name, "acode.db") {
			continue
		}
		for _, f := range scan(t, k.text) {
			if own.MatchString(f.Secret) || f.RuleID == "private-key" && !keyLine.MatchString(f.Match) {
				harmless++
				continue
			}
			findings++
			t.Errorf("%s: gitleaks finds %s: %.200s", k.name, f.RuleID, f.Match)
		}
	}
	t.Logf("%d secrets planted, %d bytes kept or shown, %d found, %d findings are hashes and ids of acode's own or headers without a key", len(all), bytes, findings, harmless)
}

// As a positive control, both searches find the secrets in the input.
func TestInputsAreFound(t *testing.T) {
	all := kinds()
	s := newSite(t, all)
	b, err := json.MarshalIndent(planted(s, all), "", " ")
	must(t, err)
	var raw strings.Builder
	rules := map[string]bool{}
	scanned := 0
	for _, k := range all {
		raw.WriteString(k.text + "\n" + k.variable + "\n")
		hits := scan(t, k.text+"\n"+k.variable+"\n")
		if len(hits) > 0 {
			scanned++
		} else {
			t.Logf("not known to gitleaks: %s", k.name)
		}
		for _, f := range hits {
			rules[f.RuleID] = true
		}
	}
	must(t, os.WriteFile(filepath.Join(s.root, "inputs"), []byte(raw.String()), 0o600))
	exact := len(found(raw.String(), all))
	inPlan := len(scan(t, string(b)))
	t.Logf("%d secrets planted: %d found by exact search, %d by gitleaks one by one (%d rules), %d findings in the plan as a whole", len(all), exact, scanned, len(rules), inPlan)
	if exact != len(all) || scanned < 30 || inPlan < 30 {
		t.Errorf("found %d of %d exactly, %d by gitleaks, %d in the plan: looking shows little", exact, len(all), scanned, inPlan)
	}
}
