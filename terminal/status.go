package terminal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
)

// Holder is app.Holder for scripts.
type Holder struct {
	PID int `json:"pid"`
	// Elsewhere is set when PID belongs to another PID namespace. In this one no process
	// has it, or an unrelated one.
	Elsewhere bool      `json:"elsewhere,omitempty"`
	Host      string    `json:"host,omitempty"`
	Since     time.Time `json:"since"`
	Command   string    `json:"command,omitempty"`
}

// NewHolder returns h for scripts; nil for nil.
func NewHolder(h *app.Holder) *Holder {
	if h == nil {
		return nil
	}
	return &Holder{PID: h.PID, Elsewhere: h.Elsewhere(), Host: h.Host, Since: h.Since, Command: h.Command}
}

// holder returns "pid 4711 on host, since 10:04:05Z: resume", cleaned.
func (p Page) holder(h *app.Holder) string {
	s := fmt.Sprintf("pid %d", h.PID)
	if h.Elsewhere() {
		s += " in another PID namespace"
	}
	if h.Host != "" {
		s += " on " + Clean(h.Host)
	}
	if !h.Since.IsZero() {
		s += ", since " + p.Instant(h.Since.UnixMicro())
	}
	if h.Command != "" {
		s += ": " + Clean(h.Command)
	}
	return s
}

// GateText returns the question of a gate and the steps that a yes would allow, for
// people.
func GateText(g session.Gate) string {
	lines := append([]string{g.ID.String() + " asks: " + cleanText(g.Question, "  ")}, g.Lines()...)
	for i, l := range lines[1:] {
		lines[i+1] = cleanLine(l)
	}
	return strings.Join(lines, "\n")
}

// GateJSON is a gate for scripts.
type GateJSON struct {
	TaskID   string `json:"task_id"`
	StepID   string `json:"step_id"`
	Question string `json:"question"`
	// Steps are the steps up to the next gates, in order of execution.
	Steps []gateStepJSON `json:"steps"`
	// Next is empty when a yes leads to the end of the plan.
	Next []string `json:"next_gates"`
	// Op, Does and Offer are set for a question about a call of a model.
	Op    string   `json:"op,omitempty"`
	Does  []string `json:"does,omitempty"`
	Offer string   `json:"offer,omitempty"`
}

type gateStepJSON struct {
	*stepJSON
	// Does is its command or its changes, line by line.
	Does []string `json:"does"`
}

// NewGateJSON returns g for scripts; nil for nil.
func NewGateJSON(g *session.Gate) *GateJSON {
	if g == nil {
		return nil
	}
	out := &GateJSON{TaskID: g.ID.Task, StepID: g.ID.Step, Question: g.Question, Steps: []gateStepJSON{}, Next: g.NextNames()}
	if g.Call != nil {
		out.Op, out.Does, out.Offer = g.ID.Op, g.Call.Does, g.Call.Offer
	}
	for _, s := range g.Steps {
		out.Steps = append(out.Steps, gateStepJSON{newStepJSON(s.Item), append([]string{}, s.Does...)})
	}
	return out
}

// Status prints the state of a session. It needs no network.
func (p Page) Status(v app.Status) error {
	if p.JSON {
		return p.json(p.statusJSON(v))
	}
	return p.write(p.status(v))
}

