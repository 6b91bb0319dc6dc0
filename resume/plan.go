package resume

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/acode-dev/acode/session"
)

// Seen holds the findings about a step that was in progress when the session stopped. The
// zero value means that there was nothing to look at.
type Seen struct {
	// Progress is set for a file step.
	Progress session.Progress
	// Foreign lists content of a file step that is neither pre-image nor post-image.
	Foreign []session.FileState
	// Files is the intent of a file step.
	Files []session.Transition
	// Record is set for a command.
	Record session.CommandRecord
}

// Strategy decides about foreign content under a step in progress (FR-027).
type Strategy string

// The strategies. StrategyPrompt acts as StrategyRollBack if no one can be asked.
const (
	// StrategyRollBack is the default (FR-028).
	StrategyRollBack Strategy = "rollback"
	StrategyRetry    Strategy = "retry"
	StrategyPrompt   Strategy = "prompt"
)

// Choices are the decisions that Plan applies.
type Choices struct {
	// An empty InProgress means StrategyRollBack.
	InProgress Strategy
	// RestartStep rolls back a file step that was in progress even if it is done.
	RestartStep bool
	Redact      func(string) string

	// Captures holds the values that a person gives for commands with unknown outcomes.
	Captures map[session.StepID]string
}

// unwanted returns ErrUsage if a value is given for a step that does not wait for one.
func (c Choices) unwanted(p *session.Plan, next session.Continuation) error {
	for id := range c.Captures {
		waits := slices.ContainsFunc(next.Items, func(it session.Item) bool {
			run := it.Of(p).Run
			return it.ID == id && it.Action == session.ActionDecide && run != nil && run.Capture != ""
		})
		if !waits {
			return &session.Error{Code: session.ErrUsage, Message: "a value was given for " + id.String() + ", which is not a command with a capture and an unknown outcome; the session is unchanged"}
		}
	}
	return nil
}

// Plan computes the remaining steps of p in session s. The result contains each step of p
// exactly once. Equal arguments give equal results (FR-036). Plan returns ErrPlanning if
// s and p do not belong together.
func Plan(p *session.Plan, s *session.Session, seen map[session.StepID]Seen, c Choices) (session.Continuation, error) {
	order, cycle := p.Order()
	if cycle != nil {
		return session.Continuation{}, &session.Error{Code: session.ErrPlanning, Message: fmt.Sprintf("the tasks of the plan depend on each other: %v; the session is unchanged", cycle)}
	}
	if err := belongs(p, s); err != nil {
		return session.Continuation{}, err
	}
	next := session.Continuation{Tasks: len(p.Tasks), Items: make([]session.Item, 0, p.Steps())}
	for _, i := range order {
		task := &p.Tasks[i]
		done := 0
		for j := range task.Steps {
			it := item(task, i, j, s, seen, c)
			if it.Action == session.ActionSkip {
				next.Skipped++
				next.Saved += it.Took
				done++
			} else {
				next.Remaining++
			}
			if it.WasInProgress() {
				next.InProgress = append(next.InProgress, len(next.Items))
			}
			next.Items = append(next.Items, it)
		}
		if done == len(task.Steps) {
			next.TasksDone++
		}
	}
	slices.SortFunc(next.InProgress, func(a, b int) int {
		return cmp.Compare(s.Steps[next.Items[a].ID].StartSeq, s.Steps[next.Items[b].ID].StartSeq)
	})
	return next, nil
}

// belongs returns ErrPlanning if a step of s is not in p.
func belongs(p *session.Plan, s *session.Session) error {
	known := make(map[session.StepID]bool, p.Steps())
	for id := range p.All() {
		known[id] = true
	}
	for id := range s.Steps {
		if !known[id] {
			return &session.Error{Code: session.ErrPlanning, Message: fmt.Sprintf("the journal has the step %s, but the plan does not; the session is unchanged", id),
				Next: session.Do(session.MoveVerify, s.Short)}
		}
	}
	return nil
}

