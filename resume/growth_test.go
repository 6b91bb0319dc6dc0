package resume_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
)

// NFR-003: planning takes linear time. Ten times the steps must not take forty times as
// long. ("make bench" measures it against the limit of 100 ms.)
func TestPlanningIsLinear(t *testing.T) {
	planning := func(steps int) time.Duration {
		p := &session.Plan{Version: 1, Task: "large"}
		for i := range steps / 10 {
			task := session.Task{ID: fmt.Sprintf("t%d", i)}
			if i > 0 {
				task.DependsOn = []string{fmt.Sprintf("t%d", i-1)}
			}
			for j := range 10 {
				task.Steps = append(task.Steps, session.Step{ID: fmt.Sprint(j), Kind: session.KindRead, Read: &session.Read{Path: "a"}})
			}
			p.Tasks = append(p.Tasks, task)
		}
		best := time.Hour
		for range 9 {
			start := time.Now()
			next, err := resume.Plan(p, &session.Session{}, nil, resume.Choices{})
			best = min(best, time.Since(start))
			if err != nil || next.Remaining != steps {
				t.Fatalf("Plan: %d steps are left, %v, want %d", next.Remaining, err, steps)
			}
		}
		return best
	}
	few, many := planning(1000), planning(10_000)
	t.Logf("1,000 steps: %v, 10,000 steps: %v, ratio %.1f", few, many, float64(many)/float64(few))
	if many > 40*few {
		t.Errorf("10,000 steps are planned in %v, 1,000 in %v", many, few)
	}
}