func (p Page) status(v app.Status) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Session: %s\nState: %s\n", Clean(v.Short), stateLine(v.Row))
	if v.Detail != "" {
		fmt.Fprintf(&b, "  %s\n", Clean(v.Detail))
	}
	fmt.Fprintf(&b, "Task: %s\n", Clean(v.Task))
	if v.Calls > 0 {
		fmt.Fprintf(&b, "Calls: %s\n", comma(v.Calls))
	} else {
		fmt.Fprintf(&b, "Progress: %s\n", counts(v.Done, v.Steps-v.Done))
	}
	if v.At.Task > 0 && v.Calls == 0 {
		fmt.Fprintf(&b, "At: %s\n", stand(v.At))
	}
	for _, it := range v.Executes {
		fmt.Fprintf(&b, "Running: %s (%s)\n", name(it), elapsed(it.Took))
	}
	d := delivery{v.Delivery, p.Spell}
	fmt.Fprintf(&b, "Sync: %s\n", d.summary())
	for _, l := range d.details() {
		fmt.Fprintf(&b, "  %s\n", l)
	}
	if v.Holder != nil {
		fmt.Fprintf(&b, "Held by: %s\n", p.holder(v.Holder))
	}
	for _, n := range v.Notes {
		fmt.Fprintf(&b, "Note: %s\n", cleanText(n, "  "))
	}
	if v.Gate != nil {
		for _, l := range v.Gate.Lines() {
			fmt.Fprintf(&b, "%s\n", cleanLine(l))
		}
	}
	if next := p.Spell(v.Next); next != "" {
		fmt.Fprintf(&b, "Continue with: %s\n", Clean(next))
	}
	if d.waitsForServer() {
		fmt.Fprintf(&b, "\n%s\n", reassurance)
	}
	return b.String()
}

func stateLine(r app.Row) string {
	s := upper(r.State)
	switch {
	case r.Interrupted:
		return s + " (interrupted)"
	case r.Waits():
		return s + " (waits for its client)"
	case r.Reason != "":
		return s + " (" + Clean(string(r.Reason)) + ")"
	}
	return s
}

type statusJSON struct {
	V       int       `json:"v"`
	Session rowJSON   `json:"session"`
	At      *position `json:"at"`
	// Running are the steps that its process executes.
	Running []runJSON `json:"running_steps"`
	Left    int       `json:"left"`
	Detail  string    `json:"detail"`
	Sync    syncJSON  `json:"sync"`
	Holder  *Holder   `json:"holder"`
	Notes   []string  `json:"notes"`
	Gate    *GateJSON `json:"gate"`
	Next    string    `json:"next"`
}

func (p Page) statusJSON(v app.Status) statusJSON {
	return statusJSON{
		V: jsonVersion, Session: newRowJSON(v.Row), At: newPosition(v.At), Running: newRunsJSON(v.Executes), Left: v.Steps - v.Done, Detail: v.Detail,
		Sync: newSyncJSON(v.Delivery), Holder: NewHolder(v.Holder), Notes: append([]string{}, v.Notes...),
		Gate: NewGateJSON(v.Gate), Next: p.Spell(v.Next),
	}
}

type runJSON struct {
	*stepJSON
	TookUS int64 `json:"took_us"`
}

func newRunsJSON(items []session.Item) []runJSON {
	out := []runJSON{}
	for _, it := range items {
		out = append(out, runJSON{newStepJSON(it), it.Took.Microseconds()})
	}
	return out
}

type showStepJSON struct {
	*stepJSON
	TookUS  int64        `json:"took_us"`
	Code    session.Code `json:"code,omitempty"`
	Message string       `json:"message,omitempty"`
	Output  []string     `json:"output,omitempty"`
	Decided []string     `json:"decided,omitempty"`
}

// Show prints a session with every step.
func (p Page) Show(v app.Details) error {
	if p.JSON {
		steps := []showStepJSON{}
		for _, s := range v.Steps {
			steps = append(steps, showStepJSON{newStepJSON(s.Item), s.Item.Took.Microseconds(), s.Code, s.Message, s.Output, s.Decided})
		}
		return p.json(struct {
			statusJSON
			Steps []showStepJSON `json:"steps"`
		}{p.statusJSON(v.Status), steps})
	}
	var b strings.Builder
	b.WriteString(p.status(v.Status))
	fmt.Fprintf(&b, "ID: %s\nWorkspace: %s\n", Clean(string(v.ID)), Clean(v.Workspace))
	fmt.Fprintf(&b, "Created: %s\nUpdated: %s\n", p.Instant(v.CreatedUS), p.Instant(v.UpdatedUS))
	fmt.Fprintf(&b, "Epoch: %d\nEvents: %s\n", v.Epoch, comma(int(v.LastSeq)))
	task := 0
	for _, s := range v.Steps {
		if s.Item.Task != task {
			task = s.Item.Task
			fmt.Fprintf(&b, "\nTask %d%s\n", task, titleOf(v.Titles, task))
		}
		showStep(&b, s)
	}
	return p.write(b.String())
}

