package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/acode-dev/acode/internal/scripted"
	"github.com/acode-dev/acode/internal/torture/scene"
)

// roleServer is the server of tools, which the agent starts.
const roleServer = "server"

// agentRole distinguishes the agent, its server, the supervisor and commands.
func agentRole(p crash.Process) string {
	if !p.Root && len(p.Argv) > 1 && p.Argv[1] == "mcp" {
		return roleServer
	}
	if role := crash.DefaultRole(p); role != crash.RoleOther || p.Parent != roleServer {
		return role
	}
	return roleServer // between fork and exec
}

// agentSeries returns the kinds of kills of an agent's script.
func agentSeries() []series {
	return []series{
		{"an agent's server", crash.VictimSelf, []string{roleServer}},
		{"an agent with its server", crash.VictimGroup, []string{crash.RoleAcode, roleServer}},
		{"an agent alone", crash.VictimSelf, []string{crash.RoleAcode}},
		{"the supervisor of an agent's commands", crash.VictimSupervisor, []string{crash.RoleSupervisor, crash.RoleCommand}},
		{"an agent with everything", crash.VictimBoth, []string{roleServer, crash.RoleSupervisor, crash.RoleCommand}},
	}
}

// Times of the server in a trial. An agent forgets at most half of the time after which
// an answer counts as seen.
const (
	agentSettle   = 300 * time.Millisecond
	agentForgets  = 120 * time.Millisecond
	agentPatience = 400 * time.Millisecond
)

// agentTrial is one script of an agent, from its first call to the end.
type agentTrial struct {
	scene.Outcome
	acode, root string
	kills       []kill
	// longest is the number of bytes of the longest answer. If it is not 0, each process of
	// the agent is killed in its first or its second answer. The first process is killed
	// after cut+1 bytes, and each other one a byte later than the one before.
	longest, cut int
	// cuts are these numbers of bytes, without kills at the end of an answer.
	cuts   []string
	forget time.Duration
	now    func() time.Time
	record func(crash.Call)
	said   strings.Builder
	// recovered and told count such answers that are in the last transcript.
	recovered, told int
}

func (t *agentTrial) client() string    { return filepath.Join(t.root, "client") }
func (t *agentTrial) workspace() string { return filepath.Join(t.root, "workspace") }

func (t *agentTrial) environ() []string {
	return []string{"HOME=" + t.root, "ACODE_HOME=" + filepath.Join(t.root, "home"), "ACODE_KEY_KEYRING=false", "PATH=" + filepath.Dir(t.acode) + ":" + os.Getenv("PATH"), "LANG=C"}
}

// configure writes the configuration of process n of the agent. The second answer of a
// process is that of a new call, and the first one of the next process repeats it.
func (t *agentTrial) configure(n int) error {
	cut := 0
	if t.longest > 0 {
		cut = 1 + (t.cut+n)%t.longest
	}
	c := scripted.Config{
		Server:    []string{t.acode, "mcp", "--tools", "--allow", "files,commands,git", "--sandbox=off", "--conversation", "script", "--settle", agentSettle.String(), "--patience", agentPatience.String()}, // without a sandbox, so that only kills decide
		Workspace: t.workspace(), Forget: t.forget, Cut: cut, Nth: 1 + n%2, Settle: agentSettle,
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(t.client(), "config.json"), raw, 0o600)
}

func (t *agentTrial) run(ctx context.Context) error {
	if err := errors.Join(os.RemoveAll(t.root), os.MkdirAll(t.client(), 0o755), os.MkdirAll(t.workspace(), 0o755)); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	tracer := crash.NewTracer()
	defer tracer.Close()
	most := maxProcesses
	if t.longest > 0 {
		most = 4 * len(scripted.Script())
	}
	for n := range most {
		done, err := t.process(ctx, tracer, self, n)
		if err != nil {
			return err
		}
		if done || t.Stuck != "" {
			return t.finish(ctx, tracer)
		}
	}
	t.Stuck = fmt.Sprintf("not at its end after %d processes", most)
	return t.finish(ctx, tracer)
}

