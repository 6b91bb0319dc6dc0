package app

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/session"
)

// manyTasks is the number of tasks above which a request may be too large.
const manyTasks = 10

// propose checks a plan that a model proposes. Its commands run in a sandbox, as all that
// a model chose.
func (w *work) propose(raw []byte, judge judge) (engine.Proposal, error) {
	p, err := w.Talks.Plan(raw)
	if err == nil {
		err = w.acceptable(p)
	}
	if err == nil {
		p, err = w.fillModels(p)
	}
	if err != nil {
		return engine.Proposal{}, err
	}
	p.MaxParallel = cmp.Or(p.MaxParallel, w.Settings.Config.MaxParallel)
	out := engine.Proposal{Plan: p, Asks: w.Settings.Config.Approvals.Plan != "never", Lines: []string{p.Task}}
	if n := len(p.Tasks); n > manyTasks {
		out.Lines = append(out.Lines, fmt.Sprintf("(This plan has %d tasks. The request may be too large; consider dividing it.)", n))
	}
	for i := range p.Tasks {
		t := &p.Tasks[i]
		t.Steps = slices.Clone(t.Steps)
		out.Lines = append(out.Lines, taskLine(i, *t))
		for j := range t.Steps {
			s := &t.Steps[j]
			lines, asks, err := confined(session.StepID{Task: t.ID, Step: s.ID}, s, judge)
			if err != nil {
				return engine.Proposal{}, err
			}
			out.Asks = out.Asks || asks
			out.Lines = append(out.Lines, stepLines(j, *s, lines)...)
		}
	}
	return out, nil
}

// stepLines describes a step by its name and what it does. Without a name, a step that
// does one thing is one line.
func stepLines(j int, s session.Step, does []string) []string {
	head := fmt.Sprintf("  Step %d: ", j+1)
	if s.Name == "" && s.Run != nil && len(does) > 0 {
		return append([]string{head + does[0]}, indented(does[1:])...)
	}
	if len(does) == 1 && does[0] == s.Label() {
		does = nil
	}
	return append([]string{head + s.Label()}, indented(does)...)
}

func indented(lines []string) (out []string) {
	for _, l := range lines {
		out = append(out, "      "+l)
	}
	return out
}

func taskLine(i int, t session.Task) string {
	line := fmt.Sprintf("Task %d: %s", i+1, cmp.Or(t.Title, t.ID))
	if len(t.DependsOn) > 0 {
		line += " (after " + strings.Join(t.DependsOn, ", ") + ")"
	}
	return line
}

// acceptable refuses what a plan of a model may not have.
func (w *work) acceptable(p *session.Plan) error {
	no := func(format string, args ...any) error {
		return &session.Error{Code: session.ErrPlan, Message: fmt.Sprintf(format, args...)}
	}
	most := w.Settings.Config.Limits.Tasks
	switch {
	case len(p.Params) > 0 || len(p.Inputs) > 0:
		return no("a proposed plan has neither params nor inputs; write the values into its steps")
	case most > 0 && len(p.Tasks) > most:
		return no("the plan has %d tasks; at most %d are allowed", len(p.Tasks), most)
	case slices.ContainsFunc(p.Tasks, func(t session.Task) bool { return t.ID == session.PlanningStep().Task }):
		return no("a task has the id %q, which belongs to the planning", session.PlanningStep().Task)
	}
	return nil
}

// confined confines a step of a proposed plan. It returns what the step does, and whether
// a person must be asked about it. It returns an error if the rules deny it.
func confined(id session.StepID, s *session.Step, judge judge) (lines []string, asks bool, err error) {
	lines = s.Does()
	if s.Run == nil && len(s.Changes) == 0 {
		return lines, false, nil
	}
	v := judge(id, *s, "")
	if v.Deny {
		return nil, false, &session.Error{Code: session.ErrDenied, Message: fmt.Sprintf("%s is denied by the rules of the user: %s", id, v.Reason)}
	}
	if s.Run != nil {
		run := *s.Run
		run.Sandbox = v.Confine
		s.Run = &run
		lines = append(lines, beside(run)...)
	}
	switch {
	case v.Confine == session.ConfinedOnline:
		lines = append(lines, "("+v.Class+": "+v.Reason+"; it runs with the network)")
	case v.Ask:
		lines = append(lines, "("+v.Class+": "+v.Reason+")")
	}
	return lines, v.Ask, nil
}

// beside describes all of a command that its text does not show.
func beside(r session.Run) (lines []string) {
	if len(r.With) > 0 {
		words := make([]string, len(r.With))
		for i, w := range r.With {
			words[i] = session.ShellQuote(w)
		}
		lines = append(lines, "(the text is run by "+strings.Join(words, " ")+")")
	}
	if r.Dir != "" {
		lines = append(lines, "(in the directory "+session.ShellQuote(r.Dir)+")")
	}
	for _, name := range slices.Sorted(maps.Keys(r.Env)) {
		lines = append(lines, "(with "+name+"="+session.ShellQuote(r.Env[name])+")")
	}
	if r.TTY {
		lines = append(lines, "(on a terminal)")
	}
	if r.OnInterrupt != "" {
		lines = append(lines, "(after an interruption: "+string(r.OnInterrupt)+")")
	}
	if r.Check != "" {
		lines = append(lines, "(after an interruption this finds out whether it was done:)")
		lines = append(lines, strings.Split(strings.TrimRight(r.Check, "\n"), "\n")...)
	}
	return lines
}
