package terminal

import (
	"fmt"
	"time"

	"github.com/acode-dev/acode/session"
)

// maxGroups bounds the lines about skipped work in a header, so that a session of thousands
// of tasks still shows where it starts.
const maxGroups = 20

// group is skipped work that is shown as one line.
type group struct {
	what  string // "Task 1", "Task 2, Steps 1-2", "Tasks 1-40"
	title string // of the task, when the group is exactly one whole task
	steps int
	took  time.Duration
	task  int // position of the last task in it; 0 when the group is part of a task
	first int // position of the first task in it
}

// groups joins the skipped items of c: whole tasks, and runs of steps in a task that is not
// whole. Neighbouring whole tasks are joined too when there are too many lines otherwise.
func groups(c *session.Continuation) []group {
	total := map[int]int{}
	for _, it := range c.Items {
		total[it.Task]++
	}
	var gs []group
	for i := 0; i < len(c.Items); {
		it := c.Items[i]
		if it.Action != session.ActionSkip {
			i++
			continue
		}
		n := run(c.Items[i:])
		gs = append(gs, newGroup(c.Items[i:i+n], n == total[it.Task]))
		i += n
	}
	if len(gs) > maxGroups {
		gs = joinTasks(gs)
	}
	return capGroups(gs)
}

// run counts the items at the front that are skipped steps of one task, one after another.
func run(items []session.Item) int {
	n := 1
	for n < len(items) && items[n].Action == session.ActionSkip &&
		items[n].Task == items[0].Task && items[n].Step == items[n-1].Step+1 {
		n++
	}
	return n
}

func newGroup(items []session.Item, whole bool) group {
	first, last := items[0], items[len(items)-1]
	g := group{steps: len(items), first: first.Task}
	for _, it := range items {
		g.took += it.Took
	}
	switch {
	case whole:
		g.what, g.title, g.task = fmt.Sprintf("Task %d", first.Task), first.Title, first.Task
	case len(items) == 1:
		g.what = place(first)
	default:
		g.what = fmt.Sprintf("Task %d, Steps %d-%d", first.Task, first.Step, last.Step)
	}
	return g
}

// joinTasks joins whole tasks whose positions follow each other.
func joinTasks(gs []group) []group {
	var out []group
	for _, g := range gs {
		if n := len(out); n > 0 && g.task > 0 && out[n-1].task > 0 && g.first == out[n-1].task+1 {
			last := &out[n-1]
			last.task, last.title = g.task, ""
			last.steps, last.took = last.steps+g.steps, last.took+g.took
			last.what = fmt.Sprintf("Tasks %d-%d", last.first, last.task)
			continue
		}
		out = append(out, g)
	}
	return out
}

// capGroups replaces what is beyond maxGroups by one group that counts it.
func capGroups(gs []group) []group {
	if len(gs) <= maxGroups {
		return gs
	}
	rest := group{}
	for _, g := range gs[maxGroups-1:] {
		rest.steps, rest.took = rest.steps+g.steps, rest.took+g.took
	}
	rest.what = Plural(rest.steps, "more step")
	return append(gs[:maxGroups-1:maxGroups-1], rest)
}

// place writes where an item stands: "Task 2, Step 3".
func place(it session.Item) string { return fmt.Sprintf("Task %d, Step %d", it.Task, it.Step) }

// name writes an item for a progress line: "Task 2, Step 3: Add email validator".
func name(it session.Item) string {
	if it.Label == "" {
		return place(it)
	}
	return place(it) + ": " + Clean(it.Label)
}