// process runs the agent once. It reports whether the script is over.
func (t *agentTrial) process(ctx context.Context, tracer *crash.Tracer, self string, n int) (bool, error) {
	if err := t.configure(n); err != nil {
		return false, err
	}
	var said bytes.Buffer
	spec := crash.Spec{Argv: []string{self, scripted.Switch, t.client()}, Env: t.environ(), Dir: t.workspace(), Roots: []string{t.root},
		Stdout: &said, Stderr: &said, Role: agentRole, Record: t.record}
	if i := slices.IndexFunc(t.kills, func(k kill) bool { return k.process == n }); i >= 0 {
		spec.At = t.kills[i].point
	}
	limited, cancel := context.WithTimeout(ctx, scene.ProcessLimit)
	defer cancel()
	res, err := tracer.Run(limited, spec)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		t.Stuck = fmt.Sprintf("the agent took longer than %v", scene.ProcessLimit)
		return false, nil
	case err != nil && strings.Contains(err.Error(), "launcher ended early"):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("trace the agent: %w", err)
	}
	t.said.Write(said.Bytes())
	if res.Struck || res.Signal != 0 {
		t.Killed++
		if v := spec.At.Victim; v == crash.VictimSupervisor || v == crash.VictimBoth {
			t.Excused++
		}
		err = os.WriteFile(filepath.Join(t.client(), "killed"), []byte(t.now().Format(time.RFC3339Nano)), 0o600)
	}
	// A server that still runs changes the store while it would be copied.
	alive, gone := tracer.Survivors()
	if err == nil && gone == nil && !slices.Contains(slices.Collect(maps.Values(alive)), roleServer) {
		err = t.compare(ctx)
	}
	if res.ExitCode == 1 {
		t.Stuck = "the agent gave up: " + strings.TrimSpace(t.said.String())
	}
	return res.ExitCode == 0, err
}

// receiptQuery counts the receipts of calls, and those without a checkpoint.
const receiptQuery = `SELECT count(*), count(*) - count(checkpoint) FROM events WHERE type IN ('OperationCompleted', 'OperationFailed') AND json_extract(payload, '$.op') IN
	(SELECT json_extract(payload, '$.op') FROM events WHERE type = 'OperationStarted' AND json_extract(payload, '$.kind') NOT IN ('read', 'search'))`

// compare checks that the store has a receipt for each result that the agent has, and a
// checkpoint for each receipt.
func (t *agentTrial) compare(ctx context.Context) error {
	out, err := scene.Place{Root: t.root}.Query(ctx, receiptQuery)
	if err != nil || out == "" || strings.Contains(out, "no such table") { // killed before its first commit
		return err
	}
	var receipts, bare int
	if _, err := fmt.Sscan(strings.ReplaceAll(out, "\t", " "), &receipts, &bare); err != nil {
		return fmt.Errorf("read receipts: %w", err)
	}
	entries, err := scripted.Transcript(t.client())
	have := 0
	for _, e := range entries {
		if scripted.Script()[e.Call].Changes() && e.Outcome != "unknown" {
			have++
		}
	}
	if have > receipts {
		t.Wrong = append(t.Wrong, fmt.Sprintf("the agent has %d results, and the journal has %d receipts", have, receipts))
	}
	if bare > 0 {
		t.Wrong = append(t.Wrong, fmt.Sprintf("%d receipts have no checkpoint", bare))
	}
	return err
}

// finish waits for the remaining processes and judges the end.
func (t *agentTrial) finish(ctx context.Context, tracer *crash.Tracer) error {
	limited, cancel := context.WithTimeout(ctx, scene.ProcessLimit)
	defer cancel()
	if _, err := tracer.Wait(limited); err != nil {
		alive, _ := tracer.Survivors() // a closed tracer has none
		t.Wrong = append(t.Wrong, fmt.Sprintf("processes that do not end: %v", slices.Collect(maps.Values(alive))))
	}
	if t.Stuck != "" {
		return nil
	}
	v, err := scripted.Judge(t.client(), t.workspace())
	if err = errors.Join(err, t.compare(ctx)); err != nil {
		return err
	}
	t.Lost, t.Repeated, t.Uncertain = v.Lost, v.Repeated, v.Unknown
	t.recovered, t.told = v.Recovered, v.Told
	if t.longest > 0 {
		t.cuts, err = scripted.Cuts(t.client())
	}
	t.Wrong = append(t.Wrong, v.Wrong...)
	return err
}
