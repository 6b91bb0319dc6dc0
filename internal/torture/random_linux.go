package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/acode-dev/acode/internal/torture/model"
)

// killsOfPlan is the number of killed sessions of each random plan, in addition to an
// undisturbed one.
const killsOfPlan = 2

// with returns a harness for another plan, below its own directory.
func (h *harness) with(p model.Plan, name string) *harness {
	return &harness{acode: h.acode, scratch: filepath.Join(h.scratch, name), seed: h.seed, workers: h.workers, plan: p, log: h.log, now: h.now}
}

// drawn returns the nth random plan, from 1, and the random source of its kills. In every
// third plan tasks run at once.
func (h *harness) drawn(n int) (model.Plan, *rand.Rand) {
	rng := rand.New(rand.NewPCG(h.seed, 1<<32+uint64(n)))
	if n%besideEvery == 0 {
		return model.DrawBeside(rng), rng
	}
	return model.Draw(rng), rng
}

const besideEvery = 3

// randomPlans executes the random plans with the numbers from first to last. It first
// checks that the first one fails for a program that does nothing.
func (h *harness) randomPlans(ctx context.Context, first, last int) ([]row, error) {
	control := h.quiet("/bin/true", "control")
	idle, err := control.drawnPlans(ctx, first, first)
	if err == nil && idle[0].breaches() == 0 {
		err = errors.New("random plans: /bin/true passes")
	}
	if err != nil {
		return idle, err
	}
	if err := control.randomCuts(ctx, first, func(disturbance, *trial) {}); err == nil {
		return idle, errors.New("power cuts of random plans: /bin/true passes")
	}
	return h.drawnPlans(ctx, first, last)
}

// drawnPlans returns a row of the killed sessions and one of the power cuts.
func (h *harness) drawnPlans(ctx context.Context, first, last int) ([]row, error) {
	rows := []row{{name: "any victim, random plans"}, {name: "the machine, random plans"}}
	var mu sync.Mutex
	err := h.each(ctx, first, last, func(ctx context.Context, n int) error {
		fine := true
		done := func(d disturbance, t *trial) {
			mu.Lock()
			defer mu.Unlock()
			rows[min(len(d.cuts), 1)].add(t.Outcome)
			h.tellPlan(n, d, t)
			fine = fine && !t.Bad()
		}
		err := h.randomPlan(ctx, n, done)
		if err == nil && fine {
			err = h.randomCuts(ctx, n, done)
		}
		if err != nil {
			return fmt.Errorf("random plan %d of seed %d: %w", n, h.seed, err)
		}
		return nil
	})
	return rows, err
}

// randomPlan executes the nth random plan undisturbed, then kills sessions of it
// anywhere.
func (h *harness) randomPlan(ctx context.Context, n int, done func(disturbance, *trial)) error {
	p, rng := h.drawn(n)
	own := h.with(p, fmt.Sprintf("plan-%d", n))
	s, t, err := own.undisturbed(ctx)
	if err != nil {
		return err
	}
	done(disturbance{}, t)
	renames := renamesIn(t.Workspace())
	for i := range killsOfPlan {
		kills := s.anywhere(renames, rng)
		if t.Bad() || kills == nil {
			return nil
		}
		if t, err = own.trial(ctx, fmt.Sprintf("killed-%d", i), kills, nil); err != nil {
			return fmt.Errorf("%s: %w", describe(kills), err)
		}
		done(disturbance{kills: kills}, t)
	}
	if t.Bad() {
		return nil
	}
	return os.Remove(own.scratch)
}

// stepRenames is about the number of changes of directories by one file step or its
// rollback.
const stepRenames = 8

// anywhere draws a first kill with any victim, and the following kills. Every second time
// they are in the middle of file steps and their rollback, if there are any, because most
// calls belong to the store.
func (s survey) anywhere(renames func(crash.Call) bool, rng *rand.Rand) []kill {
	all := allSeries()
	if points := s.only(renames).points(all[0], 0, true, rng); len(points) > 0 && rng.IntN(2) == 0 {
		kills := all[0].schedule(points[rng.IntN(len(points))], rng)
		for i := range kills[1:] {
			kills[1+i].names, kills[1+i].point.N = true, 1+rng.IntN(stepRenames)
		}
		return kills
	}
	for _, i := range rng.Perm(len(all)) {
		if points := s.points(all[i], 0, true, rng); len(points) > 0 {
			return all[i].schedule(points[rng.IntN(len(points))], rng)
		}
	}
	return nil
}

// only keeps the calls that match.
func (s survey) only(match func(crash.Call) bool) survey {
	kept := make(survey, len(s))
	for i, by := range s {
		kept[i] = map[string][]crash.Call{}
		for role, calls := range by {
			kept[i][role] = slices.DeleteFunc(slices.Clone(calls), func(c crash.Call) bool { return !match(c) })
		}
	}
	return kept
}

// tellPlan prints the errors of a random plan, and the progress of the series.
func (h *harness) tellPlan(n int, d disturbance, t *trial) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.Bad() {
		h.describe(fmt.Sprintf("random plan %d of seed %d\n  %s\n  %s\n  kept: %s", n, h.seed, t.Outcome, d, t.Root))
	}
	if d.kills == nil && d.cuts == nil && n%50 == 0 {
		fmt.Fprintf(h.log, "random plan %d\n", n)
	}
}
