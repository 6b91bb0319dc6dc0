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
	"time"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/acode-dev/acode/internal/scripted"
)

// newAgent returns one script with its own directory.
func (h *harness) newAgent(name string, kills []kill, forget time.Duration) *agentTrial {
	return &agentTrial{acode: h.acode, root: filepath.Join(h.scratch, name), kills: kills, forget: forget, now: h.now}
}

// judged executes the script. Its directory stays after a breach.
func (t *agentTrial) judged(ctx context.Context) error {
	if err := t.run(ctx); err != nil {
		return fmt.Errorf("%s: %w", describe(t.kills), err)
	}
	if t.Bad() {
		return nil
	}
	return os.RemoveAll(t.root)
}

// lookAtAgent executes the script undisturbed and returns its calls and the bytes of
// its longest answer.
func (h *harness) lookAtAgent(ctx context.Context) (s survey, longest int, err error) {
	s = survey{map[string][]crash.Call{}}
	t := h.newAgent("agent-survey", nil, 0)
	t.record = func(c crash.Call) {
		if c.N > 0 {
			s[0][c.Role] = append(s[0][c.Role], c)
		}
	}
	err = t.run(ctx)
	if err == nil && (t.Bad() || t.Killed > 0) {
		err = fmt.Errorf("undisturbed script: %s\n%s", t.Outcome, t.said.String())
	}
	if err == nil {
		longest, err = scripted.Longest(t.client())
	}
	for _, list := range s[0] {
		slices.SortFunc(list, func(a, b crash.Call) int { return a.N - b.N })
	}
	return s, longest, errors.Join(err, os.RemoveAll(t.root))
}

// idleAgent checks that the judge of agents fails for a program that does nothing.
func (h *harness) idleAgent(ctx context.Context) error {
	t := h.newAgent("agent-control", nil, 0)
	t.acode = "/bin/true"
	err := t.run(ctx)
	if err == nil && !t.Bad() {
		err = errors.New("an agent: /bin/true passes")
	}
	return errors.Join(err, os.RemoveAll(t.root))
}

const (
	// agentPoints is the number of points of each series of an agent, unless all are
	// wanted.
	agentPoints = 200
	// cutsApart is less than the number of kills of a script whose answers are cut, so
	// that each byte is met in several answers.
	cutsApart = 25
	// cutsOfAgent is the number of points for each of these scripts.
	cutsOfAgent = 5
)

// agents kills an agent, its server and its supervisor in all ways. n limits the points
// of each series; 0 means agentPoints, or with all all of them.
func (h *harness) agents(ctx context.Context, n int, all bool) ([]row, error) {
	s, longest, err := h.lookAtAgent(ctx)
	if err = errors.Join(err, h.idleAgent(ctx)); err != nil {
		return nil, err
	}
	fmt.Fprintf(h.log, "undisturbed: %d calls of the agent, %d of its server, %d of the supervisor, %d of commands; answers of up to %d bytes\n",
		s.total(crash.RoleAcode), s.total(roleServer), s.total(crash.RoleSupervisor), s.total(crash.RoleCommand), longest)
	switch {
	case all:
		n = 0
	case n == 0:
		n = agentPoints
	}
	rng := rand.New(rand.NewPCG(h.seed, 21))
	var rows []row
	for i, sr := range agentSeries() {
		every := s.points(sr, i%2, all, rng)
		points := sample(every, n, rng)
		fmt.Fprintf(h.log, "%s: %d of %d points\n", sr.name, len(points), len(every))
		r, err := h.agentSeries(ctx, sr.name, len(points), func(i int) *agentTrial {
			return h.newAgent(fmt.Sprintf("agent-%s-%d", sr.victim, i), sr.again(points[i], rng), time.Duration(i%2)*agentForgets)
		})
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	scripts := 1 + longest/cutsApart
	if n > 0 {
		scripts = min(scripts, 1+n/cutsOfAgent)
	}
	r, err := h.agentSeries(ctx, "an agent in each answer", scripts, func(i int) *agentTrial {
		t := h.newAgent(fmt.Sprintf("agent-cut-%d", i), nil, 0)
		t.longest, t.cut = longest, i*cutsApart
		return t
	})
	return append(rows, r), err
}

// again adds up to two kills of later processes to a first one.
func (sr series) again(first kill, rng *rand.Rand) []kill {
	kills := []kill{first}
	for i := range rng.IntN(3) {
		role := sr.roles[rng.IntN(len(sr.roles))]
		kills = append(kills, kill{process: 1 + i, point: crash.Point{Role: role, N: 1 + rng.IntN(60), When: []crash.When{crash.Before, crash.After}[rng.IntN(2)], Victim: sr.victim}})
	}
	return kills
}

// agentSeries executes n scripts, which draw returns. draw is called by one goroutine
// at a time.
func (h *harness) agentSeries(ctx context.Context, name string, n int, draw func(i int) *agentTrial) (row, error) {
	r := row{name: name}
	var mu sync.Mutex
	recovered, told := 0, 0
	cuts := map[string]bool{}
	err := h.each(ctx, 0, n-1, func(ctx context.Context, i int) error {
		mu.Lock()
		t := draw(i)
		mu.Unlock()
		if err := t.judged(ctx); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		r.add(t.Outcome)
		recovered, told = recovered+t.recovered, told+t.told
		for _, n := range t.cuts {
			cuts[n] = true
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if t.Bad() {
			h.describe(fmt.Sprintf("%s\n  %s\n  %s cut %d\n  kept: %s", name, t.Outcome, describe(t.kills), t.cut, t.root))
		}
		if r.points%100 == 0 || r.points == n {
			fmt.Fprintf(h.log, "%s: %d of %d points, %d kills, %d breaches; %d answers recovered, %d told\n", name, r.points, n, r.kills, r.breaches(), recovered, told)
		}
		return nil
	})
	if len(cuts) > 0 {
		fmt.Fprintf(h.log, "%s: killed after %d different numbers of bytes\n", name, len(cuts))
	}
	return r, err
}
