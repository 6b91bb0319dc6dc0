package app

import (
	"context"
	"time"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
)

// What doors say and are told, in the words of the use cases.
type (
	// Answer is what a person said to an approve step.
	Answer = engine.Answer

	// Strategy says what becomes of a file step that was in progress.
	Strategy = resume.Strategy

	// Interrupted is the cause of a context that a signal ended.
	Interrupted = engine.Interrupted
)

// The strategies that a person can choose.
const (
	RollBack = resume.StrategyRollBack
	Retry    = resume.StrategyRetry
)

// ContinueOnChanges is the value of resume.changed_files_action that accepts changed
// files.
const ContinueOnChanges = string(resume.ChangesContinue)

// Person answers what no policy may decide. Where no one can be asked, each method
// answers as NoPerson does.
type Person interface {
	engine.Person

	// Changed asks whether to continue the session of from although files changed; view
	// shows such a file.
	Changed(ctx context.Context, from Origin, changed []session.ChangedFile, view func(session.ChangedFile) []string) (bool, error)

	// InProgress asks how to handle foreign content under a step.
	InProgress(ctx context.Context, id session.StepID, foreign []session.FileState) (Strategy, error)

	// Confirm shows the sessions that were found, of which the first stands at the
	// position that at gives, and asks which to resume: one of the first few, or -1 for
	// none.
	Confirm(ctx context.Context, found []Row, at func() (Position, error)) (int, error)

	// Secret asks for the value of a param that is not recorded, in a way that no one can
	// read along. An empty one is none.
	Secret(ctx context.Context, name, about string) (string, error)

	// Cancel asks whether a request to cancel that has had no answer still counts.
	Cancel(ctx context.Context, request string) (bool, error)
}

// Origin is a session, and the file that its plan was read from; empty: none.
type Origin struct{ Short, PlanFile string }

// Again is how the plan is run from its beginning, behind words that lead to it.
func (o Origin) Again(words string) session.Hint {
	return session.Hint{Text: words, Do: session.MoveBeginAgain, Session: o.Short, Path: o.PlanFile}
}

// Door is the side that asked for a session to be carried out: a command line, or a
// program.
type Door interface {
	Person

	// Begin is called once, when the session is in hand and before the first notice, with
	// how delivery stands. The session is carried out under the context that it returns;
	// again is closed when the session is asked a second time to end.
	Begin(ctx context.Context, delivery Delivery) (work context.Context, again <-chan struct{})

	// Notice tells what happens. It may be called from several goroutines at once.
	Notice(n session.Notice)

	// Watches reports whether output is wanted while it is written.
	Watches() bool

	// Waits says that a lock is waited for, at most for limit, and why.
	Waits(limit time.Duration, why error)
}

// NoPerson is the Person where no one can be asked. It answers what needs no person.
type NoPerson struct{}

// Approve implements engine.Person.
func (NoPerson) Approve(context.Context, session.Item, string) (Answer, error) {
	return Answer{}, session.ErrApproval
}

// Linger implements engine.Person.
func (NoPerson) Linger(context.Context, session.Item, []string) (bool, error) {
	return false, session.ErrUncertain
}

// Left implements engine.Person.
func (NoPerson) Left(context.Context) <-chan struct{} { return nil }

// Uncertain implements engine.Person.
func (NoPerson) Uncertain(context.Context, session.Item, []string, string) (session.OnInterrupt, error) {
	return "", session.ErrUncertain
}

// Changed implements Person.
func (NoPerson) Changed(context.Context, Origin, []session.ChangedFile, func(session.ChangedFile) []string) (bool, error) {
	return false, session.ErrEnvironment
}

// InProgress implements Person: the configuration decides.
func (NoPerson) InProgress(context.Context, session.StepID, []session.FileState) (Strategy, error) {
	return "", nil
}

// Confirm implements Person.
func (NoPerson) Confirm(context.Context, []Row, func() (Position, error)) (int, error) {
	return 0, nil
}

// Secret implements Person.
func (NoPerson) Secret(context.Context, string, string) (string, error) { return "", nil }

// Cancel implements Person.
func (NoPerson) Cancel(context.Context, string) (bool, error) { return true, nil }

// asking lets a Person answer what validation asks.
type asking struct {
	Person
	from Origin
	view func(session.ChangedFile) []string
}

// Changed implements resume.Person.
func (a asking) Changed(ctx context.Context, changed []session.ChangedFile) (bool, error) {
	return a.Person.Changed(ctx, a.from, changed, a.view)
}