func titleOf(titles []string, task int) string {
	if task < 1 || task > len(titles) || titles[task-1] == "" {
		return ""
	}
	return ": " + Clean(titles[task-1])
}

func showStep(b *strings.Builder, s app.StepDetails) {
	which := fmt.Sprintf("Step %d", s.Item.Step)
	if op := s.Item.ID.Op; op != "" {
		which = Clean(op)
	}
	fmt.Fprintf(b, "  %s: %s - %s", which, Clean(s.Item.Label), Clean(string(s.Item.Status)))
	if s.Item.Attempt > 1 {
		fmt.Fprintf(b, ", attempt %d", s.Item.Attempt)
	}
	if s.Item.Took > 0 {
		fmt.Fprintf(b, " (%s)", took(s.Item.Took))
	}
	b.WriteString("\n")
	if s.Message != "" || s.Code != "" {
		fmt.Fprintf(b, "    %s\n", withCode(s.Message, s.Code))
	}
	for _, l := range s.Decided {
		fmt.Fprintf(b, "    %s\n", cleanLine(l))
	}
	for _, l := range s.Output {
		fmt.Fprintf(b, "    | %s\n", cleanLine(l))
	}
}

// DryRun prints the forecast of a resume. A forecast changes nothing.
func (p Page) DryRun(v app.Forecast) error {
	warnings := append([]string{}, v.Warnings...)
	if !v.Edited.IsZero() {
		warnings = append(warnings, p.Spell(v.Edited))
	}
	if p.JSON {
		return p.json(struct {
			V          int                   `json:"v"`
			ID         session.ID            `json:"id"`
			ShortID    string                `json:"short_id"`
			State      session.State         `json:"state"`
			Checkpoint *position             `json:"last_checkpoint"`
			Plan       *planJSON             `json:"plan"`
			Items      []*stepJSON           `json:"items"`
			Changed    []session.ChangedFile `json:"changed"`
			Warnings   []string              `json:"warnings"`
			Sync       syncJSON              `json:"sync"`
		}{
			jsonVersion, v.Session.ID, v.Session.Short, v.Session.State, newPosition(v.Checkpoint), newPlanJSON(&v.Next),
			newStepsJSON(v.Next.Items), append([]session.ChangedFile{}, v.Changed...), warnings, newSyncJSON(v.Delivery),
		})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Would resume session %s:\n  Current state: %s\n", Clean(v.Session.Short), upper(v.Session.State))
	at := "none"
	if v.Checkpoint.Task > 0 {
		at = fmt.Sprintf("Task %d, Step %d", v.Checkpoint.Task, v.Checkpoint.Step)
	}
	fmt.Fprintf(&b, "  Last checkpoint: %s\n", at)
	fmt.Fprintf(&b, "  Skipping: %s (complete)\n", Plural(v.Next.Skipped, "step"))
	fmt.Fprintf(&b, "  Remaining: %s\n", Plural(v.Next.Remaining, "step"))
	fmt.Fprintf(&b, "  Sync status: %s\n", delivery{v.Delivery, p.Spell}.status())
	for _, i := range v.Next.InProgress {
		it := v.Next.Items[i]
		fmt.Fprintf(&b, "  In progress: %s - %s\n", name(it), dryAction(it))
	}
	if len(v.Changed) > 0 {
		b.WriteString("  Changed files:\n")
	}
	for _, c := range v.Changed {
		fmt.Fprintf(&b, "    - %s\n", changedLine(c, p.Now()))
	}
	if slices.ContainsFunc(v.Changed, func(c session.ChangedFile) bool { return c.Asks }) {
		fmt.Fprintf(&b, "  %s\n", changesConflict)
	}
	for _, warning := range warnings {
		fmt.Fprintf(&b, "  Warning: %s\n", Clean(warning))
	}
	return p.write(b.String())
}

// dryAction describes how a resume would handle a step that was in progress.
func dryAction(it session.Item) string {
	if it.Kind == session.KindPrompt {
		return "its conversation would continue"
	}
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
