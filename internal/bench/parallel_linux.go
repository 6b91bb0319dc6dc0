package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/acode-dev/acode/internal/crash"
)

const (
	sleepers  = 3
	sleepRuns = 5
	branches  = 4
	// fewQuick is the number of steps of each branch.
	fewQuick = 2
	// manyQuick is the same for the longer plan. Both include the cost of starting and
	// ending.
	manyQuick  = 22
	quickStep  = "read: {path: r}"
	sleepStep  = "run: sleep 0.5"
	inParallel = "--max-parallel"
)

// parallel compares tasks that run at once with the same tasks one after another. It also
// counts the fsyncs of branches that share their commits.
func (b *bench) parallel(ctx context.Context) error {
	s, err := b.newSite("parallel-sleep", nil)
	if err != nil {
		return err
	}
	if err := s.writeTasks(sleepers, 1, sleepStep); err != nil {
		return err
	}
	var serial, beside sample
	for range sleepRuns {
		if err := serial.timed(s.command(ctx, "run", s.plan()).Run); err != nil {
			return err
		}
		if err := beside.timed(s.command(ctx, "run", inParallel, fmt.Sprint(sleepers), s.plan()).Run); err != nil {
			return err
		}
	}
	b.report.ratio("three sleeping commands at once / one after another", beside, serial, 0.4)
	return b.shared(ctx)
}

// shared counts, under the tracer, the syncs of the store per step of four branches that
// run at once.
func (b *bench) shared(ctx context.Context) error {
	tracer := crash.NewTracer()
	defer tracer.Close()
	var counts [2]syncs
	for i, n := range []int{fewQuick, manyQuick} {
		s, err := b.newSite(fmt.Sprintf("parallel-syncs-%d", i), map[string]string{"r": "x"})
		if err != nil {
			return err
		}
		if err := s.writeTasks(branches, n, quickStep); err != nil {
			return err
		}
		if counts[i], err = s.count(ctx, tracer, 0, "run", inParallel, fmt.Sprint(branches), s.plan()); err != nil {
			return err
		}
	}
	steps := branches * (manyQuick - fewQuick)
	b.report.count("fsyncs of the store per step: four branches of reads", float64(counts[1].minus(counts[0]).store)/float64(steps), 0.6, "counted")
	return nil
}

// writeTasks writes a plan of tasks whose steps are all equal.
func (s site) writeTasks(tasks, steps int, step string) error {
	var b strings.Builder
	b.WriteString("version: 1\ntask: Bench\ntasks:\n")
	for i := range tasks {
		fmt.Fprintf(&b, "  - id: t%d\n    steps:\n%s", i, strings.Repeat(fmt.Sprintf("      - {%s}\n", step), steps))
	}
	return os.WriteFile(s.plan(), []byte(b.String()), 0o644)
}
