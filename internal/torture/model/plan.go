// Package model makes the plans that sessions carry out under torture, and works out where each of
// them must end.
//
// Fixed has every kind of step; Draw and DrawSlow draw any number of others, each step on what the
// ones before it make of the workspace, so that a plan comes with the files, the directories and the
// lines of the ledger that it has to leave. Of acode the package knows only what a plan says and
// means: it runs nothing and touches no file, so that what it computes is no word of acode's.
package model

import "strings"

// Plan is what a session carries out, and all that the judge knows of it.
type Plan struct {
	Before Tree   // the workspace at the beginning
	tasks  []task // in the order of the file
	Steps  []Step // those that come to their end, in the order of execution
	Policy string // on_failure; empty writes none
	Fails  string // name of the step that fails, rightly, each time; empty for none
	Beside int    // how many steps may run at once; 0 writes none
}

// task is a task of the plan. Names of tasks and steps are too long to be met by chance in
// a hash or a key.
type task struct {
	id        string
	dependsOn []string
	steps     []Step
}

// Step is a step of the plan with all that the judge needs to know of it.
type Step struct {
	task, id string
	yaml     []string // its keys besides id and name
	Changes  []Change // what it does to files
	Does     []Change // what its command does to files
	Looks    *Look    // what it takes note of; nil: of nothing
	Signs    bool     // it appends one line to the ledger
	Extra    string   // what follows the step's name in that line
	Captures bool     // its outcome includes Value, which it prints
	Value    string   // without the space around it
	Prints   string   // all that its command writes; empty: not worked out
	Mended   bool     // it fails until a person has mended the cause
	Volatile bool     // a power cut may take what it did
}

// Look is what a step reads or searches.
type Look struct {
	Glob          string // of the files that it reads; empty for a search
	Pattern, Path string // of a search
}

// looking gives the step that looks so.
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

// OnInterrupt is what the step says to an unknown outcome; empty for nothing.
func (s Step) OnInterrupt() string { return s.key("on_interrupt: ") }

// key gives the value of a key of the step; empty where it has none.
func (s Step) key(name string) string {
	for _, l := range s.yaml {
		if value, ok := strings.CutPrefix(l, name); ok {
			return value
		}
	}
	return ""
}

// Row is steps that come one after the other, and whose files no other row changes.
type Row struct {
	Name  string // empty: it is the whole plan
	Steps []int  // places among the steps of the plan
	own   string // how the names of its files begin
}

// Owns reports whether only steps of the row change the file of a name.
func (r Row) Owns(name string) bool { return strings.HasPrefix(name, r.own) }

// Rows gives the rows of a plan: its tasks where they run at once. What these all write is in no row.
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

// Find gives the step of a name that comes to its end, and its place among those; -1 where there is none.
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

// Name is what people and ledger call the step.
func (s Step) Name() string { return s.task + "/" + s.id }

// End is the state in which the store must leave the session.
func (p Plan) End() string {
	switch {
	case p.Fails == "":
		return "completed"
	case p.Policy == "fail":
		return "failed"
	}
	return "paused"
}

// All gives every step in the order of the file, those too that are never carried out.
func (p Plan) All() []Step {
	var steps []Step
	for _, t := range p.tasks {
		steps = append(steps, t.steps...)
	}
	return steps
}
