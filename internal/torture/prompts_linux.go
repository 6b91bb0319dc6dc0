package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/acode-dev/acode/internal/torture/scene"
)

// spot is a place at which acode is killed: one call that a test of calls recognises.
// The test is new for each process, because it may count.
type spot struct {
	name   string
	role   string
	when   crash.When
	victim crash.Victim
	match  func() func(crash.Call) bool
	// arrived is the text of the reply that must not be lost: all that had arrived.
	arrived string
	talk    string
	// surely says that every session reaches the spot.
	surely bool
}

// String returns the kill for reports.
func (s spot) String() string { return fmt.Sprintf("%s %s, killing %s", s.when, s.name, s.victim) }

// promptTrial is a session that a model plans and works on, from its request to its end.
type promptTrial struct {
	scene.Outcome
	scene.Place
	at spot
	// more are kills of the processes after the first kill.
	more   []crash.Point
	record func(crash.Call)
	tracer *crash.Tracer
	said   strings.Builder
	// asked has the number of requests before each kill.
	asked []int
	// struck says that the kill came at its spot.
	struck bool
	// onlyKill ends the trial at the kill, without a judgement.
	onlyKill bool
	// limits is a limit of the configuration, which ends the trial without a judgement.
	limits string
	// pause is how long the model waits after each piece, in milliseconds.
	pause int
}

// exitLimit is the status of a session that has reached a limit.
const exitLimit = 21

func (t *promptTrial) log() string { return filepath.Join(t.Root, "requests") }

// prepare makes the workspace, the script of the model and the configuration.
func (t *promptTrial) prepare() error {
	if err := errors.Join(os.RemoveAll(t.Root), t.Place.Prepare("")); err != nil {
		return err
	}
	var script strings.Builder
	for _, r := range promptScript() {
		type call struct {
			ID        string          `json:"id"`
			Tool      string          `json:"tool"`
			Arguments json.RawMessage `json:"arguments"`
		}
		line := struct {
			For   string `json:"for"`
			Text  string `json:"text"`
			Calls []call `json:"calls"`
			Pause int    `json:"pause_ms"`
			Usage *usage `json:"usage,omitempty"`
		}{For: r.talk, Text: r.text, Pause: t.pause}
		if t.limits != "" { // less than acode estimates
			line.Usage = &usage{Input: 1250}
		}
		for i, c := range r.calls {
			line.Calls = append(line.Calls, call{fmt.Sprintf("id-%d", i+1), c.tool, json.RawMessage(c.args)})
		}
		raw, err := json.Marshal(line)
		if err != nil {
			return err
		}
		script.Write(append(raw, '\n'))
	}
	at := filepath.Join(t.Root, "script")
	config := filepath.Join(t.Root, "user", "acode", "config.yml")
	text := fmt.Sprintf("model: m\napprovals: {command: allow, delete: ask, git: deny}\nlimits: {%s}\nmodels:\n  m: {provider: script, script: %q, log: %q, price: {input: 3000, output: 0}}\n", t.limits, at, t.log())
	return errors.Join(os.WriteFile(at, []byte(script.String()), 0o600), os.MkdirAll(filepath.Dir(config), 0o755), os.WriteFile(config, []byte(text), 0o600))
}

// usage is what the model says that a request has used.
type usage struct {
	Input int64 `json:"input"`
}

// run carries the session to its end.
func (t *promptTrial) run(ctx context.Context) error {
	if err := t.prepare(); err != nil {
		return err
	}
	t.tracer = crash.NewTracer()
	defer t.tracer.Close()
	start := []string{"run", planTalk}
	args := start
	for range maxProcesses {
		exit, err := t.process(ctx, args)
		if err != nil || t.Stuck != "" {
			return errors.Join(err, t.finish(ctx))
		}
		if t.onlyKill && t.struck || t.limits != "" && exit == exitLimit {
			_, err := t.tracer.Wait(ctx)
			return err
		}
		states, err := t.Query(ctx, "SELECT state FROM sessions")
		if err != nil {
			return err
		}
		switch states = strings.TrimSpace(states); {
		case states == "completed":
			return t.finish(ctx)
		case states == "", strings.Contains(states, "no such table"): // killed before the session was made
			args = start
		default:
			args = []string{"resume"}
		}
		switch exit {
		case scene.ExitKilled:
		case scene.ExitApproval:
			err = t.answers(ctx)
		default:
			t.Stuck = fmt.Sprintf("exit %d: %s", exit, lastLines(t.said.String()))
		}
		if err != nil || t.Stuck != "" {
			return errors.Join(err, t.finish(ctx))
		}
	}
	t.Stuck = fmt.Sprintf("not at its end after %d processes: %s", maxProcesses, lastLines(t.said.String()))
	return t.finish(ctx)
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-6):], " | ")
}

