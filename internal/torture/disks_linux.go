package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"

	"github.com/acode-dev/acode/internal/disk"
)

// allDisks stands for every file system.
const allDisks = "all"

// onDisks cuts the power of n sessions on a file system, or on each. Where one cannot be mounted here, it
// says so.
func (h *harness) onDisks(ctx context.Context, name string, n int) ([]row, error) {
	var kinds []disk.Kind
	var rows []row
	known := false
	for _, k := range disk.Kinds() {
		if name != allDisks && name != k.Name {
			continue
		}
		known = true
		if err := k.Possible(); err != nil {
			fmt.Fprintf(h.log, "power cuts on %s are left out: %v\n", k.Name, err)
			continue
		}
		kinds, rows = append(kinds, k), append(rows, row{name: "the machine, on " + k.Name})
	}
	if !known {
		return nil, fmt.Errorf("-disk %s: no file system that can be cut", name)
	}
	err := h.each(ctx, 0, len(kinds)-1, func(ctx context.Context, i int) error {
		dir := filepath.Join(h.scratch, "disk-"+kinds[i].Name)
		if _, err := h.quiet("/bin/true", "control").lived(ctx, kinds[i], dir, true); err == nil {
			return fmt.Errorf("power cuts on %s: /bin/true passes", kinds[i].Name)
		}
		return h.onDisk(ctx, kinds[i], dir, n, func(l *life, t *trial) error {
			rows[i].add(t.outcome)
			h.tellDisk(l, rows[i], t)
			return nil
		})
	})
	return rows, err
}

// onDisk cuts the power of n sessions on the file system and gives each of their lives to done: of the plan
// with every kind of step, half of them with a store in the making, and of plans drawn at random.
func (h *harness) onDisk(ctx context.Context, k disk.Kind, dir string, n int, done func(*life, *trial) error) error {
	warm, err := h.lived(ctx, k, dir, true)
	if err != nil {
		return err
	}
	cold, err := h.lived(ctx, k, dir, false)
	if err != nil {
		return err
	}
	for i := range n {
		l := []*life{warm, cold, nil}[i%3]
		if l == nil {
			p, _ := h.drawn(i)
			if l, err = h.with(p, "").lived(ctx, k, dir, true); err != nil {
				return fmt.Errorf("random plan %d of seed %d: %w", i, h.seed, err)
			}
		}
		if err := l.cutAgain(ctx, rand.New(rand.NewPCG(h.seed, 3<<32+uint64(i))), done); err != nil {
			return fmt.Errorf("%s, session %d of seed %d: %w", k.Name, i, h.seed, err)
		}
	}
	return nil
}

// tellDisk says what was wrong after a power cut, and how far the series is.
func (h *harness) tellDisk(l *life, r row, t *trial) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.bad() {
		h.describe(fmt.Sprintf("%s, %d power cuts in a row, the last one after %d writes\n  %s\n  kept: %s", r.name, l.cuts, l.after, t.outcome, l.traces))
	}
	if r.points%50 == 0 {
		fmt.Fprintf(h.log, "power cuts on %s: %d, %d breaches\n", l.kind.Name, r.points, r.breaches())
	}
}
