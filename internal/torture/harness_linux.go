package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/acode-dev/acode/internal/torture/model"
	"github.com/acode-dev/acode/internal/torture/scene"
)

// harness runs trials of one acode.
type harness struct {
	// acode is the path of the program.
	acode string
	// scratch contains all files of the run.
	scratch string
	seed    uint64
	workers int
	// plan is the plan of the sessions.
	plan model.Plan
	// log receives progress and breaches.
	log io.Writer
	// now is the clock.
	now func() time.Time

	// mu is held while writing to log.
	mu    sync.Mutex
	shown int
	// breaches holds the described breaches, each on one line.
	breaches []string
}

// breachesShown is the number of described breaches; further ones are only counted.
const breachesShown = 12

// trial runs one session below its own directory, which stays after a breach.
func (h *harness) trial(ctx context.Context, name string, kills []kill, record func(crash.Call)) (*trial, error) {
	t := &trial{strict: true, kills: kills, record: record,
		Case: scene.Case{Place: scene.Place{Acode: h.acode, Root: filepath.Join(h.scratch, name), Plan: h.plan}}}
	if err := errors.Join(os.RemoveAll(t.Root), t.Prepare(h.plan.YAML())); err != nil {
		return nil, err
	}
	if err := t.run(ctx); err != nil {
		return nil, err
	}
	if whole := t.uncut(); whole != nil {
		return h.trial(ctx, name, whole, record)
	}
	if !t.Bad() {
		return t, os.RemoveAll(t.Root)
	}
	return t, nil
}

// uncut returns other kills if a kill was to cut a write that cannot be cut. This happens
// because the numbers of calls shift a little from run to run. nil means that there was
// none.
func (t *trial) uncut() []kill {
	for i, k := range t.kills {
		for _, res := range t.ended {
			if k.point.When == crash.Inside && res.Struck && res.At.N == k.point.N && !cuttable(res.At) {
				kills := slices.Clone(t.kills)
				kills[i].point.When = crash.After
				return kills
			}
		}
	}
	return nil
}

// row is a line of the table.
type row struct {
	name                                           string
	points, kills, lost, repeated, uncertain, over int
	wrong, stuck                                   int
}

func (r *row) add(o scene.Outcome) {
	r.points++
	r.kills += o.Killed
	r.lost += len(o.Lost)
	r.repeated += len(o.Repeated)
	r.uncertain += o.Uncertain
	r.over += max(0, o.Uncertain-o.Excused)
	r.wrong += len(o.Wrong)
	if o.Stuck != "" {
		r.stuck++
	}
}

// breaches counts the errors, which must be 0.
func (r row) breaches() int { return r.lost + r.repeated + r.wrong + r.stuck + r.over }

// run executes a series at the given points.
func (h *harness) run(ctx context.Context, sr series, points []kill) (row, error) {
	r := row{name: sr.name}
	var mu sync.Mutex
	err := h.each(ctx, 0, len(points)-1, func(ctx context.Context, i int) error {
		kills := sr.schedule(points[i], rand.New(rand.NewPCG(h.seed, uint64(i))))
		t, err := h.trial(ctx, fmt.Sprintf("%s-%d", sr.victim, i), kills, nil)
		if err != nil {
			return fmt.Errorf("%s: %w", kills[0], err)
		}
		mu.Lock()
		defer mu.Unlock()
		r.add(t.Outcome)
		h.progress(sr, r, len(points), kills, t)
		return nil
	})
	return r, err
}

// each calls do for the numbers from first to last, in parallel on the workers, until one
// fails.
func (h *harness) each(ctx context.Context, first, last int, do func(context.Context, int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next := make(chan int)
	errs := make([]error, h.workers)
	var group sync.WaitGroup
	for w := range errs {
		group.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					errs[w] = errors.Join(errs[w], err)
					cancel()
				}
			}
		})
	}
	for i := first; i <= last && ctx.Err() == nil; i++ {
		next <- i
	}
	close(next)
	group.Wait()
	return errors.Join(errs...)
}

// progress prints the errors of a trial and, sometimes, the progress of a series.
func (h *harness) progress(sr series, r row, points int, kills []kill, t *trial) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.Bad() {
		h.describe(fmt.Sprintf("%s\n  %s\n  %s\n  kept: %s", sr.name, t.Outcome, describe(kills), t.Root))
	}
	if r.points%200 == 0 {
		fmt.Fprintf(h.log, "%s: %d of %d points, %d breaches\n", sr.name, r.points, points, r.breaches())
	}
}

// describe prints a breach, unless enough were printed. The caller holds mu.
func (h *harness) describe(breach string) {
	if h.shown++; h.shown > breachesShown {
		return
	}
	fmt.Fprintf(h.log, "BREACH %s\n", breach)
	h.breaches = append(h.breaches, strings.Join(strings.Fields(breach), " "))
}

// control checks that a series fails for a program that does nothing.
func (h *harness) control(ctx context.Context, sr series, points []kill) error {
	idle := &harness{acode: "/bin/true", scratch: filepath.Join(h.scratch, "control"), seed: h.seed, workers: 1, plan: h.plan, log: io.Discard, now: h.now}
	r, err := idle.run(ctx, sr, points[:1])
	if err == nil && r.breaches() == 0 {
		err = fmt.Errorf("%s: /bin/true passes", sr.name)
	}
	return errors.Join(err, os.RemoveAll(idle.scratch))
}

// sample returns n of the points; 0 means all.
func sample(points []kill, n int, rng *rand.Rand) []kill {
	if n <= 0 || n >= len(points) {
		return points
	}
	rng.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	return points[:n]
}
