package session

import "strings"

// Move is something that a person or a client can do next. Each door says how to do it:
// MoveResume is a command line in a shell and a call for an API client.
type Move string

// The moves.
const (
	// start a session from a plan
	MoveRun Move = "run"
	// cancel the session and run its plan as a new session
	MoveBeginAgain Move = "begin_again"
	// continue the session
	MoveResume Move = "resume"
	// continue the session in a directory that the person names
	MoveResumeIn Move = "resume_in"
	// continue the session as soon as its current process ends
	MoveWait Move = "wait"
	// show what a resume would do
	MoveForecast Move = "forecast"
	// continue the session and decide about the changed files
	MoveDecideChanges Move = "decide_changes"
	// continue the session with a model that is named
	MoveChooseModel Move = "choose_model"
	// continue the session and allow more turns, more tokens or more cost
	MoveMoreTurns  Move = "more_turns"
	MoveMoreTokens Move = "more_tokens"
	MoveMoreBudget Move = "more_budget"
	// continue the session and say how its command ended
	MoveAnswer Move = "answer"
	// like MoveAnswer, or give the value that the command was to print
	MoveGiveValue Move = "give_value"
	// answer the question that the session waits for
	MoveApprove Move = "approve"
	// answer the question, then continue the session
	MoveApproveResume Move = "approve_resume"
	// show the session
	MoveStatus Move = "status"
	// show its events
	MoveHistory Move = "history"
	// show its steps
	MoveShow Move = "show"
	// show the whole output of a command
	MoveLogs Move = "logs"
	// list all sessions
	MoveList Move = "list"
	// list the sessions of the workspace that can be continued
	MoveListHere Move = "list_here"
	// list all sessions that can be continued
	MoveListResumable Move = "list_resumable"
	// verify the stored data
	MoveVerify Move = "verify"
	// show which processes hold the locks
	MoveUnlock Move = "unlock"
	// show the files of the workspace that models may get, and trust them
	MoveTrust Move = "trust"
	// cancel the session
	MoveCancel Move = "cancel"
	// end the running command of the session
	MoveCancelCommand Move = "cancel_command"
	// repeat the command beside the session that uses the workspace
	MoveShareWorkspace Move = "share_workspace"
	// repeat the command in a directory that the person names
	MoveWorkIn Move = "work_in"
	// repeat the command and allow the directory
	MoveAllowWorkspace Move = "allow_workspace"
	// show the state of the delivery
	MoveSyncStatus Move = "sync_status"
	// deliver now
	MoveSyncNow Move = "sync_now"
	// continue a paused delivery
	MoveSyncUnpause Move = "sync_unpause"
	// accept another database
	MoveSyncRebind Move = "sync_rebind"
	// show the events that the server refused
	MoveSyncParked Move = "sync_parked"
	// make a new session from the local history
	MoveForkOff Move = "fork_off"
	// migrate the schema of the server
	MoveMigrate Move = "migrate"
	// list the devices that the server knows
	MoveDevices Move = "devices"
	// check the configuration
	MoveCheckConfig Move = "check_config"
	// show the format of plan files
	MovePlanSchema Move = "plan_schema"
	// show the format of the configuration
	MoveConfigSchema Move = "config_schema"
	// show the help
	MoveHelp Move = "help"
)

// Hint says what to do next, in words, as a move, or both. Words stand before the move.
type Hint struct {
	// Text is for people and names no command and no option of any door. It is empty
	// if Do is enough.
	Text string `json:"text,omitempty"`
	// Do is empty if Text is enough.
	Do Move `json:"do,omitempty"`
	// Session is the id or the short id of the session for Do. If it is empty, Do is
	// about the current session.
	Session string `json:"session,omitempty"`
	// Step is the step for Do, if Do needs one.
	Step StepID `json:"step,omitzero"`
	// Path is the file or directory for Do. If it is empty, Do is about the current one.
	Path string `json:"path,omitempty"`
}

// Words returns a hint without a move.
func Words(text string) Hint { return Hint{Text: text} }

// Do returns a hint that is only a move. An empty id means the current session.
func Do(m Move, id string) Hint { return Hint{Do: m, Session: id} }

// After returns h with text before its move.
func (h Hint) After(text string) Hint {
	h.Text = text
	return h
}

// Then returns a hint with text and a move. An empty id means the current session.
func Then(text string, m Move, id string) Hint { return Do(m, id).After(text) }

// Asks returns the hint for the session short after the outcome of the command of it is
// unknown. If the command has a capture, the hint asks for the value too: without it the
// step cannot be declared done.
func (p *Plan) Asks(short string, it *Item) Hint {
	if p.Tasks[it.Task-1].Steps[it.Step-1].Run.Capture != "" {
		return Hint{Do: MoveGiveValue, Session: short, Step: it.ID}
	}
	return Do(MoveAnswer, short)
}

// IsZero reports whether h is empty.
func (h Hint) IsZero() bool { return h == Hint{} }

// String returns the text, the move and its objects. It is for logs and tests, which
// belong to no door.
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
