package terminal

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/acode-dev/acode/session"
)

// Holder is the process that executes a session or workspace.
type Holder struct {
	PID       int       `json:"pid"`
	Elsewhere bool      `json:"elsewhere,omitempty"` // PID counts in another PID namespace: here it is nobody's, or a stranger's
	Host      string    `json:"host,omitempty"`
	Since     time.Time `json:"since"`
	Command   string    `json:"command,omitempty"`
}

// String gives "pid 4711 on host, since 10:04:05Z: resume", cleaned.
func (h Holder) String() string {
	s := fmt.Sprintf("pid %d", h.PID)
	if h.Elsewhere {
		s += " in another PID namespace"
	}
	if h.Host != "" {
		s += " on " + Clean(h.Host)
	}
	if !h.Since.IsZero() {
		s += ", since " + instant(h.Since.UnixMicro())
	}
	if h.Command != "" {
		s += ": " + Clean(h.Command)
	}
	return s
}

// StatusView is what status tells of a session.
type StatusView struct {
	Row
	At     Position      // of the step in progress or next; zero when none is left
	Detail string        // of the state, one line
	Holder *Holder       // nil when nobody executes it
	Notes  []string      // further lines, as a command that still runs
	Gate   *session.Gate // the question that it waits for; nil for none
	Sync   SyncView      // of this session
	Next   string        // the exact command that continues; empty when there is none
}

// Status writes where a session stands. It needs no network.
func Status(w io.Writer, v StatusView) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Session: %s\nState: %s\n", Clean(v.Short), stateLine(v.Row))
	if v.Detail != "" {
		fmt.Fprintf(&b, "  %s\n", Clean(v.Detail))
	}
	fmt.Fprintf(&b, "Task: %s\n", Clean(v.Task))
	fmt.Fprintf(&b, "Progress: %s\n", counts(v.Done, v.Steps-v.Done))
	if v.At.Task > 0 {
		fmt.Fprintf(&b, "At: %s\n", v.At)
	}
	fmt.Fprintf(&b, "Sync: %s\n", v.Sync.Summary())
	for _, l := range v.Sync.details() {
		fmt.Fprintf(&b, "  %s\n", l)
	}
	if v.Holder != nil {
		fmt.Fprintf(&b, "Held by: %s\n", v.Holder)
	}
	for _, n := range v.Notes {
		fmt.Fprintf(&b, "Note: %s\n", cleanText(n, "  "))
	}
	if v.Gate != nil {
		for _, l := range v.Gate.Lines() {
			fmt.Fprintf(&b, "%s\n", cleanLine(l))
		}
	}
	if v.Next != "" {
		fmt.Fprintf(&b, "Continue with: %s\n", Clean(v.Next))
	}
	if v.Sync.waitsForServer() {
		fmt.Fprintf(&b, "\n%s\n", reassurance)
	}
	return write(w, b.String())
}

func stateLine(r Row) string {
	s := upper(r.State)
	switch {
	case r.Interrupted:
		return s + " (interrupted)"
	case r.Reason != "":
		return s + " (" + Clean(string(r.Reason)) + ")"
	}
	return s
}

type statusJSON struct {
	V       int       `json:"v"`
	Session rowJSON   `json:"session"`
	At      *Position `json:"at"`
	Left    int       `json:"left"`
	Detail  string    `json:"detail"`
	Sync    syncJSON  `json:"sync"`
	Holder  *Holder   `json:"holder"`
	Notes   []string  `json:"notes"`
	Gate    *GateJSON `json:"gate"`
	Next    string    `json:"next"`
}

func newStatusJSON(v StatusView) statusJSON {
	out := statusJSON{
		V: jsonVersion, Session: newRowJSON(v.Row), Left: v.Steps - v.Done, Detail: v.Detail,
		Sync: newSyncJSON(v.Sync), Holder: v.Holder, Notes: append([]string{}, v.Notes...), Gate: NewGateJSON(v.Gate), Next: v.Next,
	}
	if v.At.Task > 0 {
		out.At = &v.At
	}
	return out
}

// StatusJSON writes the same for scripts.
func StatusJSON(w io.Writer, v StatusView) error { return JSON(w, newStatusJSON(v)) }

// StepView is a step in ShowView.
type StepView struct {
	Item    session.Item // Took is how long its latest attempt took, 0 when it is not over
	Code    session.Code // of a failure
	Message string       // of a failure or an unknown outcome
	Output  []string     // the end of what the command of a failure or an unknown outcome wrote
	Decided []string     // who decided about an unknown outcome
}

// ShowView is what session show tells: status, ids, times and every step.
type ShowView struct {
	StatusView
	Titles []string // of the tasks in plan order
	Steps  []StepView
}

// Show writes everything that is known of a session.
func Show(w io.Writer, v ShowView) error {
	if err := Status(w, v.StatusView); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "ID: %s\nWorkspace: %s\n", Clean(string(v.ID)), Clean(v.Workspace))
	fmt.Fprintf(&b, "Created: %s\nUpdated: %s\n", instant(v.CreatedUS), instant(v.UpdatedUS))
	fmt.Fprintf(&b, "Epoch: %d\nEvents: %s\n", v.Epoch, comma(int(v.LastSeq)))
	task := 0
	for _, s := range v.Steps {
		if s.Item.Task != task {
			task = s.Item.Task
			fmt.Fprintf(&b, "\nTask %d%s\n", task, titleOf(v.Titles, task))
		}
		showStep(&b, s)
	}
	return write(w, b.String())
}

