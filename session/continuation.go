package session

import "time"

// Action is what a continuation does with a step.
type Action string

// The actions of a continuation.
const (
	// completed before: never again (FR-020)
	ActionSkip Action = "skip"
	// not started yet (FR-022)
	ActionExecute Action = "execute"
	// a new attempt after a failure, or a read that was in progress
	ActionRetry Action = "retry"
	// in progress, nothing of it happened: do it, same attempt
	ActionProceed Action = "proceed"
	// in progress and half done: roll back, then do it again (FR-026)
	ActionRollBack Action = "rollback"
	// in progress and done: record it (FR-025)
	ActionApplied Action = "applied"
	// a command that still runs, or whose result was saved
	ActionAttach Action = "attach"
	// the outcome is unknown: check, policy or a person
	ActionDecide Action = "decide"
)

// Item is one step in a continuation.
type Item struct {
	ID StepID
	// position in the plan, from 1
	Task int
	// position in its task, from 1
	Step   int
	Title  string
	Label  string
	Kind   Kind
	Action Action
	Status Status
	// the attempt that Action carries out or ends; 0 for Skip
	Attempt int
	// of Skip: how long that work took
	Took time.Duration
	// one sentence for the log and the person
	Why string
}

// WasInProgress reports whether the last attempt of it has an intent and no receipt.
func (it Item) WasInProgress() bool { return it.Status == InProgress || it.Status == StepUncertain }

// Continuation is what is left of a session, in order of execution (FR-019 to FR-022),
// but that the items in progress come first. Items holds each step of the plan exactly
// once.
type Continuation struct {
	Items []Item
	// completed before
	Skipped int
	// to do, in progress included
	Remaining int
	// what the skipped work took
	Saved time.Duration
	// indexes into Items of the steps that were in progress, in the order of their
	// intents
	InProgress []int
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
	// a session begins or goes on; Text is its task
	NoticeSession NoticeKind = "session"
	// a line of environment validation: what is as it should be
	NoticeCheck NoticeKind = "check"
	// a changed file
	NoticeChanged NoticeKind = "changed"
	// the header block of a continuation
	NoticeHeader NoticeKind = "header"
	// ● a step runs
	NoticeStarted NoticeKind = "started"
	// how a step that was in progress is handled
	NoticeHandling NoticeKind = "handling"
	// a line of the end of what a command wrote
	NoticeOutput NoticeKind = "output"
	// ✓ a receipt is durable
	NoticeCompleted NoticeKind = "completed"
	// ✗ likewise
	NoticeFailed NoticeKind = "failed"
	// ? likewise
	NoticeUncertain NoticeKind = "uncertain"
	// an approval is wanted
	NoticeAsking  NoticeKind = "asking"
	NoticeInfo    NoticeKind = "info"
	NoticeWarning NoticeKind = "warning"
	// the last one; agrees with the exit status
	NoticeResult NoticeKind = "result"
)

// Notice is something that the person or script at the other end learns. It is given only
// after what it says is durable.
type Notice struct {
	Kind NoticeKind
	// of the event that says it, see Facts; 0: no event does
	Seq uint64
	// of that event; of a line of output without one, when acode read it; 0: unknown
	TimeUS int64
	// of session, header and result
	Session *Session
	// of header
	Next *Continuation
	// of a step
	Item *Item
	// redacted
	Text string
	// further lines
	Detail  []string
	Took    time.Duration
	Changed *ChangedFile
	// of handling
	Level  Action
	Result *Result
	// what a person may do about it
	Hint Hint
}

// Result is how a process ended its work on a session.
type Result struct {
	Session ID
	Short   string
	State   State
	Reason  Reason
	Done    int
	Left    int
	// empty when all is well
	Code    Code
	Message string
	// what continues the session; empty when nothing is left
	Next Hint
	// number of the signal that ended it; 0 for none
	Signal int
}
