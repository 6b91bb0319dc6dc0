package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"

	"github.com/acode-dev/acode/internal/torture/model"
	"github.com/acode-dev/acode/internal/torture/people"
	"github.com/acode-dev/acode/internal/torture/scene"
)

// kind is a kind of scenarios with random plans.
type kind struct {
	name string
	draw func(model.Plan, *rand.Rand) []people.Act
	// salt separates its random numbers from other kinds.
	salt uint64
}

// kinds returns every kind of scenarios.
func kinds() []kind { return []kind{byPeople(), shutdowns(), cancels()} }

func byPeople() kind  { return kind{"people", people.Draw, 2} }
func shutdowns() kind { return kind{"shutdowns", people.Shutdowns, 3} }
func cancels() kind   { return kind{"cancels", people.Cancels, 4} }

// scenarios executes the scenarios with the numbers from first to last. It first checks
// that the first one fails for a program that does nothing.
func (h *harness) scenarios(ctx context.Context, k kind, first, last int) (row, error) {
	r, idle := row{name: k.name + ", random plans"}, h.quiet("/bin/true", "control")
	s, err := idle.scenario(ctx, k, first)
	if err == nil && !s.Bad() {
		err = fmt.Errorf("%s: /bin/true passes", k.name)
	}
	if err = errors.Join(err, os.RemoveAll(idle.scratch)); err != nil {
		return r, err
	}
	var mu sync.Mutex
	err = h.each(ctx, first, last, func(ctx context.Context, n int) error {
		s, err := h.scenario(ctx, k, n)
		if err != nil {
			return fmt.Errorf("%s: scenario %d of seed %d: %w", k.name, n, h.seed, err)
		}
		mu.Lock()
		defer mu.Unlock()
		r.add(s.Outcome)
		h.tellScenario(k, n, s)
		return nil
	})
	return r, err
}

// drawnScenario returns the nth scenario of a kind, from 1, in its own directory.
func (h *harness) drawnScenario(k kind, n int) *people.Scenario {
	rng := rand.New(rand.NewPCG(h.seed, k.salt<<32+uint64(n)))
	p := model.DrawSlow(rng)
	return h.newScenario(fmt.Sprintf("%s-%d", k.name, n), p, k.draw(p, rng))
}

func (h *harness) newScenario(name string, p model.Plan, acts []people.Act) *people.Scenario {
	return people.New(scene.Place{Acode: h.acode, Root: filepath.Join(h.scratch, name), Plan: p}, acts)
}

// scenario executes the nth scenario of a kind. Its directory stays after a breach.
func (h *harness) scenario(ctx context.Context, k kind, n int) (*people.Scenario, error) {
	s := h.drawnScenario(k, n)
	return s, s.Play(ctx)
}

// tellScenario prints the breaches of a scenario with all commands, and the progress of
// the series.
func (h *harness) tellScenario(k kind, n int, s *people.Scenario) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.Bad() {
		h.describe(fmt.Sprintf("%s: scenario %d of seed %d\n  %s\n  kept: %s\n  again: go run ./internal/torture -seed %d -only %[1]s -scenario %[2]d\n%[7]s",
			k.name, n, h.seed, s.Outcome, s.Root, h.seed, s.Report()))
	}
	if n%50 == 0 {
		fmt.Fprintf(h.log, "%s: scenario %d\n", k.name, n)
	}
}
