package terminal

import (
	"fmt"
	"time"

	"github.com/acode-dev/acode/session"
)

// maxGroups limits the lines about skipped work in a header, so that a session of
// thousands of tasks still shows where it starts.
const maxGroups = 20

// group is skipped work that is shown as one line.
type group struct {
	first, last session.Item
	steps       int
	took        time.Duration
	// whole is set when its tasks have no other step.
	whole bool
}

func (g *group) add(more group) {
	g.last, g.steps, g.took = more.last, g.steps+more.steps, g.took+more.took
}

// String returns "Task 1", "Task 2, Steps 1-2" or "Tasks 1-40".
func (g group) String() string {
	switch {
	case g.first.Task == 0:
		return Plural(g.steps, "more step")
	case g.whole && g.first.Task < g.last.Task:
		return fmt.Sprintf("Tasks %d-%d", g.first.Task, g.last.Task)
	case g.whole:
		return fmt.Sprintf("Task %d", g.first.Task)
	case g.steps == 1:
		return place(g.first)
	}
	return fmt.Sprintf("Task %d, Steps %d-%d", g.first.Task, g.first.Step, g.last.Step)
}

// groups joins the skipped items of c to whole tasks, and to runs of steps in other
// tasks. If that gives too many lines, groups also joins consecutive whole tasks and
// counts the rest.
func groups(c *session.Continuation) []group {
	total := map[int]int{}
	var gs []group
	for _, it := range c.Items {
		total[it.Task]++
		if it.Action != session.ActionSkip {
			continue
		}
		gs = joined(gs, group{it, it, 1, it.Took, false}, func(g group) bool { return g.last.Task == it.Task && g.last.Step+1 == it.Step })
	}
	for i, g := range gs {
		gs[i].whole = g.steps == total[g.first.Task]
	}
	if len(gs) <= maxGroups {
		return gs
	}
	var tasks []group
	for _, g := range gs {
		tasks = joined(tasks, g, func(last group) bool { return last.whole && g.whole && last.last.Task+1 == g.first.Task })
	}
	if len(tasks) <= maxGroups {
		return tasks
	}
	var rest group
	for _, g := range tasks[maxGroups-1:] {
		rest.add(g)
	}
	return append(tasks[:maxGroups-1], rest)
}

// joined adds g to the last of gs if fits allows it, or else appends it.
func joined(gs []group, g group, fits func(group) bool) []group {
	if n := len(gs); n > 0 && fits(gs[n-1]) {
		gs[n-1].add(g)
		return gs
	}
	return append(gs, g)
}

// place returns the place of an item: "Task 2, Step 3", or the name of a call.
func place(it session.Item) string {
	if it.ID.Op != "" {
		return it.ID.String()
	}
	return fmt.Sprintf("Task %d, Step %d", it.Task, it.Step)
}

// name returns an item for a progress line: "Task 2, Step 3: Add email validator".
func name(it session.Item) string {
	if it.Label == "" {
		return place(it)
	}
	return place(it) + ": " + Clean(it.Label)
}
