package terminal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
)

// List writes a table of sessions. workspaces adds the column that tells those of several
// workspaces apart. An empty list says so.
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

// stateWord is the state of a session in one word: one whose process was killed is
// interrupted.
func stateWord(r app.Row) string {
	if r.Interrupted {
		return "INTERRUPTED"
	}
	return upper(r.State)
}

// age writes how long ago a time in microseconds is, for a column: "10m ago".
func (p Page) age(us int64) string { return ago(p.Now().Sub(time.UnixMicro(us)), "s", "m", "h", "d") }

// ageHeading names the column of ages: since when the sessions wait, unless one is over
// or runs.
func ageHeading(rows []app.Row) string {
	if slices.ContainsFunc(rows, func(r app.Row) bool { return r.State.Terminal() || r.Running }) {
		return "UPDATED"
	}
	return "PAUSED"
}

// columns writes rows with each column but the last at least as wide as least says, and
// two spaces wider than what it holds.
func (p Page) columns(rows [][]string, least ...int) error {
	return p.aligned(rows, widest(rows, least))
}

// widest gives the widths of all columns but the last, of at least so much each.
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

// rowJSON is a session in a list for scripts, of this store or of a server. Only the
// machine of a session knows whether it runs or was interrupted; only a server has what
// stands behind a pointer else.
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
	Epoch       uint64         `json:"epoch"`
	LastSeq     uint64         `json:"last_seq"`
	Projected   *uint64        `json:"projected_seq,omitempty"`
	Pending     *uint64        `json:"events_pending,omitempty"`
	Forked      *bool          `json:"forked,omitempty"`
	// null: the server did not read it yet
	CreatedAt *string `json:"created_at"`
	// the same
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
	out.Interrupted, out.Running = &r.Interrupted, &r.Running
	return out
}

// position is app.Position for scripts.
type position struct {
	Task  int `json:"task"`
	Tasks int `json:"tasks"`
	Step  int `json:"step"`
	Steps int `json:"steps"`
}

// newPosition gives p for scripts. It is nil where the session has no step left.
func newPosition(p app.Position) *position {
	if p.Task == 0 {
		return nil
	}
	return (*position)(&p)
}

// stand gives "Task 2/3, Step 3/5", or "the end" where the session has no step left.
func stand(p app.Position) string {
	if p.Task == 0 {
		return "the end"
	}
	return fmt.Sprintf("Task %d/%d, Step %d/%d", p.Task, p.Tasks, p.Step, p.Steps)
}

// FewRows is how many of many sessions are named where a question or an error must stay
// in sight.
const FewRows = 10

// Found writes what resume without an id found, the most recent ones, before it asks; all
// says how all of them are seen. Several are numbered.
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
