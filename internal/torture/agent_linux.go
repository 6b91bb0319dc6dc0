package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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
	// cut kills the agent after so many bytes of answers; 0 does not.
	cut    int
	forget time.Duration
	now    func() time.Time
	record func(crash.Call)
	said   strings.Builder
}

func (t *agentTrial) client() string    { return filepath.Join(t.root, "client") }
func (t *agentTrial) workspace() string { return filepath.Join(t.root, "workspace") }

func (t *agentTrial) environ() []string {
	return []string{"HOME=" + t.root, "ACODE_HOME=" + filepath.Join(t.root, "home"), "ACODE_KEY_KEYRING=false", "PATH=" + filepath.Dir(t.acode) + ":" + os.Getenv("PATH"), "LANG=C"}
}

func (t *agentTrial) configure(cut int) error {
	c := scripted.Config{
		Server:    []string{t.acode, "mcp", "--tools", "--allow", "files,commands", "--conversation", "script", "--settle", agentSettle.String(), "--patience", agentPatience.String()}, // without a sandbox, so that only kills decide
		Workspace: t.workspace(), Forget: t.forget, Cut: cut, Settle: agentSettle,
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(t.client(), "config.json"), raw, 0o600)
}

func (t *agentTrial) run(ctx context.Context) error {
	if err := errors.Join(os.RemoveAll(t.root), os.MkdirAll(t.client(), 0o755), os.MkdirAll(t.workspace(), 0o755), t.configure(t.cut)); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	tracer := crash.NewTracer()
	defer tracer.Close()
	for n := range maxProcesses {
		done, err := t.process(ctx, tracer, self, n)
		if err != nil {
			return err
		}
		if done || t.Stuck != "" {
			return t.finish(ctx, tracer)
		}
	}
	t.Stuck = fmt.Sprintf("not at its end after %d processes", maxProcesses)
	return t.finish(ctx, tracer)
}

// process runs the agent once. It reports whether the script is over.
func (t *agentTrial) process(ctx context.Context, tracer *crash.Tracer, self string, n int) (bool, error) {
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
		err = errors.Join(os.WriteFile(filepath.Join(t.client(), "killed"), []byte(t.now().Format(time.RFC3339Nano)), 0o600), t.configure(0))
	}
	if err == nil {
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
	if err != nil || out == "" {
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
	if err != nil {
		return err
	}
	t.Lost, t.Repeated, t.Uncertain = v.Lost, v.Repeated, v.Unknown
	t.Wrong = append(t.Wrong, v.Wrong...)
	return nil
}

// agentTrial executes one script below its own directory, which stays after a breach.
func (h *harness) agentTrial(ctx context.Context, name string, kills []kill, cut int, forget time.Duration, record func(crash.Call)) (*agentTrial, error) {
	t := &agentTrial{acode: h.acode, root: filepath.Join(h.scratch, name), kills: kills, cut: cut, forget: forget, now: h.now, record: record}
	if err := t.run(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", describe(kills), err)
	}
	if t.Bad() {
		return t, nil
	}
	return t, os.RemoveAll(t.root)
}

// lookAtAgent executes the script undisturbed and returns its calls and the bytes of its
// answers.
func (h *harness) lookAtAgent(ctx context.Context) (survey, error) {
	s := survey{map[string][]crash.Call{}}
	t, err := h.agentTrial(ctx, "agent-survey", nil, 0, 0, func(c crash.Call) {
		if c.N > 0 {
			s[0][c.Role] = append(s[0][c.Role], c)
		}
	})
	if err == nil && (t.Bad() || t.Killed > 0) {
		err = fmt.Errorf("undisturbed script: %s\n%s", t.Outcome, t.said.String())
	}
	for _, list := range s[0] {
		slices.SortFunc(list, func(a, b crash.Call) int { return a.N - b.N })
	}
	return s, err
}

// answerBytes is about how many bytes of answers the script gets.
const answerBytes = 24000

// agents kills an agent, its server and its supervisor in all ways. n limits the points
// of each series; 0 means all.
func (h *harness) agents(ctx context.Context, n int, all bool) ([]row, error) {
	s, err := h.lookAtAgent(ctx)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(h.log, "undisturbed: %d calls of the agent, %d of its server, %d of the supervisor, %d of commands\n",
		s.total(crash.RoleAcode), s.total(roleServer), s.total(crash.RoleSupervisor), s.total(crash.RoleCommand))
	rng := rand.New(rand.NewPCG(h.seed, 21))
	var rows []row
	for i, sr := range agentSeries() {
		points := sample(s.points(sr, i%2, all, rng), n, rng)
		r, err := h.agentSeries(ctx, sr.name, len(points), func(i int) ([]kill, int) { return sr.again(points[i], rng), 0 })
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	cuts := 200
	if n > 0 {
		cuts = n
	}
	r, err := h.agentSeries(ctx, "an agent in the middle of an answer", cuts, func(i int) ([]kill, int) { return nil, 1 + (i*answerBytes+rng.IntN(answerBytes))/cuts })
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

// agentSeries executes n scripts with the kills that draw returns. draw is called by one
// goroutine at a time.
func (h *harness) agentSeries(ctx context.Context, name string, n int, draw func(i int) ([]kill, int)) (row, error) {
	r := row{name: name}
	var mu sync.Mutex
	err := h.each(ctx, 0, n-1, func(ctx context.Context, i int) error {
		mu.Lock()
		kills, cut := draw(i)
		mu.Unlock()
		t, err := h.agentTrial(ctx, fmt.Sprintf("agent-%s-%d", strings.ReplaceAll(name, " ", "-"), i), kills, cut, time.Duration(i%2)*agentForgets, nil)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		r.add(t.Outcome)
		h.mu.Lock()
		defer h.mu.Unlock()
		if t.Bad() {
			h.describe(fmt.Sprintf("%s\n  %s\n  %s cut %d\n  kept: %s", name, t.Outcome, describe(kills), cut, t.root))
		}
		if r.points%100 == 0 {
			fmt.Fprintf(h.log, "%s: %d of %d points, %d breaches\n", name, r.points, n, r.breaches())
		}
		return nil
	})
	return r, err
}
