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

// peopleRow names the row of what people do.
const peopleRow = "people, plans drawn at random"

// scenarios carries out what people do with plans of the numbers from first to last, once it has seen
// that the first fails for a program that does nothing.
func (h *harness) scenarios(ctx context.Context, first, last int) (row, error) {
	r, idle := row{name: peopleRow}, h.quiet("/bin/true", "control")
	s, err := idle.scenario(ctx, first)
	if err == nil && !s.Bad() {
		err = errors.New("what people do: /bin/true passes")
	}
	if err = errors.Join(err, os.RemoveAll(idle.scratch)); err != nil {
		return r, err
	}
	var mu sync.Mutex
	err = h.each(ctx, first, last, func(ctx context.Context, n int) error {
		s, err := h.scenario(ctx, n)
		if err != nil {
			return fmt.Errorf("scenario %d of seed %d: %w", n, h.seed, err)
		}
		mu.Lock()
		defer mu.Unlock()
		r.add(s.Outcome)
		h.tellScenario(n, s)
		return nil
	})
	return r, err
}

// drawnScenario gives the nth scenario, from 1, in a directory of its own.
func (h *harness) drawnScenario(n int) *people.Scenario {
	rng := rand.New(rand.NewPCG(h.seed, 2<<32+uint64(n)))
	p := model.DrawSlow(rng)
	return h.newScenario(fmt.Sprintf("scenario-%d", n), p, people.Draw(p, rng))
}

func (h *harness) newScenario(name string, p model.Plan, acts []people.Act) *people.Scenario {
	return people.New(scene.Place{Acode: h.acode, Root: filepath.Join(h.scratch, name), Plan: p}, acts)
}

// scenario carries the nth scenario out. Its directory stays when something was wrong.
func (h *harness) scenario(ctx context.Context, n int) (*people.Scenario, error) {
	s := h.drawnScenario(n)
	return s, s.Play(ctx)
}

// tellScenario says what was wrong with a scenario, with all that was typed, and how far the series is.
func (h *harness) tellScenario(n int, s *people.Scenario) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.Bad() {
		h.describe(fmt.Sprintf("scenario %d of seed %d\n  %s\n  kept: %s\n  again: go run ./internal/torture -seed %d -scenario %d\n%s",
			n, h.seed, s.Outcome, s.Root, h.seed, n, s.Report()))
	}
	if n%50 == 0 {
		fmt.Fprintf(h.log, "scenario %d\n", n)
	}
}
