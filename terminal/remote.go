package terminal

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/acode-dev/acode/session"
)

// RemoteRow is a session in the list of a server.
type RemoteRow struct {
	session.RemoteSummary
	Pending uint64 // events of it that this store has and the server has not
}

// unread stands for what the server did not read yet.
const unread = "-"

// RemoteList writes the table of List for the sessions of a server, with the host of each.
func RemoteList(w io.Writer, rows []RemoteRow, now time.Time) error {
	if len(rows) == 0 {
		return write(w, "No sessions.\n")
	}
	table := [][]string{{"ID", "STATE", "UPDATED", "HOST", "WORKSPACE", "TASK"}}
	for _, r := range rows {
		table = append(table, []string{cmp.Or(r.Short, string(r.ID)), cmp.Or(upper(r.State), unread), agoTable(now, time.UnixMicro(cmp.Or(r.UpdatedUS, r.ReceivedUS))),
			cmp.Or(r.Host, unread), cmp.Or(r.Workspace, unread), cmp.Or(r.Task, unread) + r.notes()})
	}
	return columnsTo(w, table, []int{12, 12, 20, 12, 24})
}

// notes says what makes a row less than all of the session.
func (r RemoteRow) notes() string {
	text := ""
	if r.Projected < r.LastSeq {
		text += fmt.Sprintf(" (as of event %d of %d)", r.Projected, r.LastSeq)
	}
	if r.Pending > 0 {
		text += fmt.Sprintf(" (%s pending here)", Plural(int(r.Pending), "event"))
	}
	if r.Forked {
		text += " (another history is filed beside it)"
	}
	return text
}

// remoteRowJSON has the names of rowJSON for what means the same. Only the machine of a session
// knows whether it runs or was interrupted.
type remoteRowJSON struct {
	ID         session.ID     `json:"id"`
	ShortID    string         `json:"short_id"`
	State      session.State  `json:"state"`
	Reason     session.Reason `json:"reason"`
	Task       string         `json:"task"`
	Workspace  string         `json:"workspace"`
	Host       string         `json:"host"`
	Device     string         `json:"device"`
	Tasks      int            `json:"tasks"`
	Steps      int            `json:"steps"`
	Done       int            `json:"done"`
	Epoch      uint64         `json:"epoch"`
	LastSeq    uint64         `json:"last_seq"`
	Projected  uint64         `json:"projected_seq"`
	Pending    uint64         `json:"events_pending"`
	Forked     bool           `json:"forked"`
	CreatedAt  *string        `json:"created_at"`
	UpdatedAt  *string        `json:"updated_at"`
	ReceivedAt string         `json:"received_at"`
}

// Reason is for scripts why something was not done.
type Reason struct {
	Code    session.Code `json:"code"`
	Message string       `json:"message"`
}

// NewReason gives the reason that err is.
func NewReason(err error) *Reason {
	e := envelope(err)
	return &Reason{e.Code, e.Message}
}

// RemoteListJSON writes the same for scripts. undelivered says why delivery before the list did
// not come to its end; nil: it did.
func RemoteListJSON(w io.Writer, rows []RemoteRow, undelivered error) error {
	out := struct {
		V           int             `json:"v"`
		Sessions    []remoteRowJSON `json:"sessions"`
		Undelivered *Reason         `json:"undelivered,omitempty"`
	}{V: jsonVersion, Sessions: []remoteRowJSON{}}
	if undelivered != nil {
		out.Undelivered = NewReason(undelivered)
	}
	for _, r := range rows {
		out.Sessions = append(out.Sessions, remoteRowJSON{
			ID: r.ID, ShortID: r.Short, State: r.State, Reason: r.Reason, Task: r.Task, Workspace: r.Workspace, Host: r.Host, Device: r.Device,
			Tasks: r.Tasks, Steps: r.Steps, Done: r.Done, Epoch: r.Epoch, LastSeq: r.LastSeq, Projected: r.Projected, Pending: r.Pending, Forked: r.Forked,
			CreatedAt: stampUS(r.CreatedUS), UpdatedAt: stampUS(r.UpdatedUS), ReceivedAt: stamp(time.UnixMicro(r.ReceivedUS)),
		})
	}
	return JSON(w, out)
}
