// Package model makes the plans of tested sessions, and computes the end of each.
//
// Fixed has every kind of step. Draw and DrawSlow return random plans, in which each step
// builds on the workspace after the previous ones. A plan therefore includes the files,
// the directories and the lines of the ledger that it must leave. The package knows only
// the meaning of plans: it runs nothing and touches no file, so its results are
// independent of acode.
package model

import "strings"

// Plan is the plan of a session, and the judge's knowledge of it.
type Plan struct {
	// Before is the initial workspace.
	Before Tree
	// tasks is in the order of the file.
	tasks []task
	// Steps are the steps that complete, in the order of execution.
	Steps []Step
	// Policy is the value of on_failure; empty omits the key.
	Policy string
	// Fails is the name of the step that must always fail, or "".
	Fails string
	// Beside is how many steps may run at once; 0 omits the key.
	Beside int
}

// task is a task of the plan. The names of tasks and steps are too long to occur by
// chance in a hash or a key.
type task struct {
	id        string
	dependsOn []string
	steps     []Step
}

// Step is a step of the plan, and the judge's knowledge of it.
type Step struct {
	task, id string
	// yaml holds its keys except id and name.
	yaml []string
	// Changes are its changes of files.
	Changes []Change
	// Does are the changes of files by its command.
	Does []Change
	// Looks is the read or search of the step, or nil.
	Looks *Look
	// Signs means that it appends one line to the ledger.
	Signs bool
	// Extra follows the step's name in that line.
	Extra string
	// Captures means that its outcome includes Value, which it prints.
	Captures bool
	// Value is without surrounding space.
	Value string
	// Prints is the command's whole output; empty means unknown.
	Prints string
	// Repaired means that it fails until a person has repaired the cause.
	Repaired bool
	// Volatile means that a power cut may remove its effect.
	Volatile bool
}

// Look is a read or search of a step.
type Look struct {
	// Glob selects the files of a read; it is empty for a search.
	Glob string
	// Pattern and Path belong to a search.
	Pattern, Path string
}

// looking returns a step with the given read or search.
func looking(l Look) Step {
	if l.Glob != "" {
		return Step{Looks: &l, yaml: []string{"read: {path: " + quote(l.Glob) + "}"}}
	}
	return Step{Looks: &l, yaml: []string{"search: {pattern: " + quote(l.Pattern) + ", path: " + quote(l.Path) + "}"}}
}

// Asks reports whether the step waits for an approval.
func (s Step) Asks() bool { return s.key("approve: ") != "" }

// Checked reports whether the step has a check, which asks the ledger.
func (s Step) Checked() bool { return s.key("check: ") != "" }

// OnInterrupt returns the step's policy for an unknown outcome, or "".
func (s Step) OnInterrupt() string { return s.key("on_interrupt: ") }

// key returns the value of a key of the step, or "".
func (s Step) key(name string) string {
	for _, l := range s.yaml {
		if value, ok := strings.CutPrefix(l, name); ok {
			return value
		}
	}
	return ""
}

// Row is a sequence of steps whose files no other row changes.
type Row struct {
	// Name is empty for the whole plan.
	Name string
	// Steps are indexes of the steps of the plan.
	Steps []int
	// own is the prefix of the names of its files.
	own string
}

// Owns reports whether only steps of the row change the file with this name.
func (r Row) Owns(name string) bool { return strings.HasPrefix(name, r.own) }

// Rows returns the rows of a plan: its tasks if they run at once. Files that all tasks
// write belong to no row.
func (p Plan) Rows() []Row {
	if p.Beside == 0 {
		whole := Row{}
		for i := range p.Steps {
			whole.Steps = append(whole.Steps, i)
		}
		return []Row{whole}
	}
	var rows []Row
	for at, t := range p.tasks {
		r := Row{Name: " of " + t.id, own: room(at)}
		for i, s := range p.Steps {
			if s.task == t.id {
				r.Steps = append(r.Steps, i)
			}
		}
		rows = append(rows, r)
	}
	return rows
}

// Find returns the completing step with this name and its index, or -1.
func (p Plan) Find(name string) (Step, int) {
	for i, s := range p.Steps {
		if s.Name() == name {
			return s, i
		}
	}
	return Step{}, -1
}

// In reports whether the step changes a file in the directory dir or below it.
func (s Step) In(dir string) bool {
	for _, c := range s.Changes {
		for _, name := range []string{c.path, c.from, c.to} {
			if dir == "." || strings.HasPrefix(name, dir+"/") {
				return true
			}
		}
	}
	return false
}

// Name returns the step's name in the ledger and for people.
func (s Step) Name() string { return s.task + "/" + s.id }

// End returns the state in which the store must leave the session.
func (p Plan) End() string {
	switch {
	case p.Fails == "":
		return "completed"
	case p.Policy == "fail":
		return "failed"
	}
	return "paused"
}

// All returns every step in the order of the file, including steps that never run.
func (p Plan) All() []Step {
	var steps []Step
	for _, t := range p.tasks {
		steps = append(steps, t.steps...)
	}
	return steps
}
