package session_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/acode-dev/acode/session"
)

func TestExpand(t *testing.T) {
	values := map[string]string{"A": "1", "LONG_2": "two", "NEST": "${A}", "EMPTY": "", "2A": "no name"}
	for in, want := range map[string]string{
		"":                   "",
		"plain $A text":      "plain $A text",
		"${A}":               "1",
		"x${A}y${LONG_2}z":   "x1ytwoz",
		"${B}":               "${B}",
		"$${A}":              "${A}",
		"$$${A}":             "$${A}",
		"$${A}${A}":          "${A}1",
		"${":                 "${",
		"${A":                "${A",
		"${}":                "${}",
		"${2A}":              "${2A}",
		"${A }":              "${A }",
		"${A:-x}":            "${A:-x}",
		"${${A}}":            "${1}",
		"${NEST}":            "${A}",
		"[${EMPTY}]":         "[]",
		"$":                  "$",
		"é${A}é":             "é1é",
		"$${":                "${",
		"${A}}":              "1}",
		"${LONG_2}${LONG_3}": "two${LONG_3}",
	} {
		if got := session.Expand(in, values); got != want {
			t.Errorf("Expand(%q): got %q, want %q", in, got, want)
		}
	}
}

func TestValidVariable(t *testing.T) {
	for in, want := range map[string]bool{"A": true, "_": true, "a1_B": true, "azAZ09": true, "": false, "1a": false, "A-B": false, "É": false, "A=": false} {
		if got := session.ValidVariable(in); got != want {
			t.Errorf("ValidVariable(%q): got %v, want %v", in, got, want)
		}
	}
}

// Escaping every ${ makes any text survive Expand unchanged.
func TestExpandEscaped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([A-B${}x]{0,3}|\$\{A\}|\$\$\{){0,8}`).Draw(t, "text")
		escaped := strings.ReplaceAll(text, "${", "$${")
		if got := session.Expand(escaped, map[string]string{"A": "value"}); got != text {
			t.Fatalf("Expand(%q): got %q, want %q", escaped, got, text)
		}
	})
}

func capturing(id, name string) session.Step {
	return session.Step{ID: id, Kind: session.KindRun, Run: &session.Run{Shell: "true", Capture: name}}
}

func TestVisibility(t *testing.T) {
	p := &session.Plan{Tasks: []session.Task{
		{ID: "last", DependsOn: []string{"mid"}, Steps: []session.Step{capturing("1", "OWN"), capturing("2", "BASE"), capturing("3", "")}},
		{ID: "other", Steps: []session.Step{capturing("1", "OTHER")}},
		{ID: "first", Steps: []session.Step{capturing("1", "BASE"), capturing("2", "BASE")}},
		{ID: "mid", DependsOn: []string{"first", "unknown"}, Steps: []session.Step{capturing("1", "MID")}},
	}}
	v := session.NewVisibility(p)
	inherited := map[string]session.StepID{"BASE": {Task: "first", Step: "2"}, "MID": {Task: "mid", Step: "1"}}
	all := map[string]session.StepID{"OWN": {Task: "last", Step: "1"}, "BASE": {Task: "last", Step: "2"}, "MID": {Task: "mid", Step: "1"}}
	for _, c := range []struct {
		task, step int
		want       map[string]session.StepID
	}{
		{0, 0, inherited},
		{0, 2, all},
		{0, 0, inherited}, // again at the first step
		{0, 2, all},
		{1, 0, map[string]session.StepID{}},
		{2, 1, map[string]session.StepID{"BASE": {Task: "first", Step: "1"}}},
		{3, 0, map[string]session.StepID{"BASE": {Task: "first", Step: "2"}}},
	} {
		if diff := cmp.Diff(c.want, v.At(c.task, c.step)); diff != "" {
			t.Errorf("At(%d, %d) (-want +got):\n%s", c.task, c.step, diff)
		}
	}
}

func TestVisibilityWithoutCaptures(t *testing.T) {
	p := &session.Plan{Tasks: []session.Task{{ID: "1", Steps: []session.Step{capturing("1", "")}}}}
	if got := session.NewVisibility(p).At(0, 0); len(got) != 0 {
		t.Errorf("At: got %v, want nothing", got)
	}
}

// In a plan of 100,000 steps each query in order costs about one lookup.
func BenchmarkVisibility(b *testing.B) {
	p := &session.Plan{Tasks: make([]session.Task, 1000)}
	for i := range p.Tasks {
		t := &p.Tasks[i]
		t.ID = fmt.Sprint(i)
		if i > 0 {
			t.DependsOn = []string{fmt.Sprint(i - 1)}
		}
		for j := range 100 {
			t.Steps = append(t.Steps, capturing(fmt.Sprint(j), fmt.Sprintf("N%d", j%7)))
		}
	}
	for b.Loop() {
		v := session.NewVisibility(p)
		for i := range p.Tasks {
			for j := range p.Tasks[i].Steps {
				v.At(i, j)
			}
		}
	}
}