func item(task *session.Task, i, j int, s *session.Session, seen map[session.StepID]Seen, c Choices) session.Item {
	step := &task.Steps[j]
	it := session.Item{
		ID:   session.StepID{Task: task.ID, Step: step.ID},
		Task: i + 1, Step: j + 1, Title: task.Title, Label: step.Label(), Kind: step.Kind, Status: session.Pending,
	}
	if it.Title == "" {
		it.Title = task.ID
	}
	if c.Redact != nil {
		it.Title, it.Label = c.Redact(it.Title), c.Redact(it.Label)
	}
	st := s.Steps[it.ID]
	if st != nil {
		it.Status = st.Status
		it.Attempt = st.Attempt
	}
	switch it.Status {
	case session.StepDone:
		it.Action, it.Attempt, it.Why = session.ActionSkip, 0, "completed before"
		it.Took = time.Duration(st.EndedUS-st.StartedUS) * time.Microsecond
	case session.StepFailed:
		failedBefore(&it, st, step.Run)
	case session.StepUncertain:
		it.Action, it.Why = decide(st.Message, step.Run)
	case session.InProgress:
		inProgress(&it, step, seen[it.ID], c)
	default:
		it.Action, it.Why = session.ActionExecute, "not started"
		it.Attempt++
	}
	return it
}

// failedBefore plans a new attempt of a failed step. If acode itself ended the command,
// the command may have done its work, so its check runs first.
func failedBefore(it *session.Item, st *session.StepState, r *session.Run) {
	it.Action, it.Why = session.ActionRetry, "failed before; a new attempt"
	switch {
	case r == nil || !st.Code.Ordered():
	case r.Check != "":
		it.Action, it.Why = session.ActionDecide, st.Message+"; acode runs its check before it runs the command again"
		return
	default:
		it.Why = st.Message + "; it has no check, so it runs again"
	}
	it.Attempt++
}

// inProgress chooses the action for a step with a durable intent and no durable receipt.
func inProgress(it *session.Item, step *session.Step, seen Seen, c Choices) {
	switch it.Kind {
	case session.KindRead, session.KindSearch:
		it.Action, it.Why = session.ActionRetry, "reads are simply repeated"
	case session.KindApprove:
		it.Action, it.Why = session.ActionProceed, "the gate was open"
	case session.KindPrompt:
		it.Action, it.Why = session.ActionProceed, "the conversation continues"
	case session.KindCalls:
		it.Action, it.Why = session.ActionProceed, "it waits for its agent"
	case session.KindRun:
		if it.Action, it.Why = command(seen.Record, step.Run); it.Action == session.ActionRetry {
			it.Attempt++
		}
	default:
		fileStep(it, seen, c)
	}
}

func command(rec session.CommandRecord, r *session.Run) (session.Action, string) {
	by := rec.Interruption()
	switch {
	case rec.State == session.CommandUnclaimed:
		return session.ActionProceed, "the command was never started"
	case rec.State == session.CommandVoid:
		return session.ActionRetry, "the command was never started, so it starts as a new attempt: " + rec.Why
	case rec.State == session.CommandRunning, rec.State == session.CommandUnattended:
		return session.ActionAttach, "the command still runs"
	case rec.State == session.CommandFinished && by != "":
		return decide("it was ended by "+by, r)
	case rec.WasCancelled() && r != nil && r.Check != "":
		return session.ActionDecide, cancelledBefore + "; acode runs its check before it runs the command again"
	case rec.WasCancelled():
		return session.ActionRetry, cancelledBefore + "; it has no check, so it runs again"
	case rec.State == session.CommandFinished:
		return session.ActionAttach, "the command has finished; its exit status was saved"
	}
	return decide(rec.Why, r)
}

// cancelledBefore is the reason for running a command again. A person ended the command
// while no acode process waited for it.
const cancelledBefore = "the command was ended on request"

// decide describes an unknown outcome and the way in which it is decided.
func decide(why string, r *session.Run) (session.Action, string) {
	said := "its outcome is unknown: " + why
	if r != nil { // Without r the session is over.
		said += "; " + r.Foresee("")
	}
	return session.ActionDecide, said
}

func fileStep(it *session.Item, seen Seen, c Choices) {
	switch {
	case seen.Progress == session.Foreign && c.InProgress == StrategyRetry:
		it.Action, it.Why = session.ActionRetry, "the files hold other content; the step runs again on top of it"
		it.Attempt++
	case seen.Progress == session.Foreign:
		it.Action, it.Why = session.ActionRollBack, "the files hold other content; rolled back, then done again"
	case seen.Progress == session.Partial:
		it.Action, it.Why = session.ActionRollBack, "partially written; rolled back, then done again"
	case seen.Progress == session.Applied && c.RestartStep:
		it.Action, it.Why = session.ActionRollBack, "already applied; rolled back as requested, then done again"
	case seen.Progress == session.Applied:
		it.Action, it.Why = session.ActionApplied, "already applied"
	default:
		it.Action, it.Why = session.ActionProceed, "no part of it was done"
	}
}
