package terminal

import (
	"cmp"
	"fmt"

	"github.com/acode-dev/acode/session"
)

// RemoteRow is a session in the list of a server.
type RemoteRow struct {
	session.RemoteSummary
	// Pending is how many events this store has and the server lacks.
	Pending uint64
}

// unread replaces values that the server has not projected yet.
const unread = "-"

// RemoteList prints the table of List for the sessions of a server, with the host of
// each. undelivered is the error of the delivery before the list; nil for none. Only JSON
// contains it.
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

// notes returns the reasons why a row may not be up to date.
func (r RemoteRow) notes() string {
	text := ""
	if r.Projected < r.LastSeq {
		text += fmt.Sprintf(" (as of event %d of %d)", r.Projected, r.LastSeq)
	}
	if r.Pending > 0 {
		text += fmt.Sprintf(" (%s pending here)", Plural(int(r.Pending), "event"))
	}
	if r.Forked {
		text += " (the server also has another history of it)"
	}
	return text
}

// Reason is for scripts the reason why something was not done.
type Reason struct {
	Code    session.Code `json:"code"`
	Message string       `json:"message"`
}

// NewReason returns the code and the message of err.
func NewReason(err error) *Reason { return &Reason{session.CodeOf(err), err.Error()} }
