package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"

	"github.com/acode-dev/acode/internal/disk"
)

// allDisks means every file system.
const allDisks = "all"

// onDisks cuts the power of n sessions on one file system, or on each, and breaks the
// disks of other sessions. It reports a file system that cannot be mounted here.
func (h *harness) onDisks(ctx context.Context, name string, n int) ([]row, error) {
	var kinds []disk.Kind
	known := false
	for _, k := range disk.Kinds() {
		if name != allDisks && name != k.Name {
			continue
		}
		known = true
		if err := k.Possible(); err != nil {
			fmt.Fprintf(h.log, "disks with %s are left out: %v\n", k.Name, err)
			continue
		}
		kinds = append(kinds, k)
	}
	if !known {
		return nil, fmt.Errorf("-disk %s: no file system that can be cut", name)
	}
	rows := make([]row, 2*len(kinds))
	err := h.each(ctx, 0, len(kinds)-1, func(ctx context.Context, i int) error {
		k, dir := kinds[i], filepath.Join(h.scratch, "disk-"+kinds[i].Name)
		if _, err := h.quiet("/bin/true", "control").lived(ctx, k, dir, true); err == nil {
			return fmt.Errorf("disks with %s: /bin/true passes", k.Name)
		}
		told := func(r *row, name string) func(*life, *trial) error {
			r.name = name + k.Name
			return func(l *life, t *trial) error {
				r.add(t.Outcome)
				h.tellDisk(l, *r, t)
				return nil
			}
		}
		return errors.Join(
			h.onDisk(ctx, k, dir, n, told(&rows[2*i], "the machine, on ")),
			h.onBroken(ctx, k, dir, n/brokenShare, told(&rows[2*i+1], "a disk that broke, with ")))
	})
	return rows, err
}

// brokenShare divides the number of sessions to get the number of sessions whose disk
// breaks.
const brokenShare = 3

// onDisk cuts the power of n sessions on the file system and passes each life to done.
// The sessions execute the plan with every kind of step, half of them while the store is
// created, and random plans.
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
			n := 1 + i/3
			p, _ := h.drawn(n)
			if l, err = h.with(p, "").lived(ctx, k, dir, true); err != nil {
				return fmt.Errorf("random plan %d of seed %d: %w", n, h.seed, err)
			}
		}
		if err := l.cutAgain(ctx, rand.New(rand.NewPCG(h.seed, 3<<32+uint64(i))), done); err != nil {
			return fmt.Errorf("%s, session %d of seed %d: %w", k.Name, i, h.seed, err)
		}
	}
	return nil
}

// onBroken breaks the disks of n sessions, and passes each life on the replacement disk
// to done.
func (h *harness) onBroken(ctx context.Context, k disk.Kind, dir string, n int, done func(*life, *trial) error) error {
	whole, err := h.lived(ctx, k, dir, true)
	if err != nil {
		return err
	}
	// draws is the number of draws for each disk that breaks.
	const draws = 20
	broke := 0
	for i := 0; i < draws*n && broke < n; i++ {
		l, t, err := whole.breakDown(ctx, rand.New(rand.NewPCG(h.seed, 4<<32+uint64(i))))
		if err == nil && t != nil {
			broke++
			err = done(l, t)
		}
		if err != nil {
			return err
		}
	}
	if broke < n {
		return fmt.Errorf("disks with %s: %d broke under a session, want %d", k.Name, broke, n)
	}
	return nil
}

// tellDisk prints the errors after a power cut, and the progress of the series.
func (h *harness) tellDisk(l *life, r row, t *trial) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.Bad() {
		h.describe(fmt.Sprintf("%s, time %d in a row, after %d writes\n  %s\n  kept: %s", r.name, l.cuts, l.after, t.Outcome, l.traces))
	}
	if r.points%50 == 0 {
		fmt.Fprintf(h.log, "%s: %d, %d breaches\n", r.name, r.points, r.breaches())
	}
}
