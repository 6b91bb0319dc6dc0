package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
)

const (
	fewSteps  = 10
	moreSteps = 1000
	wholeRuns = 15
)

// compareWhole runs both programs from start to end, with few steps and with 1,000 more,
// in turn. It returns the cost of each of the 1,000 steps: the difference of two
// processes' wall times. A step of acode reads a file; a step of DBOS does nothing.
func compareWhole(ctx context.Context, dir string) (ours, theirs []time.Duration, err error) {
	ws := filepath.Join(dir, "whole")
	if err := os.MkdirAll(ws, 0o755); err != nil {
		return nil, nil, err
	}
	if err := os.WriteFile(filepath.Join(ws, "a"), []byte(result(0)), 0o644); err != nil {
		return nil, nil, err
	}
	acode := func(round, steps int) (time.Duration, error) {
		plan := filepath.Join(dir, fmt.Sprintf("whole-%d.yml", steps))
		if err := readPlan(plan, steps); err != nil {
			return 0, err
		}
		cmd := exec.CommandContext(ctx, filepath.Join(dir, "acode"), "run", "-q", "--plan", plan)
		cmd.Dir = ws
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "ACODE_HOME=" + filepath.Join(dir, fmt.Sprintf("home-%d-%d", round, steps))}
		return timed(cmd)
	}
	peer := func(round, steps int) (time.Duration, error) {
		home := filepath.Join(dir, fmt.Sprintf("peer-%d-%d", round, steps))
		if err := os.Mkdir(home, 0o755); err != nil {
			return 0, err
		}
		return timed(exec.CommandContext(ctx, filepath.Join(dir, "peers"), wholeSwitch, home, strconv.Itoa(steps)))
	}
	// After this time no file counts as just touched.
	<-time.After(100 * time.Millisecond)
	for round := range wholeRuns {
		a, err := difference(acode, round)
		if err != nil {
			return nil, nil, err
		}
		b, err := difference(peer, round)
		if err != nil {
			return nil, nil, err
		}
		ours, theirs = append(ours, a), append(theirs, b)
	}
	return ours, theirs, nil
}

func difference(run func(round, steps int) (time.Duration, error), round int) (time.Duration, error) {
	few, err := run(round, fewSteps)
	if err != nil {
		return 0, err
	}
	many, err := run(round, fewSteps+moreSteps)
	return many - few, err
}

func timed(cmd *exec.Cmd) (time.Duration, error) {
	start := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%v: %w: %s", cmd.Args, err, out)
	}
	return time.Since(start), nil
}

func readPlan(path string, steps int) error {
	type object map[string]any
	var all []object
	for i := range steps {
		all = append(all, object{"id": stepID(i).Step, "read": object{"path": "a"}})
	}
	plan, err := json.Marshal(object{"version": 1, "task": "bench", "tasks": []object{{"id": "t", "steps": all}}})
	return errors.Join(err, os.WriteFile(path, plan, 0o644))
}

// wholePeer runs a workflow of steps that do nothing, from start to end.
func wholePeer(ctx context.Context, dir, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	c, _, err := openPeer(ctx, dir)
	if err != nil {
		return err
	}
	workflow := func(w dbos.Context, _ string) (string, error) {
		for i := range n {
			if _, err := dbos.RunAsStep(w, func(context.Context) (string, error) { return "", nil }, dbos.WithStepName(fmt.Sprintf("s%05d", i))); err != nil {
				return "", err
			}
		}
		return "done", nil
	}
	dbos.RegisterWorkflow(c, workflow, dbos.WithWorkflowName("whole"))
	if err := dbos.Launch(c); err != nil {
		return err
	}
	h, err := dbos.RunWorkflow(c, workflow, "")
	if err != nil {
		return err
	}
	if _, err = h.GetResult(); err != nil {
		return err
	}
	// The process exits without waiting for its pollers, because the shutdown is no part
	// of a step.
	os.Exit(0)
	return nil
}
