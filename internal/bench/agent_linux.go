package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/acode-dev/acode/internal/crash"
)

const (
	// manyTurns are the turns of a long conversation.
	manyTurns = 2000
	// A reply of the slow model arrives in slowPieces pieces, in 200 ms altogether.
	slowPieces = 4
	slowPause  = 50 * time.Millisecond
	slowTurns  = 20
	slowRounds = 3
)

// agent measures prompt steps, with a model that follows a script.
func (b *bench) agent(ctx context.Context) error {
	if err := b.buildAgent(ctx); err != nil {
		return err
	}
	for _, measure := range []func(context.Context) error{b.turnSyncs, b.slowModel, b.turnBytes, b.firstRequests} {
		if err := measure(ctx); err != nil {
			return err
		}
	}
	return nil
}

// call is one call in a script.
type call struct {
	ID   string         `json:"id"`
	Tool string         `json:"tool"`
	Args map[string]any `json:"arguments"`
}

// readOf reads a file from a line. Calls of two turns differ, because a model that
// repeats a call is stopped.
func readOf(path string, line, turn int) call {
	return call{fmt.Sprint(line), "read_file", map[string]any{"path": path, "line": line, "lines": turn + 1}}
}

// talk makes a site whose only step is a prompt. Turn i makes the calls that turn
// returns. After them the model answers, unless the script ends early.
func (b *bench) talk(name string, turns int, pause time.Duration, answers bool, files map[string]string, turn func(i int) []call) (site, error) {
	s, err := b.newSite(name, files)
	if err != nil {
		return s, err
	}
	var script strings.Builder
	for i := range turns {
		raw, err := json.Marshal(map[string]any{"text": "work", "calls": turn(i), "pause_ms": pause.Milliseconds()})
		if err != nil {
			return s, err
		}
		script.Write(append(raw, '\n'))
	}
	if answers {
		script.WriteString(`{"text":"done"}` + "\n")
	}
	return s, errors.Join(os.WriteFile(s.script(), []byte(script.String()), 0o600), s.configure(""),
		s.writePlan([]string{"prompt: Work, tools: [files], max_turns: 10000"}))
}

func (s site) script() string { return filepath.Join(s.dir, "script.jsonl") }

// configure names the model of the site. log is the path that gets its requests.
func (s site) configure(log string) error {
	dir := filepath.Join(s.dir, "user", "acode")
	text := fmt.Sprintf("model: m\napprovals: {command: allow}\nlimits: {turns: none, tokens: none}\nmodels:\n  m: {provider: script, script: %q", s.script())
	if log != "" {
		text += fmt.Sprintf(", log: %q", log)
	}
	return errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "config.yml"), []byte(text+"}\n"), 0o600))
}

// turnSyncs counts the fsyncs of a turn.
func (b *bench) turnSyncs(ctx context.Context) error {
	tracer := crash.NewTracer()
	defer tracer.Close()
	for _, kind := range []struct {
		name    string
		turn    func(i int) []call
		besides float64
	}{
		{"four reads at once", func(i int) []call {
			return []call{readOf("f", 1, i), readOf("f", 2, i), readOf("f", 3, i), readOf("f", 4, i)}
		}, 0},
		{"a write", func(i int) []call {
			return []call{{"a", "write_file", map[string]any{"path": fmt.Sprintf("w%d", i), "content": "x"}}}
		}, 2},
	} {
		var counts [2]syncs
		for i, turns := range []int{fewSteps, manySteps} {
			s, err := b.talk(fmt.Sprintf("turn-syncs-%s-%d", strings.ReplaceAll(kind.name, " ", "-"), turns), turns, 0, true, map[string]string{"f": "1\n2\n3\n4\n"}, kind.turn)
			if err != nil {
				return err
			}
			if counts[i], err = s.count(ctx, tracer, 0, "run", "--plan", s.plan()); err != nil {
				return err
			}
		}
		n := counts[1].minus(counts[0])
		per := func(count int) float64 { return float64(count) / (manySteps - fewSteps) }
		b.report.count("fsyncs of the store per turn: "+kind.name, per(n.store), 2, "counted")
		b.report.count("fsyncs besides: "+kind.name, per(n.workspace+n.kept+n.commands+n.other), kind.besides, fmt.Sprintf("workspace %.2f", per(n.workspace)))
	}
	return nil
}

// slowModel compares a turn with a model that answers in 200 ms with the answer alone.
func (b *bench) slowModel(ctx context.Context) error {
	var turn, alone sample
	for round := range slowRounds {
		s, err := b.talk(fmt.Sprintf("slow-%d", round), slowTurns, slowPause, true, map[string]string{"f": "1\n"}, func(i int) []call { return []call{readOf("f", 1, i)} })
		if err != nil {
			return err
		}
		if out, err := s.command(ctx, "run", "--plan", s.plan()).CombinedOutput(); err != nil {
			return fmt.Errorf("run: %w: %s", err, out)
		}
		times, err := s.asked(ctx)
		if err != nil {
			return err
		}
		for i := range slowTurns {
			turn = append(turn, (times[i+1]-times[i])*1000)
			err := alone.timed(func() error {
				for range slowPieces {
					<-time.NewTimer(slowPause).C
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	b.report.ratio("a turn with a model that answers in 200 ms / its answer", turn, alone, 1.02)
	return nil
}
