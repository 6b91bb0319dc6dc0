package terminal

import (
	"strings"

	"github.com/acode-dev/acode/session"
)

// GateText says for people what a gate asks and what a yes lets happen.
func GateText(g session.Gate) string {
	lines := append([]string{g.ID.String() + " asks: " + cleanText(g.Question, "  ")}, g.Lines()...)
	for i, l := range lines[1:] {
		lines[i+1] = cleanLine(l)
	}
	return strings.Join(lines, "\n")
}

// GateJSON is a gate for scripts.
type GateJSON struct {
	TaskID   string         `json:"task_id"`
	StepID   string         `json:"step_id"`
	Question string         `json:"question"`
	Steps    []gateStepJSON `json:"steps"`     // up to the next gate, in order of execution
	NextGate string         `json:"next_gate"` // empty: a yes leads to the end of the plan
}

type gateStepJSON struct {
	*stepJSON
	Does []string `json:"does"` // its command or its changes, line by line
}

// NewGateJSON gives g for scripts; nil for none.
func NewGateJSON(g *session.Gate) *GateJSON {
	if g == nil {
		return nil
	}
	out := &GateJSON{TaskID: g.ID.Task, StepID: g.ID.Step, Question: g.Question, Steps: []gateStepJSON{}, NextGate: g.Next}
	for _, s := range g.Steps {
		out.Steps = append(out.Steps, gateStepJSON{newStepJSON(s.Item), append([]string{}, s.Does...)})
	}
	return out
}
