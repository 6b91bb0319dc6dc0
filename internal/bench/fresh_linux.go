package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

const (
	freshPairs = 20
	freshPlan  = 1000
	killedAt   = 500
)

// freshSteps compares the steps of a fresh run with the steps after a kill and a resume
// (NFR-004). It takes the same number of each from the first one on, because the first
// steps of a process are slower.
func (b *bench) freshSteps(ctx context.Context) error {
	var fresh, resumed sample
	for i := range freshPairs {
		a, err := b.readSite(fmt.Sprintf("fresh-%d", i))
		if err != nil {
			return err
		}
		c, err := b.readSite(fmt.Sprintf("resumed-%d", i))
		if err != nil {
			return err
		}
		all, err := a.intervals(ctx, "run", "--json", "--plan", a.plan())
		if err != nil {
			return err
		}
		if _, err := c.until(ctx, "completed", killedAt, "run", "--json", "--plan", c.plan()); err != nil {
			return err
		}
		rest, err := c.intervals(ctx, "resume", "--json")
		if err != nil {
			return err
		}
		n := min(len(all), len(rest))
		fresh, resumed = append(fresh, all[:n]...), append(resumed, rest[:n]...)
	}
	b.report.ratio("step after a resume / step in a fresh run", resumed, fresh, 1.05)
	return nil
}

func (b *bench) readSite(name string) (site, error) {
	s, err := b.newSite(name, map[string]string{"a": "x"})
	if err != nil {
		return s, err
	}
	steps := make([]string, freshPlan)
	for i := range steps {
		steps[i] = "read: {path: a}"
	}
	return s, s.writePlan(steps)
}

// intervals runs acode to its end and returns the time from each completed step to the
// next. It uses acode's own clock, because lines arrive in bursts on a busy machine.
func (s site) intervals(ctx context.Context, args ...string) (sample, error) {
	var out sample
	var last time.Time
	var bad error
	_, err := follow(s.command(ctx, args...), func(l line) bool {
		if !l.is("completed") {
			return true
		}
		var stamp struct{ TS time.Time }
		bad = errors.Join(bad, json.Unmarshal(l.text, &stamp))
		if !last.IsZero() {
			out = append(out, int64(stamp.TS.Sub(last)))
		}
		last = stamp.TS
		return true
	})
	return out, errors.Join(err, bad)
}
