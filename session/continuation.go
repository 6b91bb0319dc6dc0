package session

import "time"

// Action is what a continuation does with a step.
type Action string

// The actions of a continuation.
const (
	ActionSkip     Action = "skip"     // completed before: never again (FR-020)
	ActionExecute  Action = "execute"  // not started yet (FR-022)
	ActionRetry    Action = "retry"    // a new attempt after a failure, or a read that was in progress
	ActionProceed  Action = "proceed"  // in progress, nothing of it happened: do it, same attempt
	ActionRollBack Action = "rollback" // in progress and half done: roll back, then do it again (FR-026)
	ActionApplied  Action = "applied"  // in progress and done: record it (FR-025)
	ActionAttach   Action = "attach"   // a command that still runs, or whose result was saved
	ActionDecide   Action = "decide"   // the outcome is unknown: check, policy or a person
)

// Item is one step in a continuation.
type Item struct {
	ID      StepID
	Task    int // position in the plan, from 1
	Step    int // position in its task, from 1
	Title   string
	Label   string
	Kind    Kind
	Action  Action
	Status  Status
	Attempt int           // the attempt that Action carries out or ends; 0 for Skip
	Took    time.Duration // of Skip: how long that work took
	Why     string        // one sentence for the log and the person
}

// WasInProgress reports whether the last attempt of it has an intent and no receipt.
func (it Item) WasInProgress() bool { return it.Status == InProgress || it.Status == StepUncertain }

// Continuation is what is left of a session, in order of execution (FR-019 to FR-022),
// but that the items in progress come first. Items holds each step of the plan exactly
// once.
type Continuation struct {
	Items      []Item
	Skipped    int           // completed before
	Remaining  int           // to do, in progress included
	Saved      time.Duration // what the skipped work took
	InProgress []int         // indexes into Items of the steps that were in progress, in the order of their intents
	TasksDone  int
	Tasks      int
}

// First is the item where the session stood, with which execution begins: the first in
// progress, else the first that is left; false when none is.
func (c *Continuation) First() (Item, bool) {
	if len(c.InProgress) > 0 {
		return c.Items[c.InProgress[0]], true
	}
	for _, it := range c.Items {
		if it.Action != ActionSkip {
			return it, true
		}
	}
	return Item{}, false
}

// Stands is the item at which s stands: the question that it stopped at, else the one
// with which execution begins, which can be an earlier one that failed. False when none
// is left.
func (c *Continuation) Stands(s *Session) (Item, bool) {
	if s.State != AwaitingApproval && s.Reason != ReasonApproval {
		return c.First()
	}
	var at *StepState
	var asked Item
	for _, it := range c.Items {
		if st := s.Steps[it.ID]; it.Action != ActionSkip && st != nil && st.Approval != nil && (at == nil || st.LastSeq > at.LastSeq) {
			at, asked = st, it
		}
	}
	if at == nil {
		return c.First()
	}
	return asked, true
}

// Ask is the move m that answers a question of s. It names the first one where several
// are open.
func (c *Continuation) Ask(m Move, s *Session) Hint {
	h, open := Do(m, s.Short), 0
	for _, it := range c.Items {
		st := s.Steps[it.ID]
		if st == nil || st.Approval == nil || st.Approval.Answer != "" || st.Status == StepDone {
			continue
		}
		if open++; open == 1 {
			h.Step = it.ID
		}
	}
	if open < 2 {
		h.Step = StepID{}
	}
	return h
}

// NoticeKind says what a Notice is about.
type NoticeKind string

// The kinds of notices, in about the order in which a session gives them.
const (
	NoticeSession   NoticeKind = "session"   // a session begins or goes on; Text is its task
	NoticeCheck     NoticeKind = "check"     // a line of environment validation: what is as it should be
	NoticeChanged   NoticeKind = "changed"   // a changed file
	NoticeHeader    NoticeKind = "header"    // the header block of a continuation
	NoticeStarted   NoticeKind = "started"   // ● a step runs
	NoticeHandling  NoticeKind = "handling"  // how a step that was in progress is handled
	NoticeOutput    NoticeKind = "output"    // a line that a command wrote
	NoticeLagging   NoticeKind = "lagging"   // lines that a command wrote are not shown; Text says how many
	NoticeCompleted NoticeKind = "completed" // ✓ a receipt is durable
	NoticeFailed    NoticeKind = "failed"    // ✗ likewise
	NoticeUncertain NoticeKind = "uncertain" // ? likewise
	NoticeAsking    NoticeKind = "asking"    // an approval is wanted
	NoticeInfo      NoticeKind = "info"
	NoticeWarning   NoticeKind = "warning"
	NoticeResult    NoticeKind = "result" // the last one; agrees with the exit status
)

// Notice is something that the person or script at the other end learns. It is given only
// after what it says is durable.
type Notice struct {
	Kind    NoticeKind
	Seq     uint64        // of the event that says it, see Facts; 0: no event does
	TimeUS  int64         // of that event; of a line of output without one, when acode read it; 0: unknown
	Session *Session      // of session, header and result
	Next    *Continuation // of header
	Item    *Item         // of a step
	Stream  Stream        // of output; empty: unknown
	Text    string        // redacted
	Detail  []string      // further lines
	Took    time.Duration
	Changed *ChangedFile
	Level   Action // of handling
	Result  *Result
	Hint    Hint // what a person may do about it
}

// Stream says where a command wrote.
type Stream string

// A command has one pipe for both streams, so that their order is kept, or with a capture
// one for each.
const (
	BothStreams Stream = "both"
	Stdout      Stream = "stdout"
	Stderr      Stream = "stderr"
)

// Result is how a process ended its work on a session.
type Result struct {
	Session ID
	Short   string
	State   State
	Reason  Reason
	Done    int
	Left    int
	Code    Code // empty when all is well
	Message string
	Next    Hint // what continues the session; empty when nothing is left
	Signal  int  // number of the signal that ended it; 0 for none
}
