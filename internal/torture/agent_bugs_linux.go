package main

import (
	"context"
	"math/rand/v2"
	"sync"
)

// judgedAgentPoints is the most points of a series that agentJudge executes.
const judgedAgentPoints = 60

// agentJudge kills agents in the ways of a series until one goes wrong. late selects only
// points of the second half of the script.
func agentJudge(name string, late bool) judge {
	return judge{name, func(ctx context.Context, h *harness) (string, error) {
		s, _, err := h.lookAtAgent(ctx)
		if err != nil { // the script is judged undisturbed first
			return err.Error(), ctx.Err()
		}
		rng := rand.New(rand.NewPCG(h.seed, 22))
		for _, sr := range agentSeries() {
			if sr.name != name {
				continue
			}
			points := s.points(sr, 0, true, rng)
			if late {
				points = points[len(points)/2:]
			}
			return h.firstAgent(ctx, sample(points, judgedAgentPoints, rng))
		}
		return "", nil
	}}
}

// firstAgent returns the first breach of an agent that is killed at one of the points.
func (h *harness) firstAgent(ctx context.Context, points []kill) (found string, err error) {
	var mu sync.Mutex
	err = h.each(ctx, 0, len(points)-1, func(ctx context.Context, i int) error {
		mu.Lock()
		over := found != ""
		mu.Unlock()
		if over {
			return nil
		}
		t := h.newAgent("agent-"+points[i].String(), points[i:i+1], 0)
		if err := t.judged(ctx); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if t.Bad() {
			found = t.String()
		}
		return nil
	})
	return found, err
}

// agentBugs returns the mistakes that killed agents must find.
func agentBugs() []bug {
	server, alone := agentJudge("an agent's server", false), agentJudge("an agent alone", true)
	return []bug{
		{name: "a call is answered before its receipt", judges: []judge{server}, edits: []edit{
			{"engine/calls.go", "	\"sync\"\n", "	\"sync\"\n	\"time\"\n"},
			{"engine/calls.go", "	return b.commit(context.WithoutCancel(ctx))\n}\n\n// Do is",
				"	time.AfterFunc(50*time.Millisecond, func() { _ = b.commit(context.WithoutCancel(ctx)) })\n	return nil\n}\n\n// Do is"},
			{"app/calls.go", "	a := CallResult{Op: op.StepID, Outcome: CallRuns,", "	a := CallResult{Op: op.StepID, Outcome: CallDone,"}}},
		{name: "owed calls are never settled", judges: []judge{alone}, edits: []edit{{"mcp/owed.go",
			"return now.Sub(at) >= o.settle", "return now.Sub(at) < 0"}}},
		{name: "calls are equal without their arguments", judges: []judge{server}, edits: []edit{{"mcp/owed.go",
			"e.Tool != r.Tool || e.Digest != r.Digest ||", "e.Tool != r.Tool ||"}}},
		{name: "a call starts before its claim", judges: []judge{agentJudge("the supervisor of an agent's commands", false)}, shows: "repeated: ", edits: execBeforeClaim()},
		{name: "a call's receipt without a checkpoint", judges: []judge{server}, shows: "no checkpoint", edits: []edit{{"local/append.go",
			"	if e.Type.Receipt() || e.Type == session.CheckpointCreated {\n		c :=", "	if e.Type.Receipt() && !e.Type.OfOperation() || e.Type == session.CheckpointCreated {\n		c :="}}},
	}
}

// execBeforeClaim starts a command before its claim has its name.
func execBeforeClaim() []edit {
	return []edit{
		{"provider/command/claim.go",
			"	if err := renameNew(w.Name(), claimPath(dir, h.Key)); err != nil {\n",
			"	if prefix == tempPrefix {\n		return files, nil\n	}\n	if err := renameNew(w.Name(), claimPath(dir, h.Key)); err != nil {\n"},
		{"provider/command/running.go", "	c.leader = pid\n",
			"	c.leader = pid\n	_ = renameNew(c.claim.w.Name(), claimPath(s.cfg.Dir, c.req.Key))\n	_ = syncDir(s.cfg.Dir)\n"},
	}
}
