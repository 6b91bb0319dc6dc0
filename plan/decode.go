package plan

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/strictyaml"
)

// Version is the version of the format that this package reads.
const Version = 1

func (d *decoder) plan(body *strictyaml.Value) *session.Plan {
	d.newer(body)
	o := d.Object(body, "version", "task", "on_failure", "max_parallel", "params", "inputs", "defaults", "tasks")
	p := &session.Plan{Version: Version}
	if f := d.Need(o, "version"); f != nil {
		if v, ok := number(f); !ok || v != Version {
			d.Fail(f.At, "write version: 1", `"version" is the number %d, not %s`, Version, f.Describe())
		}
	}
	if f := d.Need(o, "task"); f != nil {
		if p.Task = d.Shown(f, true); strings.TrimSpace(p.Task) == "" {
			d.Fail(f.At, "describe the purpose of the session in a few words", `"task" must not be empty`)
		}
	}
	p.OnFailure = session.OnFailure(cmp.Or(d.OneOf(o.Get("on_failure"), "pause", "fail", "continue"), "pause"))
	if f := o.Get("max_parallel"); f != nil {
		n, ok := number(f)
		if !ok || n < 1 || n > session.MostParallel {
			d.Fail(f.At, "", `"max_parallel" is a whole number from 1 to %d, not %s`, session.MostParallel, f.Describe())
		}
		p.MaxParallel = int(n)
	}
	declared := names{what: "param or input", first: map[string]strictyaml.Position{}}
	p.Params = d.params(o, &declared)
	p.Inputs = d.inputs(o, &declared)
	above := d.defaults(o, defaults{})
	d.tasks(p, d.Need(o, "tasks"), above)
	d.notCaptured(p, declared)
	return p
}

// newer refuses a plan of a later version before it reads other keys, because they may
// have another meaning there.
func (d *decoder) newer(body *strictyaml.Value) {
	v := new(strictyaml.Reader).Object(body).Get("version")
	if n, ok := number(v); ok && n > Version {
		d.Fail(v.At, "use the version of acode for which the plan was written, or a newer one",
			"the plan is of version %d; this acode reads version %d", n, Version)
	}
}

func number(v *strictyaml.Value) (int64, bool) {
	if v == nil || v.Kind() != strictyaml.Int {
		return 0, false
	}
	n, err := strconv.ParseInt(v.Written(), 10, 64)
	return n, err == nil
}

// dependency is one entry of depends_on and its place.
type dependency struct {
	task int
	on   string
	at   strictyaml.Position
}

func (d *decoder) tasks(p *session.Plan, f *strictyaml.Value, above defaults) {
	ids := names{what: "task", first: map[string]strictyaml.Position{}}
	var dependencies []dependency
	for i, n := range d.List(f, "tasks", "a task") {
		o := d.Object(n, "id", "title", "depends_on", "defaults", "steps")
		t := session.Task{ID: d.id(o, &ids, i), Title: d.Shown(o.Get("title"), false)}
		if on := o.Get("depends_on"); on != nil {
			t.DependsOn, dependencies = d.dependsOn(on, i, dependencies)
		}
		own := d.defaults(o, above)
		t.Steps = d.stepsOf(d.Need(o, "steps"), own, t.ID)
		p.Tasks = append(p.Tasks, t)
	}
	d.checkDAG(p, ids, dependencies)
}

func (d *decoder) dependsOn(f *strictyaml.Value, task int, all []dependency) ([]string, []dependency) {
	if f.Kind() != strictyaml.List {
		d.Fail(f.At, "write depends_on: [id, ...]", `"depends_on" is a list of task ids, not %s`, f.Describe())
		return nil, all
	}
	var on []string
	seen := map[string]bool{}
	for _, n := range f.Entries("a task id") {
		id := d.Text(n)
		if seen[id] {
			d.Fail(n.At, "remove one of the two", "the task depends on %q twice", id)
		}
		seen[id] = true
		on = append(on, id)
		all = append(all, dependency{task, id, n.At})
	}
	return on, all
}

func (d *decoder) checkDAG(p *session.Plan, ids names, dependencies []dependency) {
	for _, dep := range dependencies {
		if _, ok := ids.first[dep.on]; !ok {
			d.Fail(dep.at, "", "no task has the id %q; the plan has %s", dep.on, some(p.Tasks))
		}
	}
	if d.Err() != nil {
		return
	}
	_, cycle := p.Order()
	if cycle == nil {
		return
	}
	for _, dep := range dependencies {
		if p.Tasks[dep.task].ID == cycle[0] && dep.on == cycle[1] {
			d.Fail(dep.at, "remove one of these dependencies", "the tasks wait for each other: %s", strings.Join(shorten(cycle), " → "))
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

// some lists the ids of the first few tasks.
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

// names holds the ids of one scope and the place of each.
type names struct {
	what  string
	first map[string]strictyaml.Position
}

// id reads the id of the i-th task or step. The default is its position, counted from 1.
func (d *decoder) id(o *strictyaml.Object, in *names, i int) string {
	id, at, next := strconv.Itoa(i+1), o.At, "add an id to the one that has none"
	if f := o.Get("id"); f != nil {
		id, at, next = d.Text(f), f.At, ""
		if f.Kind() == strictyaml.Text && !session.ValidName(id) {
			d.Fail(at, "", "%q is not an id: 1 to 64 letters, digits, dots, hyphens or underscores, and not . or ..", id)
		}
	}
	if first, taken := in.first[id]; taken {
		d.Fail(at, next, "%s id %q occurs twice, first on line %d; without an id it is the position", in.what, id, first.Line)
	}
	in.first[id] = at
	return id
}
