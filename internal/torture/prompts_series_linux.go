package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/acode-dev/acode/internal/torture/scene"
)

// newPrompt returns a session of prompts with its own directory. A sandbox has a /dev of
// its own, so the workspace is never in memory there.
func (h *harness) newPrompt(name string, at spot) (*promptTrial, error) {
	root, err := os.MkdirTemp("", "torture-"+name+"-")
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	return &promptTrial{Place: scene.Place{Acode: h.acode, Root: root}, at: at}, err
}

// judged carries the session to its end. Its directory stays after a breach.
func (t *promptTrial) judged(ctx context.Context) error {
	if err := t.run(ctx); err != nil {
		return fmt.Errorf("%s: %w", t.at, err)
	}
	if t.Bad() {
		return nil
	}
	return os.RemoveAll(t.Root)
}

// lookAtPrompts carries out the script undisturbed, and returns the kinds of kills.
func (h *harness) lookAtPrompts(ctx context.Context) ([]promptSeries, error) {
	t, err := h.newPrompt("prompts", spot{})
	if err != nil {
		return nil, err
	}
	commits, changes, every := 0, 0, 0
	t.record = func(c crash.Call) {
		count := func(n *int, match func(crash.Call) bool) {
			if c.N > 0 && match(c) {
				*n++
			}
		}
		count(&commits, isCommit)
		count(&changes, isChange)
		count(&every, isAny)
	}
	err = t.run(ctx)
	if err == nil && t.Bad() {
		err = fmt.Errorf("undisturbed prompts: %s\n%s", t.Outcome, t.said.String())
	}
	calls := 0
	eachReply(func(r wantedReply, _ int) { calls += len(r.calls) })
	fmt.Fprintf(h.log, "undisturbed: %d replies of a model with %d calls, %d commits, %d changes of directories, %d calls of acode\n", len(promptScript()), calls, commits, changes, every)
	return []promptSeries{
		{"a prompt's requests", requestSpots()},
		{"a prompt's replies", replySpots()},
		{"a prompt's commands", commandSpots()},
		{"a prompt's files", countedSpots("change", changes, 1, isChange)},
		{"a prompt's commits", countedSpots("commit", commits, 1, isCommit)},
		{"a prompt's calls", countedSpots("call", every, apart, isAny)},
	}, errors.Join(err, os.RemoveAll(t.Root))
}

// idlePrompt checks that the judge of prompts fails for a program that does nothing.
func (h *harness) idlePrompt(ctx context.Context) error {
	idle := &harness{acode: "/bin/true"}
	t, err := idle.newPrompt("control", spot{})
	if err == nil {
		err = t.run(ctx)
	}
	if err == nil && !t.Bad() {
		err = errors.New("prompts: /bin/true passes")
	}
	return errors.Join(err, os.RemoveAll(t.Root))
}

// promptSeries is a kind of kills.
type promptSeries struct {
	name  string
	spots []spot
}

// apart is how many durable calls of acode lie between two spots of its series.
const apart = 24

// prompts kills sessions of prompts in all ways. n limits the spots of each series; 0
// means all.
func (h *harness) prompts(ctx context.Context, n int) ([]row, error) {
	all, err := h.lookAtPrompts(ctx)
	if err = errors.Join(err, h.idlePrompt(ctx)); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(h.seed, 31))
	var rows []row
	for _, sr := range all {
		spots := bothVictims(sr.spots)
		fmt.Fprintf(h.log, "%s: %d spots\n", sr.name, len(spots))
		rng.Shuffle(len(spots), func(i, j int) { spots[i], spots[j] = spots[j], spots[i] })
		if n > 0 {
			spots = spots[:min(n, len(spots))]
		}
		r, err := h.killPrompts(ctx, sr.name, spots)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// bothVictims kills acode at every spot, and at every second one its supervisor too.
func bothVictims(spots []spot) []spot {
	for i := range spots {
		spots[i].victim = crash.VictimGroup
		if i/2%2 == 1 { // pairs of spots are before and after one call
			spots[i].victim = crash.VictimBoth
		}
	}
	return spots
}

// killPrompts executes a session for each spot. In every third one, resumes are killed
// too.
func (h *harness) killPrompts(ctx context.Context, name string, spots []spot) (row, error) {
	r := row{name: name}
	var mu sync.Mutex
	missed := 0
	err := h.each(ctx, 0, len(spots)-1, func(ctx context.Context, i int) error {
		t, err := h.newPrompt(fmt.Sprintf("prompt-%d", i), spots[i])
		if err != nil {
			return err
		}
		if rng := rand.New(rand.NewPCG(h.seed, uint64(i))); i%3 == 2 {
			for range 1 + rng.IntN(2) {
				t.more = append(t.more, crash.Point{Role: crash.RoleAcode, N: 1 + rng.IntN(120), When: crash.Before, Victim: spots[i].victim})
			}
		}
		if err := t.judged(ctx); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		r.add(t.Outcome)
		if !t.struck {
			missed++
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if t.Bad() {
			h.describe(fmt.Sprintf("%s\n  %s\n  %s\n  kept: %s", name, t.Outcome, t.at, t.Root))
		}
		if r.points%100 == 0 || r.points == len(spots) {
			fmt.Fprintf(h.log, "%s: %d of %d spots, %d kills, %d breaches; %d spots were not reached\n", name, r.points, len(spots), r.kills, r.breaches(), missed)
		}
		return nil
	})
	return r, err
}

// promptJudge kills sessions of prompts at the spots that match until one goes wrong.
func promptJudge(name string, spots func() []spot, match string) judge {
	return judge{name, func(ctx context.Context, h *harness) (string, error) {
		for _, s := range spots() {
			if !strings.Contains(s.String(), match) {
				continue
			}
			s.victim = crash.VictimGroup
			t, err := h.newPrompt("bug", s)
			if err == nil {
				err = t.run(ctx)
			}
			if err = errors.Join(err, os.RemoveAll(t.Root)); err != nil || t.Bad() {
				return t.String(), err
			}
		}
		return "", nil
	}}
}
