package app

import (
	"context"
	"time"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
)

// Types of the use cases that doors need.
type (
	// Answer is a person's answer to an approve step.
	Answer = engine.Answer

	// Strategy says how a resume handles a file step that was in progress.
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

// Person answers the questions that no policy may decide. If no person can be asked, each
// method answers as NoPerson does.
type Person interface {
	engine.Person

	// Changed asks whether to continue the session of from although files have changed.
	// view returns a description of one such file.
	Changed(ctx context.Context, from Origin, changed []session.ChangedFile, view func(session.ChangedFile) []string) (bool, error)

	// Trust asks whether models may get the files of the workspace. It returns ErrApproval
	// if no person can be asked.
	Trust(ctx context.Context, t Trust) (Answer, error)

	// InProgress asks how to handle foreign content under a step.
	InProgress(ctx context.Context, id session.StepID, foreign []session.FileState) (Strategy, error)

	// OtherModel asks whether to continue with a model that is not the one that was asked
	// before. text says which.
	OtherModel(ctx context.Context, text string) (bool, error)

	// Confirm shows the sessions in found and asks which one to resume. It returns an
	// index below the number shown, or -1 for none. at returns the position of the first
	// session.
	Confirm(ctx context.Context, found []Row, at func() (Position, error)) (int, error)

	// Secret asks for the value of a param that is not recorded, without echo. It returns
	// an empty value if there is none.
	Secret(ctx context.Context, name, about string) (string, error)

	// Cancel asks whether a request to cancel without an answer still counts.
	Cancel(ctx context.Context, request string) (bool, error)
}

// Origin is a session and the file that its plan was read from; empty means none.
type Origin struct{ Short, PlanFile string }

// Again returns the hint that runs the plan from its beginning, introduced by words.
func (o Origin) Again(words string) session.Hint {
	return session.Hint{Text: words, Do: session.MoveBeginAgain, Session: o.Short, Path: o.PlanFile}
}

// Door is the caller that asked for the execution of a session: a command line or a
// program.
type Door interface {
	Person

	// Begin is called once with the state of delivery, after the session is locked and
	// before the first notice. The session is executed under the context that Begin
	// returns. again is closed when the session is asked to end for the second time.
	Begin(ctx context.Context, delivery Delivery) (work context.Context, again <-chan struct{})

	// Notice shows an event. Several goroutines may call it at once.
	Notice(n session.Notice)

	// Watches reports whether the door wants output while commands write it.
	Watches() bool

	// Waits shows that acode waits for a lock, at most for limit, and why.
	Waits(limit time.Duration, why error)
}

// NoPerson is the Person where no person can be asked. It answers only what needs no
// person.
type NoPerson struct{}

// Approve implements engine.Person.
func (NoPerson) Approve(context.Context, session.Item, string) (Answer, error) {
	return Answer{}, session.ErrApproval
}

// Permit implements engine.Person.
func (NoPerson) Permit(context.Context, session.Item, string, string) (Answer, error) {
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

// Trust implements Person.
func (NoPerson) Trust(context.Context, Trust) (Answer, error) {
	return Answer{}, session.ErrApproval
}

// OtherModel implements Person.
func (NoPerson) OtherModel(context.Context, string) (bool, error) {
	return false, session.ErrEnvironment
}

// Confirm implements Person.
func (NoPerson) Confirm(context.Context, []Row, func() (Position, error)) (int, error) {
	return 0, nil
}

// Secret implements Person.
func (NoPerson) Secret(context.Context, string, string) (string, error) { return "", nil }

// Cancel implements Person.
func (NoPerson) Cancel(context.Context, string) (bool, error) { return true, nil }

// asking adapts a Person to the questions of validation.
type asking struct {
	Person
	from Origin
	view func(session.ChangedFile) []string
}

// Changed implements resume.Person.
func (a asking) Changed(ctx context.Context, changed []session.ChangedFile) (bool, error) {
	return a.Person.Changed(ctx, a.from, changed, a.view)
}

// silent is the Door of an agent's calls. The agent gets answers instead of notices.
type silent struct{ NoPerson }

// Begin implements Door.
func (*silent) Begin(ctx context.Context, _ Delivery) (context.Context, <-chan struct{}) {
	return ctx, nil
}

// Notice implements Door.
func (*silent) Notice(session.Notice) {}

// Watches implements Door.
func (*silent) Watches() bool { return false }

// Waits implements Door.
func (*silent) Waits(time.Duration, error) {}
