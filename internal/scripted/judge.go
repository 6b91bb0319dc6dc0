package scripted

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Verdict is the result of a script.
type Verdict struct {
	Lost, Repeated, Wrong []string
	// Recovered counts results that came from the record. Told and Unknown count these
	// answers.
	Recovered, Told, Unknown int
}

// Bad reports whether there was a breach.
func (v Verdict) Bad() bool { return len(v.Lost)+len(v.Repeated)+len(v.Wrong) > 0 }

// String returns the breaches.
func (v Verdict) String() string {
	var out []string
	for what, list := range map[string][]string{"lost": v.Lost, "repeated": v.Repeated, "wrong": v.Wrong} {
		if len(list) > 0 {
			out = append(out, what+": "+strings.Join(list, "; "))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// Judge compares the ledger, the files and the transcript of a client that has finished.
// It does not ask acode.
func Judge(dir, workspace string) (v Verdict, err error) {
	entries, err := Transcript(dir)
	if err != nil {
		return v, err
	}
	raw, err := os.ReadFile(filepath.Join(workspace, ledger))
	if err != nil {
		return v, err
	}
	lines := map[string][]string{}
	for line := range strings.Lines(string(raw)) {
		mark, _, _ := strings.Cut(line, " ")
		lines[mark] = append(lines[mark], strings.TrimSpace(line))
	}
	results := map[int]Entry{}
	for _, e := range entries {
		results[e.Call] = e
		v.Told, v.Unknown = v.Told+e.Told, v.Unknown+e.Unknown
		if e.Recovered {
			v.Recovered++
		}
	}
	for i, want := range Script() {
		e, ok := results[i]
		if want.Of > 0 && results[want.Of-1].Outcome != "unknown" {
			want.Mark = Script()[want.Of-1].Mark
		}
		switch have := lines[want.Mark]; {
		case !ok:
			v.Lost = append(v.Lost, fmt.Sprintf("the result of call %d", i+1))
		case want.Mark == "":
		case len(have) == 0:
			v.Lost = append(v.Lost, "the effect of "+want.Mark)
		case want.Mark == Again && len(have) == 1:
			v.Lost = append(v.Lost, fmt.Sprintf("the effect of one of two equal calls, with %d records", e.Stale))
		case len(have) > 2 || len(have) == 2 && want.Mark != Again:
			v.Repeated = append(v.Repeated, fmt.Sprintf("%s (%d times)", want.Mark, len(have)))
		case e.Outcome != "unknown" && !slices.ContainsFunc(have, func(line string) bool { return strings.Contains(e.Text, line) }):
			v.Wrong = append(v.Wrong, fmt.Sprintf("the result of call %d lacks %q: %q", i+1, have[0], e.Text))
		}
	}
	v.stale(entries)
	return v, v.files(workspace)
}

// stale finds records of a settled answer. The answer to the first of two equal calls is
// settled if its server answered another call after the client had rested.
func (v *Verdict) stale(entries []Entry) {
	script := Script()
	var first *Entry
	settled := false
	for _, e := range entries {
		switch {
		case script[e.Call].Mark == Again && first == nil:
			first = &e
		case first != nil && script[e.Call].Rests:
			settled = e.Server == first.Server
		case script[e.Call].Mark == Again && settled && e.Stale > 0:
			v.Wrong = append(v.Wrong, "a new wish was answered with the record of a settled answer")
		}
	}
}

func (v *Verdict) files(workspace string) error {
	want := Files()
	err := filepath.WalkDir(workspace, func(at string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(workspace, at)
		if err != nil || d.IsDir() || name == ledger {
			return err
		}
		content, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		if text, ok := want[name]; !ok || text != string(content) {
			v.Wrong = append(v.Wrong, fmt.Sprintf("file %s holds %d bytes, want %d", name, len(content), len(text)))
		}
		delete(want, name)
		return nil
	})
	for name := range want {
		v.Lost = append(v.Lost, "file "+name)
	}
	slices.Sort(v.Lost)
	return err
}
