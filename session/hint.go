package session

import "strings"

// Move is something that a person or a client can do next. Each door knows how it is done
// there: in a shell MoveResume is a command line, for a client it is a call.
type Move string

// The moves.
const (
	// start a session from a plan
	MoveRun Move = "run"
	// give the session up and run its plan as a new one
	MoveBeginAgain Move = "begin_again"
	// continue the session
	MoveResume Move = "resume"
	// continue it in a directory that the person names
	MoveResumeIn Move = "resume_in"
	// continue it as soon as its holder ends
	MoveWait Move = "wait"
	// look at what a resume would do
	MoveForecast Move = "forecast"
	// continue it and say what the changed files mean for it
	MoveDecideChanges Move = "decide_changes"
	// continue it and say what became of its command
	MoveAnswer Move = "answer"
	// the same, or give the value that its command was to print
	MoveGiveValue Move = "give_value"
	// answer the question that it waits for
	MoveApprove Move = "approve"
	// answer the question, then continue
	MoveApproveResume Move = "approve_resume"
	// look at the session
	MoveStatus Move = "status"
	// look at its events
	MoveHistory Move = "history"
	// look at its steps
	MoveShow Move = "show"
	// look at all that a command wrote
	MoveLogs Move = "logs"
	// look at all sessions
	MoveList Move = "list"
	// look at the sessions of the workspace that can be continued
	MoveListHere Move = "list_here"
	// look at all sessions that can be continued
	MoveListResumable Move = "list_resumable"
	// check what is stored
	MoveVerify Move = "verify"
	// see who holds the locks
	MoveUnlock Move = "unlock"
	// give the session up
	MoveCancel Move = "cancel"
	// end its command
	MoveCancelCommand Move = "cancel_command"
	// do the same beside the session that works there
	MoveShareWorkspace Move = "share_workspace"
	// do the same in a directory that the person names
	MoveWorkIn Move = "work_in"
	// do the same and allow the directory
	MoveAllowWorkspace Move = "allow_workspace"
	// look at the delivery
	MoveSyncStatus Move = "sync_status"
	// deliver now
	MoveSyncNow Move = "sync_now"
	// let the delivery continue
	MoveSyncUnpause Move = "sync_unpause"
	// accept another database
	MoveSyncRebind Move = "sync_rebind"
	// look at the refused events
	MoveSyncParked Move = "sync_parked"
	// make a new session of what is here
	MoveForkOff Move = "fork_off"
	// bring the server's schema forward
	MoveMigrate Move = "migrate"
	// look at the devices of the server
	MoveDevices Move = "devices"
	// check the configuration
	MoveCheckConfig Move = "check_config"
	// see the format of plan files
	MovePlanSchema Move = "plan_schema"
	// see the format of the configuration
	MoveConfigSchema Move = "config_schema"
	// see what can be asked for
	MoveHelp Move = "help"
)

// Hint says what to do next: in plain words, by a move, or by both, words first.
type Hint struct {
	// names no command and no option of any door; empty where Do says all
	Text string `json:"text,omitempty"`
	// empty where Text says all
	Do Move `json:"do,omitempty"`
	// id or short id of the session that Do is about; empty: the one at hand
	Session string `json:"session,omitempty"`
	// the step that Do is about, if it needs one
	Step StepID `json:"step,omitzero"`
	// the file or directory that Do is about; empty: the one at hand
	Path string `json:"path,omitempty"`
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

// Asks is the hint for the session short, which stopped since no one can know what became
// of the command of it: a command with a capture is not declared done without its value.
func (p *Plan) Asks(short string, it *Item) Hint {
	if p.Tasks[it.Task-1].Steps[it.Step-1].Run.Capture != "" {
		return Hint{Do: MoveGiveValue, Session: short, Step: it.ID}
	}
	return Do(MoveAnswer, short)
}

// IsZero reports whether h says nothing.
func (h Hint) IsZero() bool { return h == Hint{} }

// String names the move and what it is about. It is for logs and tests, which belong to
// no door.
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
