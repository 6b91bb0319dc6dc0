package session

import (
	"fmt"
	"slices"
	"strings"
)

// Gate is a question to a person and the steps that run after a yes, or a question about
// one call of a model.
type Gate struct {
	ID StepID
	// Question has the values of params, inputs and captures filled in.
	Question string
	// Steps run after a yes, up to the next gates, in order of execution.
	Steps []GateStep
	// Next lists the next gates. It is empty if the plan has no more gates after this
	// one.
	Next []StepID
	// Call describes the call of a model; nil for a gate of the plan.
	Call *CallGate
}

// CallGate is a call of a model that waits for a yes.
type CallGate struct {
	// Does says what the call does, line by line.
	Does []string
	// Offer is the rule that a yes to more than this call adds; empty if there is none.
	Offer string
}

// CallGateOf returns the question d about a call of a model.
func CallGateOf(d ApprovalRequestedData) Gate {
	return Gate{ID: d.StepID, Question: d.Question, Call: &CallGate{d.Detail, d.Offer}}
}

// GateStep is one step that runs after a yes.
type GateStep struct {
	Item Item
	// Named says that the step has a name, so its label does not only repeat Does.
	Named bool
	// Does is the command or the changes, line by line.
	Does []string
}

// standing is the effect of a yes to a gate on the remaining steps of a task. Apart steps
// do not wait for the gate, freed steps may run, and halted steps may run up to the next
// gate.
type standing int

const (
	apart standing = iota
	freed
	halted
)

// untilGate returns the items of c that may run after a yes to gate, and the next gates.
// The items are not completed and lie before the next gates. If one step runs at a time,
// all items after gate wait for it. Otherwise only the rest of its task and the tasks
// that depend on it wait.
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

// Does returns the effect of s, line by line. For a command it returns the text, or the
// arguments with shell quoting. For a prompt it returns the text and the powers of the
// model.
func (s Step) Does() []string {
	switch {
	case s.Prompt != nil:
		may := append([]string{"read"}, s.Prompt.Tools...)
		return append(strings.Split(strings.TrimRight(s.Prompt.Text, "\n"), "\n"), "(the model may use: "+strings.Join(may, ", ")+")")
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

// The most steps and lines of a step that Lines returns. Lines adds how many more there
// are.
const (
	maxGateSteps = 50
	maxStepLines = 30
)

// Lines describes for people the steps that run after a yes. It returns nil if no step
// precedes the next gate.
func (g Gate) Lines() []string {
	if g.Call != nil {
		lines := []string{"A yes does this:"}
		for _, l := range g.Call.Does {
			lines = append(lines, "  "+l)
		}
		return lines
	}
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

// NextNames returns Next as text.
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

// Redacted returns a copy of g with redact applied to all text from the plan and from
// values.
func (g Gate) Redacted(redact func(string) string) Gate {
	out := g
	if g.Call != nil {
		call := *g.Call
		call.Does = slices.Clone(call.Does)
		for i, l := range call.Does {
			call.Does[i] = redact(l)
		}
		out.Call = &call
	}
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
