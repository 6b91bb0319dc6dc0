package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// verdict is the judgement of one run.
type verdict struct {
	repeated, lost, wrong []string
	// recovered, told and unknown count results of these kinds that the model got.
	recovered, told, unknown int
}

func (v verdict) bad() bool { return len(v.repeated)+len(v.lost)+len(v.wrong) > 0 }

func (v verdict) String() string {
	var out []string
	for _, part := range []struct {
		name string
		all  []string
	}{{"repeated", v.repeated}, {"lost", v.lost}, {"wrong", v.wrong}} {
		if len(part.all) > 0 {
			out = append(out, part.name+": "+strings.Join(part.all, "; "))
		}
	}
	return strings.Join(out, ". ")
}

// judge compares the results that the model got with the ledger and the files. It does
// not ask acode. excused says that the outcome of a call may be unknown, because the
// supervisor was killed.
func judge(m *model, ws string, excused bool) (v verdict) {
	lines := map[string][]string{}
	raw, err := os.ReadFile(filepath.Join(ws, ledger))
	if err != nil {
		v.lost = append(v.lost, err.Error())
	}
	for line := range strings.Lines(string(raw)) {
		mark, _, _ := strings.Cut(line, " ")
		lines[mark] = append(lines[mark], strings.TrimSpace(line))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.end == nil {
		v.lost = append(v.lost, "the end of the script")
		return v
	}
	if m.end.failed != "" {
		v.wrong = append(v.wrong, m.end.failed)
	}
	for i, want := range m.script {
		have := lines[want.mark]
		got, ok := m.end.results[i]
		if !ok {
			v.lost = append(v.lost, fmt.Sprintf("the result of call %d", i+1))
		}
		if want.mark == "" {
			continue
		}
		switch {
		case len(have) == 0:
			v.lost = append(v.lost, "the effect of "+want.mark)
		case len(have) > 1:
			v.repeated = append(v.repeated, fmt.Sprintf("%s (%d times)", want.mark, len(have)))
		}
		if m.shell == "" && ok && got.outcome != "unknown" && (got.outcome == "failed") != want.fails {
			v.wrong = append(v.wrong, fmt.Sprintf("call %d is %s", i+1, got.outcome))
		}
	}
	for _, got := range m.end.seen {
		switch got.kind {
		case "recovered":
			v.recovered++
		case "told":
			v.told++
		}
		if got.outcome == "unknown" {
			v.unknown++
			continue
		}
		mark := m.script[got.call].mark
		if have := lines[mark]; mark != "" && !slices.ContainsFunc(have, func(line string) bool { return strings.Contains(got.text, line) }) {
			v.wrong = append(v.wrong, fmt.Sprintf("the %s result of call %d has no line of the ledger: %q", got.kind, got.call+1, got.text))
		}
	}
	if v.unknown > 0 && !excused {
		v.wrong = append(v.wrong, "an outcome is unknown, although the supervisor lived on")
	}
	v.files(ws)
	return v
}

// files compares the workspace with what the script leaves. A line that occurs more
// often than it should is a repeated edit.
func (v *verdict) files(ws string) {
	want := files()
	err := filepath.WalkDir(ws, func(at string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(ws, at)
		if err != nil || d.IsDir() || name == ledger {
			return err
		}
		content, err := os.ReadFile(at)
		text, ok := want[name]
		switch {
		case !ok || len(content) < len(text):
			v.wrong = append(v.wrong, fmt.Sprintf("file %s holds %q", name, content))
		case text != string(content):
			v.repeated = append(v.repeated, fmt.Sprintf("file %s holds %q", name, content))
		}
		delete(want, name)
		return err
	})
	if err != nil {
		v.wrong = append(v.wrong, err.Error())
	}
	for name := range want {
		v.lost = append(v.lost, "file "+name)
	}
}
