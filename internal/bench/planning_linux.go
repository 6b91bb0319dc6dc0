package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
)

// planning measures the computation of the remaining steps of a half-done plan.
func (b *bench) planning(context.Context) error {
	times := map[int]sample{}
	for _, n := range []int{10000, 100000} {
		// Collect the garbage of earlier parts now, not during the measurement.
		runtime.GC()
		p, s := halfDone(n)
		var all sample
		for range 30 {
			err := all.timed(func() error {
				_, err := resume.Plan(p, s, nil, resume.Choices{})
				return err
			})
			if err != nil {
				return err
			}
		}
		times[n] = all
	}
	b.report.times("continuation planning, 10,000 steps", times[10000], 50, 100, "target, maximum")
	b.report.ratio("… 100,000 steps / ten times 10,000 steps (linear)", times[100000], tenfold(times[10000]), 1.5)
	return nil
}

func tenfold(s sample) sample {
	out := make(sample, len(s))
	for i := range s {
		out[i] = 10 * s[i]
	}
	return out
}

// halfDone returns a plan of n steps in tasks of a hundred, and a session that has done
// half of it.
func halfDone(n int) (*session.Plan, *session.Session) {
	p := &session.Plan{Version: 1, Task: "bench"}
	s := &session.Session{State: session.Executing, Steps: map[session.StepID]*session.StepState{}}
	for i := range n {
		if i%100 == 0 {
			t := session.Task{ID: fmt.Sprintf("t%04d", i/100)}
			if i > 0 {
				t.DependsOn = []string{p.Tasks[len(p.Tasks)-1].ID}
			}
			p.Tasks = append(p.Tasks, t)
		}
		t := &p.Tasks[len(p.Tasks)-1]
		id := session.StepID{Task: t.ID, Step: fmt.Sprintf("s%05d", i)}
		t.Steps = append(t.Steps, session.Step{ID: id.Step, Kind: session.KindRead, Read: &session.Read{Path: "a"}})
		if i < n/2 {
			s.Steps[id] = &session.StepState{StepID: id, Status: session.StepDone, Attempt: 1, StartedUS: 1, EndedUS: 2}
		}
	}
	return p, s
}
