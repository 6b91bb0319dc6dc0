package terminal

import (
	"cmp"
	"fmt"

	"github.com/acode-dev/acode/session"
)

// RemoteRow is a session in the list of a server.
type RemoteRow struct {
	session.RemoteSummary
	// events of it that this store has and the server has not
	Pending uint64
}

// unread stands for what the server did not read yet.
const unread = "-"

// RemoteList writes the table of List for the sessions of a server, with the host of
// each. A script is told too why delivery before the list did not come to its end, which
// undelivered is; nil: it did.
func (p Page) RemoteList(rows []RemoteRow, undelivered error) error {
	if p.JSON {
		out := struct {
			V           int       `json:"v"`
			Sessions    []rowJSON `json:"sessions"`
			Undelivered *Reason   `json:"undelivered,omitempty"`
		}{V: jsonVersion, Sessions: []rowJSON{}}
		if undelivered != nil {
			out.Undelivered = NewReason(undelivered)
		}
		for _, r := range rows {
			row := newSummaryJSON(r.Summary)
			row.Host, row.Device, row.Projected, row.Pending, row.Forked = &r.Host, &r.Device, &r.Projected, &r.Pending, &r.Forked
			row.ReceivedAt = stampUS(r.ReceivedUS)
			out.Sessions = append(out.Sessions, row)
		}
		return p.json(out)
	}
	if len(rows) == 0 {
		return p.write("No sessions.\n")
	}
	table := [][]string{{"ID", "STATE", "UPDATED", "HOST", "WORKSPACE", "TASK"}}
	for _, r := range rows {
		table = append(table, []string{cmp.Or(r.Short, string(r.ID)), cmp.Or(upper(r.State), unread), p.age(cmp.Or(r.UpdatedUS, r.ReceivedUS)),
			cmp.Or(r.Host, unread), cmp.Or(r.Workspace, unread), cmp.Or(r.Task, unread) + r.notes()})
	}
	return p.columns(table, 12, 12, 20, 12, 24)
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

// Reason is for scripts why something was not done.
type Reason struct {
	Code    session.Code `json:"code"`
	Message string       `json:"message"`
}

// NewReason gives the reason that err is.
func NewReason(err error) *Reason { return &Reason{session.CodeOf(err), err.Error()} }
