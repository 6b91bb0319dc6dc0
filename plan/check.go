package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/shell"
	"github.com/acode-dev/acode/strictyaml"
)

// maxErrors is the greatest number of errors in a Report.
const maxErrors = 100

// Report is the result of Check.
type Report struct {
	// Errors are in the order of the file. A file with errors is not a plan.
	Errors []error
	// More says that the file has further errors.
	More     bool
	Warnings []Warning
}

// Warning is a finding that a person should look at before a plan runs.
type Warning struct {
	// Place is file, line and column.
	Place   string
	Step    session.StepID
	Message string
	Next    string
}

// Check reads data, the content of the file called name, and returns all its errors. If
// there are none, it returns warnings.
func Check(name string, data []byte) Report {
	d := &decoder{Reader: strictyaml.Reader{Format: format(), Name: name, Most: maxErrors + 1}, steps: map[session.StepID]strictyaml.Position{}}
	p := d.parse(data)
	if p == nil {
		return d.report()
	}
	l := &linter{plan: p, visible: session.NewVisibility(p), declared: map[string]bool{}, captured: map[string]session.StepID{}}
	l.warn = func(id session.StepID, next, format string, args ...any) {
		at := d.steps[id]
		l.found = append(l.found, Warning{Place: fmt.Sprintf("%s:%d:%d", name, at.Line, at.Column), Step: id, Message: fmt.Sprintf(format, args...), Next: next})
	}
	return Report{Warnings: l.run()}
}

// report returns the errors in the order of the file.
func (d *decoder) report() Report {
	r := Report{Errors: d.Errs()}
	for _, err := range r.Errors {
		if e, ok := err.(*session.Error); ok && e.Next == hint() { // The general hint adds nothing.
			e.Next = session.Hint{}
		}
	}
	if r.More = len(r.Errors) > maxErrors; r.More {
		r.Errors = r.Errors[:maxErrors]
	}
	return r
}

// linter examines the steps of a plan without errors.
type linter struct {
	plan     *session.Plan
	visible  *session.Visibility
	declared map[string]bool
	// captured maps each name to the first step that captures it.
	captured map[string]session.StepID
	warn     func(id session.StepID, next, format string, args ...any)
	found    []Warning
}

func (l *linter) run() []Warning {
	for _, name := range l.plan.Declared() {
		l.declared[name] = true
	}
	for id, s := range l.plan.All() {
		name := s.Captures()
		if name == "" {
			continue
		}
		if _, known := l.captured[name]; !known {
			l.captured[name] = id
		}
	}
	for i := range l.plan.Tasks { // The indexes decide which captures a step can see.
		for j := range l.plan.Tasks[i].Steps {
			s := &l.plan.Tasks[i].Steps[j]
			id := session.StepID{Task: l.plan.Tasks[i].ID, Step: s.ID}
			l.references(id, i, j, s)
			if s.Run != nil {
				l.command(id, s.Run)
			}
		}
	}
	return l.found
}

// references warns about each ${NAME} that would not be replaced.
func (l *linter) references(id session.StepID, task, step int, s *session.Step) {
	names := session.References(s.Approve)
	if s.Prompt != nil {
		names = session.References(s.Prompt.Text)
	}
	for _, c := range s.Changes {
		names = slices.Concat(names, session.References(c.Content), session.References(c.New))
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if _, seen := l.visible.At(task, step)[name]; seen || l.declared[name] {
			continue
		}
		if by, captured := l.captured[name]; captured {
			l.warn(id, "let its task depend on "+by.Task, "${%s} is not replaced: %s captures it, but this step cannot see the capture", name, by)
			continue
		}
		l.warn(id, "declare it in params or inputs, or write $${"+name+"}", "${%s} is not replaced: it is not a param, input or capture", name)
	}
}

// command warns about a run that hides something from acode.
func (l *linter) command(id session.StepID, r *session.Run) {
	if text, ok := shell.Script(r.Command()); ok {
		if err := shell.Check(text); err != nil {
			l.warn(id, "declare the variables that it reads in inputs", "its text cannot be parsed, so acode does not see which variables it reads: %v", err)
		}
		if r.Shell != "" && !slices.Contains(r.With, "pipefail") && shell.Pipeline(text) {
			l.warn(id, "write shell: bash", "only the last command of its pipeline decides; a failure of another one is ignored")
		}
	}
	if r.Check == "" {
		if r.OnInterrupt == "" || r.OnInterrupt == session.InterruptAsks {
			l.warn(id, "add a check that tells whether it was done, or set on_interrupt", "its outcome can become unknown, for example after a power cut, and it has no check: a person must then decide")
		}
	} else if err := shell.Check(r.Check); err != nil {
		l.warn(id, "", "its check cannot be parsed: %s", strings.TrimSpace(err.Error()))
	}
}
