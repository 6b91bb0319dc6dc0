package model

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a random plan. Each command costs a trial about 30 ms.
const (
	drawnTasks = 5
	// drawnSteps is per task.
	drawnSteps = 6
	// drawnApprovals each stop the session once.
	drawnApprovals = 2
	// besideTasks is for a plan whose tasks run at once.
	besideTasks = 4
)

// draw makes a random plan step by step in the order of execution. It tracks the
// workspace after the steps drawn so far. So acode must accept each step, or fail it
// where the plan says so.
type draw struct {
	Dice
	plan Plan
	// now is the workspace after the steps drawn so far.
	now Tree
	// at is the index of the current task.
	at int
	// above holds, for each task, the tasks that it depends on, directly or not.
	above []map[int]bool
	// captures is in the order of execution.
	captures  []captured
	approvals int
	// dead holds the tasks whose further steps do not run.
	dead map[int]bool
	// failing is the number of steps until one fails; a negative number means never.
	failing int
	// naps makes commands sometimes take time.
	naps bool
	// beside makes tasks run at once, each in its own directory.
	beside bool
}

// captured is a value that a step captured.
type captured struct {
	task        int
	name, value string
}

// Draw draws a plan. Equal seeds give equal plans.
func Draw(rng *rand.Rand) Plan {
	d := &draw{Dice: Dice{rng}, dead: map[int]bool{}, failing: -1}
	return d.whole()
}

// DrawSlow draws a plan whose commands last long enough for people to disturb them.
func DrawSlow(rng *rand.Rand) Plan {
	d := &draw{Dice: Dice{rng}, dead: map[int]bool{}, failing: -1, naps: true}
	return d.whole()
}

// DrawBeside draws a plan of up to four tasks on different files, of which three may run
// at once. Its commands last long enough to overlap.
func DrawBeside(rng *rand.Rand) Plan {
	d := &draw{Dice: Dice{rng}, dead: map[int]bool{}, failing: -1, beside: true}
	d.plan.Beside = 3
	return d.whole()
}

// own returns the directory of the current task, or "" if the tasks share all
// directories.
func (d *draw) own() string {
	if !d.beside {
		return ""
	}
	return room(d.at)
}

// room returns the directory of a task that runs beside others.
func room(task int) string { return "room-" + strconv.Itoa(task) + "/" }

// whole draws a complete plan.
func (d *draw) whole() Plan {
	d.plan.Before = d.workspace()
	d.now = d.plan.Before
	d.tasks()
	if !d.beside && d.One(6) {
		d.failing = d.IntN(8)
		d.plan.Policy = d.Pick("", "pause", "fail", "continue")
	}
	for _, d.at = range d.order() {
		d.steps()
	}
	return d.plan
}

// Bystander is a file that no step changes.
const Bystander = "bystander.bin"

// workspace draws the initial files.
func (d *draw) workspace() Tree {
	t := Tree{Bystander: {0o644, "\x00\xff\r\nnobody touches this\n"}}
	for range 3 + d.IntN(6) {
		if d.beside {
			d.at = d.IntN(besideTasks)
		}
		data := d.text()
		if d.One(4) {
			data = "raw \x00\xff\xfe bytes\r\n" + data
		}
		t[d.anyPath()] = File{d.mode(), data}
	}
	return t
}

// tasks draws the tasks and their dependencies. Their order in the file may differ from
// the order of execution.
func (d *draw) tasks() {
	n := 1 + d.IntN(drawnTasks)
	if d.beside {
		n = 2 + d.IntN(besideTasks-1)
	}
	names := []string{"survey-the-premises", "collect-the-facts", "arrange-the-files", "publish-the-result", "clear-the-table"}
	d.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for i := range n {
		id := names[i]
		if d.One(4) {
			id = strconv.Itoa(i + 1)
		}
		d.plan.tasks = append(d.plan.tasks, task{id: id})
		d.above = append(d.above, map[int]bool{})
	}
	// A dependency has a smaller rank.
	rank := d.Perm(n)
	for r := range n {
		i := slices.Index(rank, r)
		for q := range r {
			if j := slices.Index(rank, q); d.One(3) && (!d.beside || d.One(3)) {
				d.plan.tasks[i].dependsOn = append(d.plan.tasks[i].dependsOn, d.plan.tasks[j].id)
				d.above[i][j] = true
				for k := range d.above[j] {
					d.above[i][k] = true
				}
			}
		}
	}
}

