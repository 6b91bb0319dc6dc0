package session

import "slices"

// State is the state of a session.
type State string

// The states of a session; completed, failed and cancelled are terminal.
const (
	Created          State = "created"
	Planning         State = "planning"
	AwaitingApproval State = "awaiting_approval"
	Executing        State = "executing"
	Paused           State = "paused"
	Completed        State = "completed"
	Failed           State = "failed"
	Cancelled        State = "cancelled"
)

// next lists the states that may follow each state. A state without an entry is terminal.
var next = map[State][]State{
	Created:          {Planning, Paused, Failed, Cancelled},
	Planning:         {AwaitingApproval, Executing, Paused, Failed, Cancelled},
	AwaitingApproval: {Executing, Planning, Paused, Failed, Cancelled},
	Executing:        {AwaitingApproval, Paused, Completed, Failed, Cancelled},
	Paused:           {Planning, AwaitingApproval, Executing, Failed, Cancelled},
}

// Terminal reports whether no state may follow s (FR-004).
func (s State) Terminal() bool { return len(next[s]) == 0 }

// CanBecome reports whether the transition table allows a change from s to to.
func (s State) CanBecome(to State) bool { return slices.Contains(next[s], to) }

// Reason says why a session is paused, failed or cancelled. It is empty if the state
// needs no reason.
type Reason string

// The reasons for a pause.
const (
	ReasonUser        Reason = "user"
	ReasonSignal      Reason = "signal"
	ReasonTimeout     Reason = "timeout"
	ReasonTaskFailed  Reason = "task_failed"
	ReasonApproval    Reason = "approval"
	ReasonEnvironment Reason = "environment"
	ReasonUncertain   Reason = "uncertain"
	ReasonDiskFull    Reason = "disk_full"
	ReasonProvider    Reason = "provider"
	ReasonMaxTurns    Reason = "max_turns"
	ReasonTokens      Reason = "tokens"
	ReasonBudget      Reason = "budget"
	ReasonNoProgress  Reason = "no_progress"
	ReasonPlanning    Reason = "planning"
)

// Status is the status of a step. A step without an entry in its session is Pending.
type Status string

// The statuses of a step.
const (
	Pending       Status = "pending"
	InProgress    Status = "in_progress"
	StepDone      Status = "completed"
	StepFailed    Status = "failed"
	StepUncertain Status = "uncertain"
)
