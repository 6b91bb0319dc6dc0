package terminal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
)

// List prints a table of sessions, also when it is empty. workspaces adds the column of
// workspaces.
func (p Page) List(rows []app.Row, workspaces bool) error {
	if p.JSON {
		list := []rowJSON{}
		for _, r := range rows {
			list = append(list, newRowJSON(r))
		}
		return p.json(struct {
			V        int       `json:"v"`
			Sessions []rowJSON `json:"sessions"`
		}{jsonVersion, list})
	}
	if len(rows) == 0 {
		return p.write("No sessions.\n")
	}
	table := [][]string{{"ID", "STATE", ageHeading(rows), "WORKSPACE", "TASK"}}
	for _, r := range rows {
		table = append(table, []string{r.Short, stateWord(r), p.age(r.UpdatedUS), r.Workspace, r.Task})
	}
	if !workspaces {
		for i, row := range table {
			table[i] = slices.Delete(row, 3, 4)
		}
	}
	return p.columns(table, 12, 12, 20, 24)
}

// stateWord returns the state of a session in one word. It is INTERRUPTED when the
// process of the session was killed. It is WAITING when an agent may call again.
func stateWord(r app.Row) string {
	switch {
	case r.Interrupted:
		return "INTERRUPTED"
	case r.Waits():
		return "WAITING"
	}
	return upper(r.State)
}

// age formats the age of a time in microseconds for a column: "10m ago".
func (p Page) age(us int64) string { return ago(p.Now().Sub(time.UnixMicro(us)), "s", "m", "h", "d") }

// ageHeading returns the heading of the column of ages: PAUSED when all sessions are
// waiting.
func ageHeading(rows []app.Row) string {
	if slices.ContainsFunc(rows, func(r app.Row) bool { return r.State.Terminal() || r.Running }) {
		return "UPDATED"
	}
	return "PAUSED"
}

// columns prints rows in columns. Each column but the last is two spaces wider than its
// content, and at least as wide as in least.
func (p Page) columns(rows [][]string, least ...int) error {
	return p.aligned(rows, widest(rows, least))
}

// widest returns the widths of all columns but the last, at least those of least.
func widest(rows [][]string, least []int) []int {
	last := len(rows[0]) - 1
	widths := append([]int(nil), least[:min(last, len(least))]...)
	for len(widths) < last {
		widths = append(widths, 0)
	}
	for _, row := range rows {
		for i := range last {
			widths[i] = max(widths[i], columns(Clean(row[i]))+2)
		}
	}
	return widths
}

func (p Page) aligned(rows [][]string, widths []int) error {
	var lines []string
	for _, row := range rows {
		var b strings.Builder
		for i, width := range widths {
			b.WriteString(pad(Clean(row[i]), width))
		}
		b.WriteString(Clean(row[len(widths)]))
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return p.write(strings.Join(lines, "\n") + "\n")
}

// rowJSON is a session in a list for scripts, from this store or from a server. Fields
// that only one of the two knows are pointers and left out by the other. Only the machine
// of a session knows whether it runs or was interrupted.
type rowJSON struct {
	ID          session.ID     `json:"id"`
	ShortID     string         `json:"short_id"`
	State       session.State  `json:"state"`
	Reason      session.Reason `json:"reason"`
	Interrupted *bool          `json:"interrupted,omitempty"`
	Running     *bool          `json:"running,omitempty"`
	Task        string         `json:"task"`
	Workspace   string         `json:"workspace"`
	Host        *string        `json:"host,omitempty"`
	Device      *string        `json:"device,omitempty"`
	Tasks       int            `json:"tasks"`
	Steps       int            `json:"steps"`
	Done        int            `json:"done"`
	// Calls is above 0 for the session of an agent.
	Calls     *int    `json:"calls,omitempty"`
	Epoch     uint64  `json:"epoch"`
	LastSeq   uint64  `json:"last_seq"`
	Projected *uint64 `json:"projected_seq,omitempty"`
	Pending   *uint64 `json:"events_pending,omitempty"`
	Forked    *bool   `json:"forked,omitempty"`
	// CreatedAt is null until the server has projected the session.
	CreatedAt *string `json:"created_at"`
	// UpdatedAt is null until the server has projected the session.
	UpdatedAt  *string `json:"updated_at"`
	ReceivedAt *string `json:"received_at,omitempty"`
}

func newSummaryJSON(s session.Summary) rowJSON {
	return rowJSON{
		ID: s.ID, ShortID: s.Short, State: s.State, Reason: s.Reason, Task: s.Task, Workspace: s.Workspace,
		Tasks: s.Tasks, Steps: s.Steps, Done: s.Done, Epoch: s.Epoch, LastSeq: s.LastSeq,
		CreatedAt: stampUS(s.CreatedUS), UpdatedAt: stampUS(s.UpdatedUS),
	}
}

func newRowJSON(r app.Row) rowJSON {
	out := newSummaryJSON(r.Summary)
	out.Interrupted, out.Running, out.Calls = &r.Interrupted, &r.Running, &r.Calls
	return out
}

// position is app.Position for scripts.
type position struct {
	Task  int `json:"task"`
	Tasks int `json:"tasks"`
	Step  int `json:"step"`
	Steps int `json:"steps"`
}

// newPosition returns p for scripts; nil when the session has no step left.
func newPosition(p app.Position) *position {
	if p.Task == 0 {
		return nil
	}
	return (*position)(&p)
}

// stand returns "Task 2/3, Step 3/5", or "the end" when the session has no step left.
func stand(p app.Position) string {
	if p.Task == 0 {
		return "the end"
	}
	return fmt.Sprintf("Task %d/%d, Step %d/%d", p.Task, p.Tasks, p.Step, p.Steps)
}

// FewRows is how many sessions are listed where a question or an error must stay in
// sight.
const FewRows = 10

// Found lists the most recent sessions that resume without an id found, before it asks.
// Several sessions are numbered. all is the hint that lists all of them.
func (p Page) Found(rows []app.Row, at []app.Position, all session.Hint) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Found %s:\n", Plural(len(rows), "resumable session"))
	for i, r := range rows[:min(len(rows), FewRows)] {
		number := ""
		if len(rows) > 1 {
			number = fmt.Sprintf("%d. ", i+1)
		}
		fmt.Fprintf(&b, "  %s%s - %s - \"%s\"\n", number, Clean(r.Short), stateWord(r), Clean(r.Task))
		if i < len(at) {
			fmt.Fprintf(&b, "  Paused at: %s\n", stand(at[i]))
		}
		since := "Paused"
		if r.Interrupted {
			since = "Interrupted"
		}
		fmt.Fprintf(&b, "  %s: %s\n", since, agoLong(p.Now(), time.UnixMicro(r.UpdatedUS)))
	}
	if more := len(rows) - FewRows; more > 0 {
		fmt.Fprintf(&b, "  and %s more: %s\n", comma(more), Clean(p.Spell(all)))
	}
	b.WriteString("\n")
	return p.write(b.String())
}
