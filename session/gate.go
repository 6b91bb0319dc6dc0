package session

import (
	"fmt"
	"strings"
)

// Gate is a question that a person is asked, and what a yes lets happen.
type Gate struct {
	ID StepID
	// params, inputs and captures filled in
	Question string
	// up to the next gates, in order of execution
	Steps []GateStep
	// the next gates; none when a yes leads to the end of the plan
	Next []StepID
}

// GateStep is one step that a yes lets happen.
type GateStep struct {
	Item Item
	// its label is a name, and does not only repeat what it does
	Named bool
	// its command, or its changes, line by line
	Does []string
}

// standing says what a yes to a gate does to what is left of a task.
type standing int

const (
	// nothing: it does not wait for that gate
	apart standing = iota
	// lets it happen
	freed
	// lets it happen up to a further gate
	halted
)

// untilGate gives the items of c that a yes to gate lets happen: those that wait for it
// and are not done, up to the next gates. Where one step runs at a time, all that follows
// waits. Elsewhere what is left of its task does, and what depends on that.
func (p *Plan) untilGate(c *Continuation, gate StepID) (items []Item, next []StepID) {
	tasks := map[string]standing{}
	for _, it := range c.Items {
		line := ""
		if p.MaxParallel > 1 {
			line = it.ID.Task
			if _, met := tasks[line]; !met {
				for _, on := range p.Tasks[it.Task-1].DependsOn {
					tasks[line] = max(tasks[line], tasks[on])
				}
			}
		}
		switch {
		case it.ID == gate:
			tasks[line] = freed
		case tasks[line] != freed || it.Action == ActionSkip:
		case it.Kind == KindApprove:
			tasks[line], next = halted, append(next, it.ID)
		default:
			items = append(items, it)
		}
	}
	return items, next
}

// GateOf describes the gate of c that asks question.
func (p *Plan) GateOf(c *Continuation, gate StepID, question string) Gate {
	items, next := p.untilGate(c, gate)
	g := Gate{ID: gate, Question: question, Next: next}
	for _, it := range items {
		step := p.Tasks[it.Task-1].Steps[it.Step-1]
		g.Steps = append(g.Steps, GateStep{Item: it, Named: step.Name != "", Does: step.Does()})
	}
	return g
}

// Does says what s does, line by line: of a command its text, or its arguments as a shell
// would take them.
func (s Step) Does() []string {
	switch {
	case s.Run == nil && len(s.Changes) == 0:
		return nil
	case s.Run == nil:
		lines := make([]string, len(s.Changes))
		for i, c := range s.Changes {
			lines[i] = c.label()
		}
		return lines
	case len(s.Run.Argv) > 0:
		words := make([]string, len(s.Run.Argv))
		for i, w := range s.Run.Argv {
			words[i] = ShellQuote(w)
		}
		return []string{strings.Join(words, " ")}
	}
	return strings.Split(strings.TrimRight(s.Run.Shell, "\n"), "\n")
}

// What Lines shows at most. It says how much more there is.
const (
	maxGateSteps = 50
	maxStepLines = 30
)

// Lines says for people what a yes lets happen; nothing where no step follows before the
// next gate.
func (g Gate) Lines() []string {
	if len(g.Steps) == 0 {
		return nil
	}
	lines := []string{"A yes runs" + g.until() + ":"}
	for i, s := range g.Steps {
		if i == maxGateSteps {
			return append(lines, fmt.Sprintf("  … and %d more steps", len(g.Steps)-i))
		}
		place := fmt.Sprintf("  Task %d, Step %d: ", s.Item.Task, s.Item.Step)
		if !s.Named && len(s.Does) == 1 {
			lines = append(lines, place+s.Does[0])
			continue
		}
		lines = append(lines, place+s.Item.Label)
		for j, line := range s.Does {
			if j == maxStepLines {
				lines = append(lines, fmt.Sprintf("      … and %d more lines", len(s.Does)-j))
				break
			}
			lines = append(lines, "      "+line)
		}
	}
	return lines
}

// NextNames gives Next as text.
func (g Gate) NextNames() []string {
	names := make([]string, len(g.Next))
	for i, id := range g.Next {
		names[i] = id.String()
	}
	return names
}

func (g Gate) until() string {
	switch len(g.Next) {
	case 0:
		return ""
	case 1:
		return ", up to the next approval, " + g.Next[0].String()
	}
	names := g.NextNames()
	return ", up to the next approvals, " + strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// Redacted gives g with redact applied to all that came from the plan or from values.
func (g Gate) Redacted(redact func(string) string) Gate {
	out := g
	out.Question, out.Steps = redact(g.Question), make([]GateStep, len(g.Steps))
	for i, s := range g.Steps {
		s.Item.Label, s.Item.Title = redact(s.Item.Label), redact(s.Item.Title)
		does := strings.Join(s.Does, "\n")
		if len(s.Does) > 0 {
			s.Does = strings.Split(redact(does), "\n")
		}
		out.Steps[i] = s
	}
	return out
}
