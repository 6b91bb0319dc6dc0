package terminal

import (
	"fmt"
	"strings"

	"github.com/acode-dev/acode/session"
)

// OutlineView describes a new session of a plan before it runs. Task and Next are
// redacted.
type OutlineView struct {
	Task      string
	Workspace string
	OnFailure session.OnFailure
	Next      *session.Continuation
	// Warnings come from the configuration.
	Warnings []string
}

// Outline prints the tasks and steps of a plan in the order in which they would run.
func (p Page) Outline(v OutlineView) error {
	count := map[session.Kind]int{}
	for _, it := range v.Next.Items {
		count[it.Kind]++
	}
	if p.JSON {
		return p.json(struct {
			V         int                  `json:"v"`
			Task      string               `json:"task"`
			Workspace string               `json:"workspace"`
			OnFailure session.OnFailure    `json:"on_failure"`
			Tasks     int                  `json:"tasks"`
			Steps     int                  `json:"steps"`
			Kinds     map[session.Kind]int `json:"kinds"`
			Items     []*stepJSON          `json:"items"`
			Warnings  []string             `json:"warnings"`
		}{
			jsonVersion, v.Task, v.Workspace, v.OnFailure, v.Next.Tasks, len(v.Next.Items), count,
			newStepsJSON(v.Next.Items), append([]string{}, v.Warnings...),
		})
	}
	// In the order in which the documentation of plans lists the kinds.
	var kinds []string
	for _, k := range []session.Kind{session.KindRead, session.KindSearch, session.KindWrite, session.KindEdit, session.KindDelete,
		session.KindMove, session.KindChanges, session.KindRun, session.KindApprove} {
		if count[k] > 0 {
			kinds = append(kinds, fmt.Sprintf("%s %s", comma(count[k]), k))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Would run: %s\n  Workspace: %s\n  Plan: %s, %s (%s)\n  On failure: %s\n", Clean(v.Task), Clean(v.Workspace),
		Plural(v.Next.Tasks, "task"), Plural(len(v.Next.Items), "step"), strings.Join(kinds, ", "), v.OnFailure)
	for _, warning := range v.Warnings {
		fmt.Fprintf(&b, "  Warning: %s\n", Clean(warning))
	}
	task := 0
	for _, it := range v.Next.Items {
		if it.Task != task {
			task = it.Task
			fmt.Fprintf(&b, "  Task %d: %s\n", task, Clean(it.Title))
		}
		fmt.Fprintf(&b, "    Step %d: %s (%s)\n", it.Step, Clean(it.Label), it.Kind)
	}
	b.WriteString("Nothing was changed: this was a dry run.\n")
	return p.write(b.String())
}
