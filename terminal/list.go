package terminal

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/acode-dev/acode/session"
)

// Row is a session in a list.
type Row struct {
	session.Summary
	Interrupted bool // not terminal, was executing, and nobody executes it
	Running     bool // a process executes it now
}

// List writes a table of sessions. workspaces adds the column that tells those of several
// workspaces apart. An empty list says so.
func List(w io.Writer, rows []Row, workspaces bool, now time.Time) error {
	if len(rows) == 0 {
		return write(w, "No sessions.\n")
	}
	table := [][]string{{"ID", "STATE", ageHeading(rows), "TASK"}}
	for _, r := range rows {
		table = append(table, []string{r.Short, upper(r.State), agoTable(now, time.UnixMicro(r.UpdatedUS)), taskOf(r)})
	}
	if workspaces {
		for i, c := range table {
			workspace := "WORKSPACE"
			if i > 0 {
				workspace = rows[i-1].Workspace
			}
			table[i] = []string{c[0], c[1], c[2], workspace, c[3]}
		}
	}
	return columnsTo(w, table, []int{12, 12, 20, 24})
}

// ageHeading names the column of ages: since when the sessions wait, unless one is over or runs.
func ageHeading(rows []Row) string {
	for _, r := range rows {
		if r.State.Terminal() || r.Running {
			return "UPDATED"
		}
	}
	return "PAUSED"
}

func taskOf(r Row) string {
	if r.Interrupted {
		return r.Task + " (interrupted)"
	}
	return r.Task
}

// columnsTo writes rows with each column but the last at least as wide as least says, and
// two spaces wider than what it holds.
func columnsTo(w io.Writer, rows [][]string, least []int) error {
	return aligned(w, rows, widest(rows, least))
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

func aligned(w io.Writer, rows [][]string, widths []int) error {
	var lines []string
	for _, row := range rows {
		var b strings.Builder
		for i, width := range widths {
			b.WriteString(pad(Clean(row[i]), width))
		}
		b.WriteString(Clean(row[len(widths)]))
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return write(w, strings.Join(lines, "\n")+"\n")
}

func write(w io.Writer, s string) error {
	if _, err := io.WriteString(w, s); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

type rowJSON struct {
	ID          session.ID     `json:"id"`
	ShortID     string         `json:"short_id"`
	State       session.State  `json:"state"`
	Reason      session.Reason `json:"reason"`
	Interrupted bool           `json:"interrupted"`
	Running     bool           `json:"running"`
	Task        string         `json:"task"`
	Workspace   string         `json:"workspace"`
	Tasks       int            `json:"tasks"`
	Steps       int            `json:"steps"`
	Done        int            `json:"done"`
	Epoch       uint64         `json:"epoch"`
	LastSeq     uint64         `json:"last_seq"`
	CreatedAt   string         `json:"created_at"`
	UpdatedAt   string         `json:"updated_at"`
}

func newRowJSON(r Row) rowJSON {
	return rowJSON{
		ID: r.ID, ShortID: r.Short, State: r.State, Reason: r.Reason, Interrupted: r.Interrupted,
		Running: r.Running, Task: r.Task, Workspace: r.Workspace, Tasks: r.Tasks, Steps: r.Steps,
		Done: r.Done, Epoch: r.Epoch, LastSeq: r.LastSeq,
		CreatedAt: stamp(time.UnixMicro(r.CreatedUS)), UpdatedAt: stamp(time.UnixMicro(r.UpdatedUS)),
	}
}

// ListJSON writes the same list for scripts.
func ListJSON(w io.Writer, rows []Row) error {
	out := struct {
		V        int       `json:"v"`
		Sessions []rowJSON `json:"sessions"`
	}{V: jsonVersion, Sessions: []rowJSON{}}
	for _, r := range rows {
		out.Sessions = append(out.Sessions, newRowJSON(r))
	}
	return JSON(w, out)
}

// Position says where in a plan a session stands; positions count from 1. The zero value is
// nowhere.
type Position struct {
	Task  int `json:"task"`
	Tasks int `json:"tasks"` // of the plan
	Step  int `json:"step"`
	Steps int `json:"steps"` // of the task
}

// String gives "Task 2/3, Step 3/5", or "the end" for the zero value.
func (p Position) String() string {
	if p.Task == 0 {
		return "the end"
	}
	return fmt.Sprintf("Task %d/%d, Step %d/%d", p.Task, p.Tasks, p.Step, p.Steps)
}

// FewRows is how many of many sessions are named where a question or an error must stay in sight.
const FewRows = 10

// Found writes what resume without an id found, the most recent ones, before it asks; all says how all
// of them are seen.
func Found(w io.Writer, rows []Row, at []Position, all string, now time.Time) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Found %s:\n", Plural(len(rows), "resumable session"))
	for i, r := range rows[:min(len(rows), FewRows)] {
		fmt.Fprintf(&b, "  %s - %s - \"%s\"\n", Clean(r.Short), upper(r.State), Clean(r.Task))
		if i < len(at) {
			fmt.Fprintf(&b, "  Paused at: %s\n", at[i])
		}
		fmt.Fprintf(&b, "  Paused: %s\n", agoLong(now, time.UnixMicro(r.UpdatedUS)))
	}
	if more := len(rows) - FewRows; more > 0 {
		fmt.Fprintf(&b, "  and %s more: %s\n", comma(more), Clean(all))
	}
	b.WriteString("\n")
	return write(w, b.String())
}
