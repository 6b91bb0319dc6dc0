package plan

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/acode-dev/acode/session"
)

// Version is the version of the format that this package reads.
const Version = 1

func (d *decoder) plan(body *yaml.Node) *session.Plan {
	if body == nil {
		d.fail(position{1, 1}, "", "the plan file is empty")
		return nil
	}
	d.newer(body)
	o := d.object(body, place(body), "a plan", "version", "task", "on_failure", "params", "inputs", "defaults", "tasks")
	p := &session.Plan{Version: Version, OnFailure: session.FailurePauses}
	if f := d.need(o, "version"); f != nil {
		d.version(f)
	}
	if f := d.need(o, "task"); f != nil {
		if p.Task = d.shown(f, true); strings.TrimSpace(p.Task) == "" {
			d.fail(f.place(), "say in a few words what the session is for", `"task" must not be empty`)
		}
	}
	if s := d.oneOf(o, "on_failure", "pause", "fail", "continue"); s != "" {
		p.OnFailure = session.OnFailure(s)
	}
	declared := names{what: "param or input", first: map[string]position{}}
	p.Params = d.params(o, &declared)
	p.Inputs = d.inputs(o, &declared)
	above := d.defaults(o, defaults{})
	if f := d.need(o, "tasks"); f != nil {
		d.tasks(p, f, above)
	}
	d.notCaptured(p, declared)
	return p
}

// newer refuses a plan of a later version before anything else, which may mean something else there.
func (d *decoder) newer(body *yaml.Node) {
	if body.Kind != yaml.MappingNode {
		return
	}
	for key, value := range pairs(body) {
		if v, ok := number(value); ok && v > Version && key.Value == "version" {
			d.fail(place(value), "use the acode that the plan was written for, or a newer one",
				"the plan is of version %d; this acode reads version %d", v, Version)
		}
	}
}

func (d *decoder) version(f *field) {
	if v, ok := number(f.value); !ok || v != Version {
		d.fail(f.place(), "write version: 1", `"version" is the number %d, not %s`, Version, describe(f.value))
	}
}

func number(n *yaml.Node) (int64, bool) {
	v, err := strconv.ParseInt(n.Value, 10, 64)
	return v, err == nil && n.Tag == "!!int"
}

// dependency is where a task says what it depends on.
type dependency struct {
	task int
	on   string
	at   position
}

func (d *decoder) tasks(p *session.Plan, f *field, above defaults) {
	ids := names{what: "task", first: map[string]position{}}
	var dependencies []dependency
	for i, n := range d.list(f, "tasks") {
		at := place(n)
		o := d.object(n, at, "a task", "id", "title", "depends_on", "defaults", "steps")
		t := session.Task{ID: d.id(o, &ids, i)}
		if title := o.get("title"); title != nil {
			t.Title = d.shown(title, false)
		}
		if on := o.get("depends_on"); on != nil {
			t.DependsOn, dependencies = d.dependsOn(on, i, dependencies)
		}
		own := d.defaults(o, above)
		if steps := d.need(o, "steps"); steps != nil {
			t.Steps = d.stepsOf(steps, own, t.ID)
		}
		p.Tasks = append(p.Tasks, t)
		if len(d.errs) == d.most {
			return
		}
	}
	d.checkDAG(p, ids, dependencies)
}

func (d *decoder) dependsOn(f *field, task int, all []dependency) ([]string, []dependency) {
	if f.value.Kind != yaml.SequenceNode {
		d.fail(f.place(), "write depends_on: [id, ...]", `"depends_on" is a list of task ids, not %s`, describe(f.value))
		return nil, all
	}
	var on []string
	seen := map[string]bool{}
	for _, n := range f.value.Content {
		at := place(n)
		id := d.textOf(n, at, "a task id")
		if seen[id] {
			d.fail(at, "remove one of the two", "the task depends on %q twice", id)
		}
		seen[id] = true
		on = append(on, id)
		all = append(all, dependency{task, id, at})
	}
	return on, all
}

func (d *decoder) checkDAG(p *session.Plan, ids names, dependencies []dependency) {
	for _, dep := range dependencies {
		if _, ok := ids.first[dep.on]; !ok {
			d.fail(dep.at, "", "no task has the id %q; the plan has %s", dep.on, some(p.Tasks))
		}
	}
	if len(d.errs) > 0 {
		return
	}
	_, cycle := p.Order()
	if cycle == nil {
		return
	}
	for _, dep := range dependencies {
		if p.Tasks[dep.task].ID == cycle[0] && dep.on == cycle[1] {
			d.fail(dep.at, "remove one of these dependencies", "the tasks wait for each other: %s", strings.Join(shorten(cycle), " → "))
			return
		}
	}
}

// shorten keeps a message about a long cycle readable.
func shorten(cycle []string) []string {
	const most = 20
	if len(cycle) <= most {
		return cycle
	}
	cut := append([]string{}, cycle[:most-2]...)
	return append(cut, fmt.Sprintf("… %d more …", len(cycle)-most+1), cycle[len(cycle)-1])
}

// some names the tasks, a few of them when there are many.
func some(tasks []session.Task) string {
	const most = 10
	var ids []string
	for i := range tasks[:min(len(tasks), most)] {
		ids = append(ids, tasks[i].ID)
	}
	if more := len(tasks) - most; more > 0 {
		ids = append(ids, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(ids, ", ")
}

// names holds the ids of one scope and where each was given.
type names struct {
	what  string
	first map[string]position
}

// id reads the id of the i-th task or step, by default its position counted from 1.
func (d *decoder) id(o *object, in *names, i int) string {
	id, at, next := strconv.Itoa(i+1), o.at, "give the one without an id an id of its own"
	if f := o.get("id"); f != nil {
		id, at, next = d.text(f), f.place(), ""
		if isText(f.value) && !session.ValidName(id) {
			d.fail(at, "", "%q is no id: 1 to 64 letters, digits, dots, hyphens or underscores, and not . or ..", id)
		}
	}
	if first, taken := in.first[id]; taken {
		d.fail(at, next, "%s id %q stands twice, first on line %d; without an id it is the position", in.what, id, first.line)
	}
	in.first[id] = at
	return id
}
