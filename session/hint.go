package session

import "strings"

// Move is something that a person or a client can do next. Each door knows how it is done there: in a
// shell MoveResume is a command line, for a client it is a call.
type Move string

// The moves.
const (
	MoveRun            Move = "run"             // start a session from a plan
	MoveBeginAgain     Move = "begin_again"     // give the session up and run its plan as a new one
	MoveResume         Move = "resume"          // continue the session
	MoveResumeIn       Move = "resume_in"       // continue it in a directory that the person names
	MoveWait           Move = "wait"            // continue it as soon as its holder ends
	MoveForecast       Move = "forecast"        // look at what a resume would do
	MoveDecideChanges  Move = "decide_changes"  // continue it and say what the changed files mean for it
	MoveAnswer         Move = "answer"          // continue it and say what became of its command
	MoveGiveValue      Move = "give_value"      // the same, or give the value that its command was to print
	MoveApprove        Move = "approve"         // answer the question that it waits for
	MoveApproveResume  Move = "approve_resume"  // answer the question, then continue
	MoveStatus         Move = "status"          // look at the session
	MoveHistory        Move = "history"         // look at its events
	MoveShow           Move = "show"            // look at its steps
	MoveLogs           Move = "logs"            // look at all that a command wrote
	MoveList           Move = "list"            // look at all sessions
	MoveListHere       Move = "list_here"       // look at the sessions of the workspace that can be continued
	MoveListResumable  Move = "list_resumable"  // look at all sessions that can be continued
	MoveVerify         Move = "verify"          // check what is stored
	MoveUnlock         Move = "unlock"          // see who holds the locks
	MoveCancel         Move = "cancel"          // give the session up
	MoveCancelCommand  Move = "cancel_command"  // end its command
	MoveShareWorkspace Move = "share_workspace" // do the same beside the session that works there
	MoveWorkIn         Move = "work_in"         // do the same in a directory that the person names
	MoveAllowWorkspace Move = "allow_workspace" // do the same and allow the directory
	MoveSyncStatus     Move = "sync_status"     // look at the delivery
	MoveSyncNow        Move = "sync_now"        // deliver now
	MoveSyncUnpause    Move = "sync_unpause"    // let the delivery continue
	MoveSyncRebind     Move = "sync_rebind"     // accept another database
	MoveSyncParked     Move = "sync_parked"     // look at the refused events
	MoveForkOff        Move = "fork_off"        // make a new session of what is here
	MoveMigrate        Move = "migrate"         // bring the server's schema forward
	MoveDevices        Move = "devices"         // look at the devices of the server
	MoveCheckConfig    Move = "check_config"    // check the configuration
	MovePlanSchema     Move = "plan_schema"     // see the format of plan files
	MoveConfigSchema   Move = "config_schema"   // see the format of the configuration
	MoveHelp           Move = "help"            // see what can be asked for
)

// Hint says what to do next: in plain words, by a move, or by both, words first.
type Hint struct {
	Text    string `json:"text,omitempty"`    // names no command and no option of any door; empty where Do says all
	Do      Move   `json:"do,omitempty"`      // empty where Text says all
	Session string `json:"session,omitempty"` // id or short id of the session that Do is about; empty: the one at hand
	Step    StepID `json:"step,omitzero"`     // the step that Do is about, if it needs one
	Path    string `json:"path,omitempty"`    // the file or directory that Do is about; empty: the one at hand
}

// Words is a hint without a move.
func Words(text string) Hint { return Hint{Text: text} }

// Do is a hint that is a move alone. An empty id means the session at hand.
func Do(m Move, id string) Hint { return Hint{Do: m, Session: id} }

// After gives h behind words that lead to it.
func (h Hint) After(text string) Hint {
	h.Text = text
	return h
}

// Then is a hint whose words lead to a move. An empty id means the session at hand.
func Then(text string, m Move, id string) Hint { return Do(m, id).After(text) }

// Asks is the hint for the session short, which stopped since no one can know what became of the command
// of it: a command with a capture is not declared done without its value.
func (p *Plan) Asks(short string, it *Item) Hint {
	if p.Tasks[it.Task-1].Steps[it.Step-1].Run.Capture != "" {
		return Hint{Do: MoveGiveValue, Session: short, Step: it.ID}
	}
	return Do(MoveAnswer, short)
}

// IsZero reports whether h says nothing.
func (h Hint) IsZero() bool { return h == Hint{} }

// String names the move and what it is about. It is for logs and tests, which belong to no door.
func (h Hint) String() string {
	out := []string{}
	if h.Text != "" {
		out = append(out, h.Text)
	}
	if h.Do != "" {
		do := "[" + string(h.Do)
		for _, about := range []string{h.Session, strings.Trim(h.Step.String(), "/"), h.Path} {
			if about != "" {
				do += " " + about
			}
		}
		out = append(out, do+"]")
	}
	return strings.Join(out, ": ")
}
