package session

import "time"

// Action is what a continuation does with a step.
type Action string

// The actions of a continuation.
const (
	// The step is completed and never runs again (FR-020).
	ActionSkip Action = "skip"
	// The step has not started (FR-022).
	ActionExecute Action = "execute"
	// A new attempt follows a failure or a read that was in progress.
	ActionRetry Action = "retry"
	// The step was in progress without any effect. The same attempt runs.
	ActionProceed Action = "proceed"
	// The step was in progress and half done. It is rolled back, then done again
	// (FR-026).
	ActionRollBack Action = "rollback"
	// The step was in progress and is done. This is recorded (FR-025).
	ActionApplied Action = "applied"
	// The command still runs, or its exit status was saved.
	ActionAttach Action = "attach"
	// The outcome is unknown. A check, a policy or a person decides.
	ActionDecide Action = "decide"
)

// Item is one step in a continuation.
type Item struct {
	ID StepID
	// Task is the position in the plan, from 1.
	Task int
	// Step is the position in its task, from 1.
	Step   int
	Title  string
	Label  string
	Kind   Kind
	Action Action
	Status Status
	// Attempt is the one that Action carries out or ends. It is 0 for ActionSkip.
	Attempt int
	// Took is the duration of a skipped step when it ran.
	Took time.Duration
	// Why is one sentence for the log and the person.
	Why string

	// Call and Work are set for a call of an agent or a model. Work is not part of the
	// plan.
	Call *Call
	Work *Step
	// Calls are the calls of a prompt step that were in progress.
	Calls []Item
}

// Of returns the step of p that it carries out.
func (it Item) Of(p *Plan) *Step {
	if it.Work != nil {
		return it.Work
	}
	return &p.Tasks[it.Task-1].Steps[it.Step-1]
}

// WasInProgress reports whether the last attempt of the step has an intent and no
// receipt.
func (it Item) WasInProgress() bool { return it.Status == InProgress || it.Status == StepUncertain }

// Continuation lists the remaining steps of a session (FR-019 to FR-022). Items holds
// each step of the plan exactly once, in the order of the tasks. Execution begins with
// the steps in progress; the others follow in this order.
type Continuation struct {
	Items []Item
	// Skipped counts the completed steps.
	Skipped int
	// Remaining counts the other steps, including those in progress.
	Remaining int
	// Saved is the sum of the durations of the skipped steps.
	Saved time.Duration
	// InProgress holds indexes into Items of the steps that were in progress, in the
	// order of their intents.
	InProgress []int
	TasksDone  int
	Tasks      int
}

// First returns the item with which execution begins: the first item in progress, else
// the first remaining item. It returns false if no step remains.
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

// Stands returns the current item of s. If s stopped at a question, this is the question;
// otherwise it is First, which can be an earlier step that failed. Stands returns false
// if no step remains.
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

// Ask returns the move m for answering a question of s. It names the first open question
// if there are several.
func (c *Continuation) Ask(m Move, s *Session) Hint {
	h, open := Do(m, s.Short), 0
	for _, it := range c.Items {
		st := s.Steps[it.ID]
		if st == nil || st.Approval == nil || st.Approval.Answer != "" || st.Status == StepDone {
			continue
		}
		if open++; open == 1 {
			h.Step = it.ID
			h.Step.Op = st.Approval.Op
		}
	}
	if open < 2 {
		h.Step = StepID{}
	}
	return h
}

// NoticeKind is the subject of a Notice.
type NoticeKind string

// The kinds of notices, roughly in the order in which they appear.
const (
	// A session begins or continues; Text is its task.
	NoticeSession NoticeKind = "session"
	// A line of environment validation about something that has not changed.
	NoticeCheck NoticeKind = "check"
	// a changed file
	NoticeChanged NoticeKind = "changed"
	// the header block of a continuation
	NoticeHeader NoticeKind = "header"
	// ● A step runs.
	NoticeStarted NoticeKind = "started"
	// acode's decision about a step that was in progress
	NoticeHandling NoticeKind = "handling"
	// a line of the last output of a command
	NoticeOutput NoticeKind = "output"
	// Lines of a command are not shown. Text says how many.
	NoticeLagging NoticeKind = "lagging"
	// ✓ A receipt is durable.
	NoticeCompleted NoticeKind = "completed"
	// ✗ A receipt is durable.
	NoticeFailed NoticeKind = "failed"
	// ? The event is durable.
	NoticeUncertain NoticeKind = "uncertain"
	// The session asks for an approval.
	NoticeAsking  NoticeKind = "asking"
	NoticeInfo    NoticeKind = "info"
	NoticeWarning NoticeKind = "warning"
	// The last notice; it agrees with the exit status.
	NoticeResult NoticeKind = "result"
)

// Notice is a message to a person or a script. acode sends it only after the fact that it
// reports is durable.
type Notice struct {
	Kind NoticeKind
	// Seq is that of the event behind the notice, see Facts. It is 0 if there is no
	// event.
	Seq uint64
	// TimeUS is the time of that event. For a line of output it is the time at which
	// acode read the line; 0 means unknown.
	TimeUS int64
	// Session is set for NoticeSession, NoticeHeader and NoticeResult.
	Session *Session
	// Next is set for NoticeHeader.
	Next *Continuation
	// Item is set for notices about a step.
	Item *Item
	// Stream is set for output. It is empty if it is unknown.
	Stream Stream
	// Text is redacted.
	Text string
	// Detail holds further lines.
	Detail  []string
	Took    time.Duration
	Changed *ChangedFile
	// Level is set for NoticeHandling.
	Level  Action
	Result *Result
	// Hint says what a person can do about it.
	Hint Hint
}

// Stream names the output to which a command wrote.
type Stream string

// A command has one pipe for both streams, which keeps their order. A command with a
// capture has one pipe for each.
const (
	BothStreams Stream = "both"
	Stdout      Stream = "stdout"
	Stderr      Stream = "stderr"
)

// Result describes how a process ended its work on a session.
type Result struct {
	Session ID
	Short   string
	State   State
	Reason  Reason
	Done    int
	Left    int
	// Calls is above 0 for the session of an outside agent.
	Calls int
	// Code is empty if the work succeeded.
	Code    Code
	Message string
	// Next says how to continue the session. It is empty if nothing is left to do.
	Next Hint
	// Signal is the number of the signal that ended the process; 0 means none.
	Signal int
}