func titleOf(titles []string, task int) string {
	if task < 1 || task > len(titles) || titles[task-1] == "" {
		return ""
	}
	return ": " + Clean(titles[task-1])
}

func showStep(b *strings.Builder, s StepView) {
	fmt.Fprintf(b, "  Step %d: %s - %s", s.Item.Step, Clean(s.Item.Label), Clean(string(s.Item.Status)))
	if s.Item.Attempt > 1 {
		fmt.Fprintf(b, ", attempt %d", s.Item.Attempt)
	}
	if s.Item.Took > 0 {
		fmt.Fprintf(b, " (%s)", took(s.Item.Took))
	}
	b.WriteString("\n")
	if s.Message != "" || s.Code != "" {
		fmt.Fprintf(b, "    %s", Clean(s.Message))
		if s.Code != "" {
			fmt.Fprintf(b, " (%s)", Clean(string(s.Code)))
		}
		b.WriteString("\n")
	}
	for _, l := range s.Decided {
		fmt.Fprintf(b, "    %s\n", cleanLine(l))
	}
	for _, l := range s.Output {
		fmt.Fprintf(b, "    | %s\n", cleanLine(l))
	}
}

type showStepJSON struct {
	*stepJSON
	TookUS  int64        `json:"took_us"`
	Code    session.Code `json:"code,omitempty"`
	Message string       `json:"message,omitempty"`
	Output  []string     `json:"output,omitempty"`
	Decided []string     `json:"decided,omitempty"`
}

// ShowJSON writes the same for scripts.
func ShowJSON(w io.Writer, v ShowView) error {
	out := struct {
		statusJSON
		Steps []showStepJSON `json:"steps"`
	}{statusJSON: newStatusJSON(v.StatusView), Steps: []showStepJSON{}}
	for _, s := range v.Steps {
		out.Steps = append(out.Steps, showStepJSON{
			stepJSON: newStepJSON(s.Item), TookUS: s.Item.Took.Microseconds(), Code: s.Code, Message: s.Message, Output: s.Output, Decided: s.Decided,
		})
	}
	return JSON(w, out)
}

// DryRunView is what resume would do.
type DryRunView struct {
	ID         session.ID
	Short      string
	State      session.State
	Checkpoint Position // of the last checkpoint's step; zero: none yet
	Next       *session.Continuation
	Changed    []session.ChangedFile
	Warnings   []string
	Sync       SyncView // of this session
}

// DryRun writes what resume would do. Nothing was changed to find it out.
func DryRun(w io.Writer, v DryRunView, now time.Time) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Would resume session %s:\n  Current state: %s\n", Clean(v.Short), upper(v.State))
	at := "none"
	if v.Checkpoint.Task > 0 {
		at = fmt.Sprintf("Task %d, Step %d", v.Checkpoint.Task, v.Checkpoint.Step)
	}
	fmt.Fprintf(&b, "  Last checkpoint: %s\n", at)
	fmt.Fprintf(&b, "  Skipping: %s (complete)\n", Plural(v.Next.Skipped, "step"))
	fmt.Fprintf(&b, "  Remaining: %s\n", Plural(v.Next.Remaining, "step"))
	fmt.Fprintf(&b, "  Sync status: %s\n", v.Sync.status())
	if it, ok := v.Next.First(); ok && v.Next.InProgress >= 0 {
		fmt.Fprintf(&b, "  In progress: %s - %s\n", name(it), dryAction(it))
	}
	if len(v.Changed) > 0 {
		b.WriteString("  Changed files:\n")
	}
	for _, c := range v.Changed {
		fmt.Fprintf(&b, "    - %s\n", changedLine(c, now))
	}
	if slices.ContainsFunc(v.Changed, func(c session.ChangedFile) bool { return c.Asks }) {
		fmt.Fprintf(&b, "  %s\n", changesConflict)
	}
	for _, warning := range v.Warnings {
		fmt.Fprintf(&b, "  Warning: %s\n", Clean(warning))
	}
	return write(w, b.String())
}

// dryAction says in words what would be done with a step that was in progress.
func dryAction(it session.Item) string {
	switch it.Action {
	case session.ActionRollBack:
		return "would be rolled back and done again"
	case session.ActionApplied:
		return "is already applied"
	case session.ActionAttach:
		return "would take the result of its command"
	case session.ActionDecide:
		return Clean(it.Why)
	}
	return "would be done again"
}

// DryRunJSON writes the same for scripts.
func DryRunJSON(w io.Writer, v DryRunView) error {
	out := struct {
		V          int                   `json:"v"`
		ID         session.ID            `json:"id"`
		ShortID    string                `json:"short_id"`
		State      session.State         `json:"state"`
		Checkpoint *Position             `json:"last_checkpoint"`
		Plan       *planJSON             `json:"plan"`
		Items      []*stepJSON           `json:"items"`
		Changed    []session.ChangedFile `json:"changed"`
		Warnings   []string              `json:"warnings"`
		Sync       syncJSON              `json:"sync"`
	}{
		V: jsonVersion, ID: v.ID, ShortID: v.Short, State: v.State, Plan: newPlanJSON(v.Next),
		Items: []*stepJSON{}, Changed: append([]session.ChangedFile{}, v.Changed...), Warnings: append([]string{}, v.Warnings...),
		Sync: newSyncJSON(v.Sync),
	}
	if v.Checkpoint.Task > 0 {
		out.Checkpoint = &v.Checkpoint
	}
	for _, it := range v.Next.Items {
		out.Items = append(out.Items, newStepJSON(it))
	}
	return JSON(w, out)
}
