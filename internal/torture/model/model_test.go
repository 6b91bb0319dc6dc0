package model_test

import (
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/acode-dev/acode/internal/torture/model"
)

// Random plans combine every kind of step, and a seed always gives the same plan.
func TestRandomPlansHaveEveryKindOfStep(t *testing.T) {
	var all strings.Builder
	for n := 1; n <= 100; n++ {
		p, again := drawn(n), drawn(n)
		if p.YAML() != again.YAML() {
			t.Fatalf("random plan %d is another each time", n)
		}
		all.WriteString(p.YAML())
	}
	for _, what := range []string{"read: {", "search: {", " write: {", " edit: {", "all: true", " delete: {", " move: {", "on its way", "changes:",
		"capture: ", "check: ", "approve: ", "durable: false", "dir: ", "env: {", "run: [", "mode: ", "mv -f", "on_interrupt", "on_failure: continue", model.RepairedSuffix, "./alpha//"} {
		if !strings.Contains(all.String(), what) {
			t.Errorf("no random plan has %q", what)
		}
	}
}

func drawn(n int) model.Plan { return model.Draw(rand.New(rand.NewPCG(1, 1<<32+uint64(n)))) }

func TestPlanHasEveryKindOfStep(t *testing.T) {
	p := model.Fixed()
	steps := p.Steps
	if len(steps) != 20 {
		t.Errorf("plan: got %d steps, want 20", len(steps))
	}
	ids := map[string]int{}
	for _, s := range steps {
		ids[path.Base(s.Name())]++
	}
	if ids["sign-the-big-ledger"] != 2 {
		t.Error("plan: no step id is in two tasks")
	}
	large := 0
	for _, f := range model.Fixed().States()[len(steps)] {
		if len(f.Data) >= 48<<10 {
			large++
		}
	}
	if large == 0 {
		t.Error("plan: no file of 48 KiB")
	}
}