// order returns the tasks in the order of execution: always the first task of the file
// whose dependencies are done.
func (d *draw) order() []int {
	var order []int
	for len(order) < len(d.above) {
		for i := range d.above {
			ready := !slices.Contains(order, i)
			for j := range d.above[i] {
				ready = ready && slices.Contains(order, j)
			}
			if ready {
				order = append(order, i)
				break
			}
		}
	}
	return order
}

// steps draws the steps of a task.
func (d *draw) steps() {
	t := &d.plan.tasks[d.at]
	for j := range d.above[d.at] {
		d.dead[d.at] = d.dead[d.at] || d.dead[j]
	}
	for i := range 1 + d.IntN(drawnSteps) {
		id := d.id(t, i)
		s := d.step(id)
		s.task, s.id = t.id, id
		t.steps = append(t.steps, s)
		switch {
		case d.dead[d.at]:
			continue
		case d.failing == 0:
			d.plan.Fails = s.Name()
			d.bury()
		default:
			d.plan.Steps = append(d.plan.Steps, s)
			d.now = s.after(d.now)
		}
		d.failing--
	}
}

// bury marks the tasks that a failure stops.
func (d *draw) bury() {
	d.dead[d.at] = true
	for i := range d.plan.tasks {
		d.dead[i] = d.dead[i] || d.plan.Policy != "continue"
	}
}

// id draws the id of the ith step: often one that other tasks use too, or none.
func (d *draw) id(t *task, i int) string {
	id := d.Pick("sign-the-big-ledger", "write-it-down", "arrange-the-shelf", "look-once-more")
	taken := slices.ContainsFunc(t.steps, func(s Step) bool { return s.id == id })
	if taken || d.One(4) {
		return strconv.Itoa(i + 1)
	}
	return id
}

// step draws one step. It repeats a draw that does not fit the current workspace.
func (d *draw) step(id string) Step {
	if d.failing == 0 && !d.dead[d.at] {
		return d.failure()
	}
	kinds := []func(string) (Step, bool){d.single, d.single, d.single, d.group, d.group, d.sign, d.sign, d.capture, d.capture, d.idle, d.modify, d.modify, d.look, d.approve}
	if d.beside {
		kinds = append(kinds, d.meet, d.meet)
	}
	if d.naps {
		kinds = append(kinds, d.sign, d.sign, d.modify, d.capture, d.capture)
	}
	for {
		if s, ok := kinds[d.IntN(len(kinds))](id); ok {
			return s
		}
	}
}

// meet draws a step that writes the same file and content as other tasks. The order does
// not change the end.
func (d *draw) meet(string) (Step, bool) {
	return Step{Changes: []Change{{op: "write", path: "shared/common.txt", content: strings.Repeat("we all say this\n", 400), mode: 0o644}}}, true
}

// approve draws a question.
func (d *draw) approve(string) (Step, bool) {
	if d.approvals == drawnApprovals {
		return Step{}, false
	}
	d.approvals++
	return Step{yaml: []string{"approve: " + quote(d.Pick("Publish the quokka?", "Überall?\nReally?", "yes"))}}, true
}

// look draws a step that reads.
func (d *draw) look(string) (Step, bool) {
	// The step reads only its own directory, because other tasks change theirs.
	if d.beside {
		return looking(Look{Glob: d.own() + d.Pick("**/*.txt", "**", "alpha/*")}), true
	}
	if d.One(2) {
		where := d.Pick(append(d.plan.Folders(), ".")...)
		return looking(Look{Pattern: d.Pick("quokka", `(?i)LINE \d+`, "^$", `\x00`), Path: where}), true
	}
	return looking(Look{Glob: d.Pick("**/*.txt", "**", "alpha/*", "nothing/*.here", "bystander.bin")}), true
}

// failure draws a step that always fails and changes nothing.
func (d *draw) failure() Step {
	lacking := Change{op: d.Pick("delete", "move", "edit"), path: "not/there", from: "not/there", to: "alpha/a.txt", old: "x", replacement: "y"}
	switch d.IntN(4) {
	case 0:
		return Step{Changes: []Change{lacking}}
	case 1:
		cs, _ := d.changes(1 + d.IntN(3))
		return Step{Changes: append(cs, lacking)}
	case 2:
		return Step{yaml: []string{"run: exit 7", "on_interrupt: rerun"}}
	}
	return Step{yaml: []string{"read: {path: not/there}"}}
}
