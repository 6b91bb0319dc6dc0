package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
)

// Bounds of a plan drawn at random. Each command costs a trial some 30 ms.
const (
	drawnTasks     = 5
	drawnSteps     = 6 // of one task
	drawnApprovals = 2 // each stops the session once
)

// draw makes a plan at random: step by step in the order of execution, following what the
// steps drawn so far make of the workspace, so that acode must accept each step, or fail it
// where the plan says so.
type draw struct {
	rng       *rand.Rand
	plan      plan
	now       tree           // after the steps drawn so far
	at        int            // index of the task that is drawn
	above     []map[int]bool // by task: those it depends on, directly or not
	captures  []captured     // in the order of execution
	approvals int
	dead      map[int]bool // tasks in which nothing is carried out any more
	failing   int          // steps until one fails; never when below 0
	naps      bool         // commands take their time, now and then
}

// captured is a value that a step captured.
type captured struct {
	task        int
	name, value string
}

// drawPlan draws a plan.
func drawPlan(rng *rand.Rand) plan {
	d := &draw{rng: rng, dead: map[int]bool{}, failing: -1}
	return d.whole()
}

// drawSlowPlan draws a plan whose commands last long enough to be met by what people do.
func drawSlowPlan(rng *rand.Rand) plan {
	d := &draw{rng: rng, dead: map[int]bool{}, failing: -1, naps: true}
	return d.whole()
}

// whole draws all of a plan.
func (d *draw) whole() plan {
	d.plan.before = d.workspace()
	d.now = d.plan.before
	d.tasks()
	if d.one(6) {
		d.failing = d.rng.IntN(8)
		d.plan.policy = d.pick("", "pause", "fail", "continue")
	}
	for _, d.at = range d.order() {
		d.steps()
	}
	return d.plan
}

// one says yes in one of n cases.
func (d *draw) one(n int) bool { return d.rng.IntN(n) == 0 }

func (d *draw) pick(from ...string) string { return from[d.rng.IntN(len(from))] }

// bystander is a file that no step changes.
const bystander = "bystander.bin"

// workspace draws the files of the beginning.
func (d *draw) workspace() tree {
	t := tree{bystander: {0o644, "\x00\xff\r\nnobody touches this\n"}}
	for range 3 + d.rng.IntN(6) {
		data := d.text()
		if d.one(4) {
			data = "raw \x00\xff\xfe bytes\r\n" + data
		}
		t[d.anyPath()] = file{d.mode(), data}
	}
	return t
}

// tasks draws the tasks and what they depend on. Their order in the file need not be that of
// execution.
func (d *draw) tasks() {
	n := 1 + d.rng.IntN(drawnTasks)
	names := []string{"survey-the-premises", "collect-the-facts", "arrange-the-files", "publish-the-result", "clear-the-table"}
	d.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for i := range n {
		id := names[i]
		if d.one(4) {
			id = strconv.Itoa(i + 1)
		}
		d.plan.tasks = append(d.plan.tasks, task{id: id})
		d.above = append(d.above, map[int]bool{})
	}
	rank := d.rng.Perm(n) // a dependency leads to a smaller rank
	for r := range n {
		i := slices.Index(rank, r)
		for q := range r {
			if j := slices.Index(rank, q); d.one(3) {
				d.plan.tasks[i].dependsOn = append(d.plan.tasks[i].dependsOn, d.plan.tasks[j].id)
				d.above[i][j] = true
				for k := range d.above[j] {
					d.above[i][k] = true
				}
			}
		}
	}
}

// order gives the tasks as they are executed: always the first of the file that waits for
// nothing.
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
	for i := range 1 + d.rng.IntN(drawnSteps) {
		id := d.id(t, i)
		s := d.step(id)
		s.task, s.id = t.id, id
		t.steps = append(t.steps, s)
		switch {
		case d.dead[d.at]:
			continue
		case d.failing == 0:
			d.plan.fails = s.name()
			d.bury()
		default:
			d.plan.steps = append(d.plan.steps, s)
			d.now = s.after(d.now)
		}
		d.failing--
	}
}

// bury marks the tasks that a failure stops.
func (d *draw) bury() {
	d.dead[d.at] = true
	for i := range d.plan.tasks {
		d.dead[i] = d.dead[i] || d.plan.policy != "continue"
	}
}

// id draws the id of the ith step: often one that other tasks use too, or none.
func (d *draw) id(t *task, i int) string {
	id := d.pick("sign-the-big-ledger", "write-it-down", "arrange-the-shelf", "look-once-more")
	taken := slices.ContainsFunc(t.steps, func(s step) bool { return s.id == id })
	if taken || d.one(4) {
		return strconv.Itoa(i + 1)
	}
	return id
}

// step draws one step. A draw that does not fit the workspace as it is is drawn again.
func (d *draw) step(id string) step {
	if d.failing == 0 && !d.dead[d.at] {
		return d.failure()
	}
	kinds := []func(string) (step, bool){d.single, d.single, d.single, d.group, d.group, d.sign, d.sign, d.capture, d.capture, d.idle, d.work, d.work, d.look, d.approve}
	if d.naps {
		kinds = append(kinds, d.sign, d.sign, d.work)
	}
	for {
		if s, ok := kinds[d.rng.IntN(len(kinds))](id); ok {
			return s
		}
	}
}

// approve draws a question.
func (d *draw) approve(string) (step, bool) {
	if d.approvals == drawnApprovals {
		return step{}, false
	}
	d.approvals++
	return step{yaml: []string{"approve: " + quote(d.pick("Publish the quokka?", "Überall?\nReally?", "yes"))}}, true
}

// look draws a step that reads.
func (d *draw) look(string) (step, bool) {
	if d.one(2) {
		where := d.pick(append(d.plan.folders(), ".")...)
		return step{reads: true, yaml: []string{fmt.Sprintf("search: {pattern: %s, path: %s}", quote(d.pick("quokka", `(?i)LINE \d+`, "^$", `\x00`)), quote(where))}}, true
	}
	return step{reads: true, yaml: []string{"read: {path: " + quote(d.pick("**/*.txt", "**", "alpha/*", "nothing/*.here", "bystander.bin")) + "}"}}, true
}

// failure draws a step that fails each time and changes nothing.
func (d *draw) failure() step {
	lacking := change{op: d.pick("delete", "move", "edit"), path: "not/there", from: "not/there", to: "alpha/a.txt", old: "x", replacement: "y"}
	switch d.rng.IntN(4) {
	case 0:
		return step{changes: []change{lacking}}
	case 1:
		cs, _ := d.changes(1 + d.rng.IntN(3))
		return step{changes: append(cs, lacking)}
	case 2:
		return step{yaml: []string{"run: exit 7", "on_interrupt: rerun"}}
	}
	return step{yaml: []string{"read: {path: not/there}"}}
}
