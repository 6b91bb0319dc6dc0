package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/plan"
	"github.com/acode-dev/acode/session"
)

// A step overrides the defaults of its task, and these override the defaults of the plan.
// Variables of all levels are merged.
func TestDefaults(t *testing.T) {
	p, err := plan.Parse("plan.yml", []byte(`
version: 1
task: t
defaults: {shell: bash, dir: sub, timeout: 1m, env: {A: plan, B: plan}}
tasks:
  - id: one
    steps:
      - {run: a}
      - {run: b, shell: sh, dir: ".", timeout: 2m, env: {B: step, C: step}}
      - {run: [c]}
      - {approve: "Go on?"}
  - id: two
    defaults: {shell: [ksh, -c], env: {B: task}}
    steps: [{run: d}]
`))
	if err != nil {
		t.Fatal(err)
	}
	bash, both := []string{"bash", "-e", "-o", "pipefail", "-c"}, map[string]string{"A": "plan", "B": "plan"}
	want := []*session.Run{
		{Shell: "a", With: bash, Dir: "sub", Timeout: time.Minute, Env: both},
		{Shell: "b", Timeout: 2 * time.Minute, Env: map[string]string{"A": "plan", "B": "step", "C": "step"}},
		{Argv: []string{"c"}, Dir: "sub", Timeout: time.Minute, Env: both},
		nil,
		{Shell: "d", With: []string{"ksh", "-c"}, Dir: "sub", Timeout: time.Minute, Env: map[string]string{"A": "plan", "B": "task"}},
	}
	var got []*session.Run
	for _, task := range p.Tasks {
		for _, s := range task.Steps {
			got = append(got, s.Run)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Parse (-want +got):\n%s", diff)
	}
}

// A small file with large defaults and many steps does not become a large plan.
func TestDefaultsBomb(t *testing.T) {
	file := fmt.Sprintf("version: 1\ntask: t\ndefaults: {env: {A: %s}}\ntasks: [{steps: [%s]}]\n",
		strings.Repeat("x", 1<<20), strings.Repeat("{run: x, env: {B: b}}, ", 1000))
	_, err := plan.Parse("plan.yml", []byte(file))
	if err == nil || !strings.Contains(err.Error(), "the defaults add more than 16 MiB to the steps of the plan") {
		t.Errorf("Parse: got %.200v, want a refusal", err)
	}
}
