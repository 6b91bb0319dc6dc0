package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
	"github.com/dbos-inc/dbos-transact-golang/dbos"
)

// compareOperations does one durable operation of each, in turn, in one process. The
// operation of acode consists of the store calls of its engine for a step. It reads
// requests, commits receipt, checkpoint and next intent, and reads the fence.
func compareOperations(ctx context.Context, dir string) (ours, theirs []time.Duration, err error) {
	st, err := local.Open(ctx, local.Options{Home: filepath.Join(dir, "operations"), Now: time.Now, Version: "bench"})
	if err != nil {
		return nil, nil, err
	}
	defer st.Close()
	w, err := begin(ctx, st)
	if err != nil {
		return nil, nil, err
	}
	c, _, err := openPeer(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	workflow := func(d dbos.Context, _ string) (string, error) {
		for i := range operations {
			start := time.Now()
			if err := operation(ctx, w, i); err != nil {
				return "", err
			}
			between := time.Now()
			if _, err := dbos.RunAsStep(d, func(context.Context) (string, error) { return result(i), nil }); err != nil {
				return "", err
			}
			ours, theirs = append(ours, between.Sub(start)), append(theirs, time.Since(between))
		}
		return "done", nil
	}
	dbos.RegisterWorkflow(c, workflow, dbos.WithWorkflowName("operations"))
	if err := dbos.Launch(c); err != nil {
		return nil, nil, err
	}
	h, err := dbos.RunWorkflow(c, workflow, "")
	if err != nil {
		return nil, nil, err
	}
	_, err = h.GetResult()
	return ours, theirs, errors.Join(err, dbos.Shutdown(c, time.Second))
}

func begin(ctx context.Context, st *local.Store) (*local.Writer, error) {
	p := &session.Plan{Version: 1, Task: "bench", OnFailure: session.FailurePauses, Tasks: []session.Task{{ID: "t"}}}
	for i := range operations + 1 {
		p.Tasks[0].Steps = append(p.Tasks[0].Steps, session.Step{ID: stepID(i).Step, Kind: session.KindRead, Read: &session.Read{Path: "a"}})
	}
	id, err := st.NewID()
	if err != nil {
		return nil, err
	}
	w, err := st.Create(ctx, local.NewSession{ID: id, Task: "bench", Workspace: "/workspace", Plan: p})
	if err != nil {
		return nil, err
	}
	_, err = w.Append(ctx,
		session.Draft{Type: session.ExecutionAcquired, Data: session.ExecutionAcquiredData{Device: st.Device(), Host: "h", PID: 1, Workspace: "/workspace"}},
		session.Draft{Type: session.StateChanged, Data: session.StateChangedData{From: session.Planning, To: session.Executing}},
		intent(w, 0))
	return w, err
}

func stepID(i int) session.StepID { return session.StepID{Task: "t", Step: fmt.Sprintf("s%05d", i)} }

func key(w *local.Writer, i int) string {
	return session.Key{Session: w.Session().ID, Step: stepID(i), Operation: session.OpMain, Attempt: 1}.String()
}

func intent(w *local.Writer, i int) session.Draft {
	return session.Draft{Type: session.StepStarted, Data: session.StepStartedData{StepID: stepID(i), Kind: session.KindRead, Key: key(w, i), Attempt: 1, Digest: strings.Repeat("0", 64)}}
}

func operation(ctx context.Context, w *local.Writer, i int) error {
	if _, err := w.Requests(ctx); err != nil {
		return err
	}
	receipt := session.Draft{Type: session.StepCompleted, Data: session.StepCompletedData{
		StepID: stepID(i), Key: key(w, i), Attempt: 1, Matches: &session.Output{Text: result(i), Bytes: 1000}}}
	_, err := w.Append(ctx, receipt, intent(w, i+1))
	return err
}

// compareResumes kills both after 50 of 100 steps and resumes them repeatedly.
func compareResumes(ctx context.Context, dir string) (ours, theirs []time.Duration, err error) {
	ws, peer := filepath.Join(dir, "workspace"), filepath.Join(dir, "peer")
	if err := errors.Join(os.MkdirAll(ws, 0o755), os.MkdirAll(peer, 0o755), makePlan(dir, ws)); err != nil {
		return nil, nil, err
	}
	run := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, filepath.Join(dir, "acode"), args...)
		cmd.Dir, cmd.Env = ws, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "ACODE_HOME=" + filepath.Join(dir, "home")}
		return cmd
	}
	// After this time no file counts as just touched.
	<-time.After(100 * time.Millisecond)
	if _, err := until(run("run", "--json", "--plan", filepath.Join(dir, "plan.yml")), `"type":"started"`, stepsDone+1); err != nil {
		return nil, nil, err
	}
	dbos := filepath.Join(dir, "peers")
	if out, err := exec.CommandContext(ctx, dbos, prepareSwitch, peer).CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("prepare: %w: %s", err, out)
	}
	for range resumes {
		a, err := until(run("resume", "--json"), `"type":"started"`, 1)
		if err != nil {
			return nil, nil, err
		}
		b, err := until(exec.CommandContext(ctx, dbos, resumeSwitch, peer), "first", 1)
		if err != nil {
			return nil, nil, err
		}
		ours, theirs = append(ours, a), append(theirs, b)
	}
	return ours, theirs, nil
}

// makePlan writes a plan whose step in progress takes long enough for a kill.
func makePlan(dir, ws string) error {
	type step map[string]any
	var all []step
	for i := range stepsOfPlan {
		name := fmt.Sprintf("r%d", i)
		if i == stepsDone {
			name = "big"
		}
		if err := os.WriteFile(filepath.Join(ws, name), []byte(result(i)), 0o644); err != nil {
			return err
		}
		all = append(all, step{"id": stepID(i).Step, "read": step{"path": name}})
	}
	plan, err := json.Marshal(step{"version": 1, "task": "bench", "tasks": []step{{"id": "t", "steps": all}}})
	return errors.Join(err, os.Truncate(filepath.Join(ws, "big"), 1<<29), os.WriteFile(filepath.Join(dir, "plan.yml"), plan, 0o644))
}

// until runs a program, kills it at the nth line that holds text, and returns the time
// until then.
func until(cmd *exec.Cmd, text string, n int) (time.Duration, error) {
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadBytes('\n')
		if bytes.Contains(line, []byte(text)) {
			n--
		}
		if n == 0 {
			took := time.Since(start)
			// The program may have ended by itself.
			_ = cmd.Process.Kill()
			// The program was killed on purpose, so its status does not matter.
			_ = cmd.Wait()
			return took, nil
		}
		if err != nil {
			return 0, fmt.Errorf("%s ended early: %w: %s", cmd.Path, errors.Join(err, cmd.Wait()), said.Bytes())
		}
	}
}
