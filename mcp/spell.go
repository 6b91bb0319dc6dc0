package mcp

import (
	"cmp"

	"github.com/acode-dev/acode/session"
)

// spell puts a hint in words for a client of the control tools. Only a person can do the
// moves that are no calls, so it says how a person types them.
func (c *control) spell(h session.Hint) string {
	do := c.move(h)
	switch {
	case do == "":
		return h.Text
	case h.Text == "":
		return do
	}
	return h.Text + ": " + do
}

func (c *control) move(h session.Hint) string {
	if h.Do == "" {
		return ""
	}
	of := func(tool string) string { return "call " + tool + " with task_id " + cmp.Or(h.Session, "of the task") }
	switch h.Do {
	case session.MoveRun:
		return "call RunTask"
	case session.MoveResume, session.MoveWait:
		return of("ResumeTask")
	case session.MoveForecast, session.MoveStatus, session.MoveShow:
		return of("GetTask")
	case session.MoveDecideChanges:
		return of("ResumeTask") + ", conflict override and another request_id"
	case session.MoveLogs:
		return of("TaskLogs")
	case session.MoveList, session.MoveListHere, session.MoveListResumable:
		return "call ListTasks"
	case session.MoveCancel:
		return of("CancelTask")
	case session.MoveSyncStatus:
		return "call SyncStatus"
	case session.MoveHelp:
		return "look at the schema of the tool"
	case session.MoveApproveResume:
		then := of("ResumeTask")
		h.Do = session.MoveApprove
		return c.person(h) + "; then " + then
	}
	return c.person(h)
}

// person says how a person makes a move.
func (c *control) person(h session.Hint) string {
	h.Text = ""
	return "a person can do this in a terminal: " + c.Spell(h)
}

// controlHints are those of words for control tools.
func controlHints() map[session.Code]string {
	return map[session.Code]string{
		session.ErrUsage:       "look at the schema of the tool",
		session.ErrLocked:      "make the call again later; GetTask with wait_s waits",
		session.ErrConflict:    "give each request its own request_id, and use it again only to repeat that request",
		session.ErrEscape:      "name a path inside the workspace",
		session.ErrEnvironment: "look at the changed files, then call ResumeTask with conflict override and another request_id",
		session.ErrWorkspace:   "a person can start the server in a project directory with -C DIR",
		session.ErrPlan:        "correct the plan, and send it again",
	}
}