// process runs acode once, and kills it at its spot.
func (t *promptTrial) process(ctx context.Context, args []string) (exit int, err error) {
	var out bytes.Buffer
	spec := crash.Spec{Argv: append([]string{t.Acode}, args...), Env: t.Environ(), Dir: t.Workspace(), Roots: []string{t.Root}, Stdout: &out, Stderr: &out, Record: t.record}
	switch {
	case !t.struck && t.at.match != nil:
		spec.At, spec.Counts = crash.Point{Role: t.at.role, N: 1, When: t.at.when, Victim: t.at.victim}, t.at.match()
	case t.struck && len(t.more) > 0:
		spec.At, t.more = t.more[0], t.more[1:]
	}
	limited, cancel := context.WithTimeout(ctx, scene.ProcessLimit)
	defer cancel()
	res, err := t.tracer.Run(limited, spec)
	t.said.Write(out.Bytes())
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		t.Stuck = fmt.Sprintf("acode %s took longer than %v", strings.Join(args, " "), scene.ProcessLimit)
		return 0, nil
	case err != nil && strings.Contains(err.Error(), "launcher ended early"): // the call was that of a survivor
		res, err = crash.Result{ExitCode: scene.ExitKilled, Struck: true}, nil
	case err != nil:
		return 0, fmt.Errorf("trace acode %s: %w", args[0], err)
	}
	if !res.Struck {
		return res.ExitCode, t.compare(ctx)
	}
	t.Killed++
	if v := spec.At.Victim; v == crash.VictimBoth {
		t.Excused += len(promptTalks()) - 1 // each task has at most one command in progress
	}
	requests, err := t.requests()
	t.asked = append(t.asked, len(requests))
	t.struck = true
	return res.ExitCode, errors.Join(err, t.compare(ctx))
}

// openQuestions lists the questions without an answer, each as the name of its call.
const openQuestions = `SELECT DISTINCT json_extract(q.payload, '$.task') || '/' || json_extract(q.payload, '$.step') || '/' || json_extract(q.payload, '$.op') FROM events q WHERE q.type = 'ApprovalRequested' AND NOT EXISTS
	(SELECT 1 FROM events a WHERE a.type IN ('ApprovalGranted', 'ApprovalDenied') AND json_extract(a.payload, '$.digest') = json_extract(q.payload, '$.digest') AND a.pos > q.pos)`

// answers answers the open questions as the script says.
func (t *promptTrial) answers(ctx context.Context) error {
	out, err := t.Query(ctx, openQuestions)
	if err != nil {
		return err
	}
	id, err := t.Query(ctx, "SELECT id FROM sessions")
	if err != nil {
		return err
	}
	names := strings.Fields(out)
	if len(names) == 0 {
		t.Stuck = "exit 10 without a question: " + lastLines(t.said.String())
	}
	for _, name := range names {
		args := []string{"approve", strings.TrimSpace(id), name}
		if c, ok := promptCall(name); !ok || c.person == "" {
			t.Wrong = append(t.Wrong, "a question about "+name)
		} else if c.person == "no" {
			args = []string{"deny", strings.TrimSpace(id), name, "--reason", "keep the shop"}
		}
		cmd := t.Program(ctx, append([]string{t.Acode}, args...))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Stuck = fmt.Sprintf("acode %s: %v: %s", strings.Join(args, " "), err, out)
			return nil
		}
	}
	return nil
}

// promptTalks returns the talks of the script.
func promptTalks() (all []string) {
	for _, r := range promptScript() {
		if !slices.Contains(all, r.talk) {
			all = append(all, r.talk)
		}
	}
	return all
}

// promptReply returns a reply by its place in its talk, from 1.
func promptReply(talk string, turn int) (wantedReply, bool) {
	for _, r := range promptScript() {
		if r.talk == talk {
			if turn--; turn == 0 {
				return r, true
			}
		}
	}
	return wantedReply{}, false
}

// promptCall returns the call that acode names TASK/STEP/cTURN.N.
func promptCall(name string) (wantedCall, bool) {
	var turn, n int
	task, op, _ := strings.Cut(name, "/")
	_, op, _ = strings.Cut(op, "/")
	if _, err := fmt.Sscanf(op, "c%d.%d", &turn, &n); err != nil {
		return wantedCall{}, false
	}
	talk := "Part " + task
	if task == "plan" {
		talk = planTalk
	}
	r, ok := promptReply(talk, turn)
	if !ok || n < 1 || n > len(r.calls) {
		return wantedCall{}, false
	}
	return r.calls[n-1], true
}
