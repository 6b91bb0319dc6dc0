package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/lock"
	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/workspace"
)

// Start describes a new session.
type Start struct {
	Plan *session.Plan
	// ID is the id of the session; empty for a new one.
	ID session.ID
	// Params must be complete.
	Params Params
	// Source is the file of Plan.
	Source PlanSource
	// Timeout is the time after which the session is paused; 0 means never.
	Timeout time.Duration

	// MaxParallel is how many steps may run at once. If it is 0, the plan or the
	// configuration decides.
	MaxParallel int
	// PlanOnly pauses the session when a model has made a plan.
	PlanOnly bool
}

// Resume selects the session to continue, with decisions made in advance.
type Resume struct {
	// Ref names the session; empty means the most recent one of the workspace.
	Ref string
	// Timeout is the time after which the session is paused; 0 means never.
	Timeout time.Duration
	// After is the epoch that the session must be in. With nil it may be in any.
	After *uint64
	Choices
}

// PlanSource is the file that a plan was read from. The zero value means no file.
type PlanSource struct {
	// File is an absolute path.
	File string
	// Sum is the SHA-256 of the file's content in hex.
	Sum string
}

// Choices decide questions of a resume that the settings do not decide.
type Choices struct {
	// Uncertain handles all commands in progress whose outcome is unknown; empty means
	// the plan decides.
	Uncertain session.OnInterrupt
	// Outcomes is as Uncertain, but for single steps.
	Outcomes map[session.StepID]session.OnInterrupt
	// Captures are values from a person for commands whose outcome is unknown.
	Captures map[session.StepID]string
	// RestartStep rolls back the file step that was in progress even if it is complete.
	RestartStep bool
	// Force skips dependency checks.
	Force bool
	// Renew replaces the inputs with the present environment.
	Renew bool
	// MaxParallel is how many steps may run at once in this resume; 0 means as many as at
	// the start.
	MaxParallel int
	// Model replaces the models of the remaining prompts; empty keeps them.
	Model string
	// Explicit means that the choice about changed files was made for this resume, not in
	// the settings.
	Explicit bool

	// Edited reports whether the file now holds another plan than p. A nil Edited means
	// that the file is not compared.
	Edited func(from PlanSource, p *session.Plan) bool
}

// Outcome is the result of a start or a resume.
type Outcome struct {
	// Session is nil if it could not be made or read.
	Session *session.Session
	// Result is zero if an error ended the session.
	Result session.Result
}

// ErrDeclined is the error of a resume that a person declined.
var ErrDeclined = errors.New("not this session")

// work is one session that this process executes, from its locks to its result.
type work struct {
	*Site
	door Door
	// nil until the session is executed
	teller *teller
	writer *local.Writer
	plan   *session.Plan
	// nil if git was not asked yet
	git   *gitAsked
	fresh bool
	// models is nil unless steps ask one
	models *presence
	// most is nil before the limits of this process are worked out
	most *engine.Limits
	// trustAsked says that the person was asked about the files of the workspace
	trustAsked bool
	// planOnly pauses the session when a model has made a plan
	planOnly bool
	// nil until it is read
	created *session.SessionCreatedData
	timeout time.Duration
	choices Choices
	// as in Resume
	after *uint64
	// includes the secrets of a session that is continued
	params Params
	// nil if none were recorded
	inputs *session.Inputs
	// state of delivery at the start; empty if delivery is off
	sync  session.SyncState
	tally tally
	// when a continued session stopped; 0 for a new session
	restUS int64
	// names this process in the locks; zero to ask when they are taken
	self lock.Holder
	// used once the person knows that the files of the workspace are not trusted
	mistrust sync.Once
}

// Start makes a session of a plan and executes it. The caller must first call Learn for
// the plan, and Guard. Close releases the locks that Start takes.
func (s *Site) Start(ctx context.Context, door Door, o Start) (Outcome, error) {
	// The stored plan records MaxParallel, whether option, plan or configuration sets it.
	filled, err := s.fillModels(o.Plan)
	if err != nil {
		return Outcome{}, err
	}
	p := *filled
	if p.MaxParallel = cmp.Or(o.MaxParallel, p.MaxParallel); !p.Planned() {
		p.MaxParallel = cmp.Or(p.MaxParallel, s.Settings.Config.MaxParallel)
	}
	w := &work{Site: s, door: door, plan: &p, params: o.Params, fresh: true, planOnly: o.PlanOnly, timeout: o.Timeout, tally: tally{now: s.Now}}
	err = w.create(ctx, o.ID, o.Source)
	var out Outcome
	if err == nil {
		out, err = w.execute(ctx)
	}
	w.note(ctx, out.Result, err)
	return out, errors.Join(err, w.close())
}

// Resume continues a session. If the session could be read but not locked, Resume returns
// its error with an Outcome that holds the session. Close releases the locks that Resume
// takes.
func (s *Site) Resume(ctx context.Context, door Door, o Resume) (Outcome, error) {
	w := &work{Site: s, door: door, timeout: o.Timeout, choices: o.Choices, after: o.After, tally: tally{now: s.Now}}
	var out Outcome
	id, err := w.load(ctx, o.Ref)
	if err == nil && s.Talks == nil && w.planned(ctx) == nil && Asks(w.plan, w.writer.Session()) {
		return Outcome{Session: w.writer.Session()}, errors.Join(ErrNeedsModels, w.close())
	}
	if err == nil {
		out, err = w.execute(ctx)
	} else {
		out.Session, err = w.refuse(ctx, id, err)
	}
	w.note(ctx, out.Result, err)
	return out, errors.Join(err, w.close())
}

// create locks a new session before it is stored, then stores it. It makes an id if id is
// empty.
func (w *work) create(ctx context.Context, id session.ID, from PlanSource) (err error) {
	if id == "" {
		if id, err = w.store.NewID(); err != nil {
			return err
		}
	} else if _, err := w.store.View(ctx, id); err == nil {
		return &session.Error{Code: session.ErrConflict, Message: "the session exists already; nothing was changed", Next: session.Do(session.MoveStatus, string(id))}
	}
	w.locks, err = w.take(id)
	w.tally.lock(err)
	if err != nil {
		return err
	}
	w.tidy(ctx, id)
	if err := w.record(ctx); err != nil {
		return err
	}
	config, err := json.Marshal(w.Settings.Keys())
	if err != nil {
		return err
	}
	w.writer, err = w.store.Create(ctx, local.NewSession{
		ID: id, Task: w.plan.Task, Workspace: w.Workspace, Plan: w.plan, Inputs: w.inputs, PlanFile: from.File, PlanSum: from.Sum, Config: string(config),
	})
	return err
}

// execute prepares the session and executes it. It also shows the result.
func (w *work) execute(ctx context.Context) (Outcome, error) {
	delivery, err := w.Delivery(ctx, w.writer.Session().ID)
	if err != nil {
		return Outcome{}, err
	}
	if w.timeout == 0 && w.Talks != nil && w.planned(ctx) == nil && w.asks() {
		w.timeout = w.Settings.Config.Limits.Time
	}
	if w.timeout > 0 {
		limited, end := context.WithTimeoutCause(ctx, w.timeout, session.ErrTimeout)
		// The door uses limited until it has shown everything, so end must not run
		// earlier.
		context.AfterFunc(ctx, end)
		ctx = limited
	}
	w.sync = delivery.State
	own := w.writer.Session().ID
	w.awaits(own)
	defer w.announce(context.WithoutCancel(ctx), own)
	ctx, again := w.door.Begin(ctx, delivery)
	result, err := w.under(ctx, again)
	out := Outcome{Session: w.writer.Session(), Result: result}
	if err != nil {
		err = about(out.Session.Short, Shortage(err))
		w.Log.Error("stopped", "event", "error", "session_id", out.Session.Short, "code", string(session.CodeOf(err)), "error", err.Error())
		return out, err
	}
	said := session.Notice{Kind: session.NoticeResult, Session: out.Session, Result: &result}
	if w.teller != nil { // else nothing was executed
		said.Seq, said.TimeUS = w.teller.last.Seq, w.teller.last.TimeUS
	}
	w.door.Notice(said)
	return out, nil
}

// under executes the session under the context of its door.
func (w *work) under(ctx context.Context, again <-chan struct{}) (session.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer w.deliver(cancel)()
	result, err := w.prepare(ctx, again)
	var sig Interrupted
	switch {
	case err == nil:
		return result, nil
	case errors.As(context.Cause(ctx), &sig) && (errors.Is(err, sig) || errors.Is(err, ctx.Err())):
		return w.untouched(sig), nil
	}
	return session.Result{}, w.behind(ctx, err)
}

// prepare opens the workspace and the supervisor, and executes the session.
func (w *work) prepare(ctx context.Context, again <-chan struct{}) (session.Result, error) {
	for _, what := range loadWarnings(w.writer.Report()) {
		w.Log.Warn("the session or its store has a problem", "event", "session_problem", "session_id", w.writer.Session().Short, "what", what)
		w.warn(what)
	}
	if w.fresh {
		w.recall(ctx)
	}
	root, err := workspace.Open(w.Workspace, w.Now)
	if err != nil {
		return session.Result{}, err
	}
	defer root.Close()
	root.Redact = w.Redactor
	if err := w.planned(ctx); err != nil {
		return session.Result{}, err
	}
	if err := w.modelsThere(); err != nil {
		return session.Result{}, err
	}
	if !w.fresh {
		w.sweepWorkspace(root)
		if then := w.edited(ctx); !then.IsZero() {
			w.door.Notice(session.Notice{Kind: session.NoticeWarning, Hint: then})
		}
	}
	if w.asks() {
		defer w.look(ctx)()
	}
	w.writer.Warm()
	runner := w.runner()
	defer runner.Close()
	if w.plan.Agent != nil {
		return w.settleCalls(ctx, root, runner)
	}
	if w.runsNext() {
		runner.Warm()
	}
	result, err := w.carryOut(ctx, again, root, runner)
	if err == nil && w.writer.Session().State.Terminal() {
		err := command.ForgetAll(w.commandDir(w.writer.Session().ID)) // a kill may have left some
		if err = errors.Join(err, os.RemoveAll(w.repliesDir(w.writer.Session().ID))); err != nil {
			w.Log.Warn("cannot remove raw outputs", "event", "outputs_left", "error", err.Error())
		}
	}
	return result, err
}

// planned reads the plan of a session that is continued.
func (w *work) planned(ctx context.Context) (err error) {
	if w.plan != nil {
		return nil
	}
	if w.plan, err = w.writer.Plan(ctx); err != nil {
		return err
	}
	w.plan.MaxParallel = cmp.Or(w.choices.MaxParallel, w.plan.MaxParallel)
	w.Learn(w.plan)
	return nil
}

func (w *work) warn(text string) {
	w.door.Notice(session.Notice{Kind: session.NoticeWarning, Text: text})
}

func (w *work) info(text string) {
	w.door.Notice(session.Notice{Kind: session.NoticeInfo, Text: text})
}

// recall warns if a session was interrupted in this workspace, because a new session
// repeats its work. It ignores sessions that cannot be read.
func (w *work) recall(ctx context.Context) {
	rows, _ := w.rows(ctx, w.Workspace)
	for _, r := range rows {
		if r.Interrupted && r.ID != w.writer.Session().ID {
			w.door.Notice(session.Notice{Kind: session.NoticeWarning, Text: "session " + r.Short + " was interrupted here, and this is a new one",
				Hint: session.Then("to continue that one", session.MoveResume, r.Short)})
			return
		}
	}
}

// beginning returns the event that created the session, zero if that event cannot be
// read.
func (w *work) beginning(ctx context.Context) session.SessionCreatedData {
	if w.created == nil {
		w.created = &session.SessionCreatedData{}
		if first, err := w.writer.Event(ctx, 1); err == nil {
			_ = first.Decode(w.created) // a damaged event counts as none
		}
	}
	return *w.created
}

func (w *work) origin(ctx context.Context) Origin {
	return Origin{Short: w.writer.Session().Short, PlanFile: w.beginning(ctx).PlanFile}
}

// edited returns a warning if the plan file was edited after the session began. The
// session keeps the stored plan. The hint is empty if the file is the same or cannot be
// read.
func (w *work) edited(ctx context.Context) session.Hint {
	from := w.beginning(ctx)
	if from.PlanFile == "" || w.choices.Edited == nil || !w.choices.Edited(PlanSource{File: from.PlanFile, Sum: from.PlanSum}, w.plan) {
		return session.Hint{}
	}
	return w.origin(ctx).Again(from.PlanFile + " has changed, and the session continues with its original plan; to begin again")
}

// runsNext guesses whether the next step is a command. Its supervisor can then start
// while the session is still validated.
func (w *work) runsNext() bool {
	for id, step := range w.plan.All() {
		if w.writer.Session().Status(id) != session.StepDone {
			return step.Kind == session.KindRun
		}
	}
	return false
}

// untouched is the result of a signal that came before anything was executed.
func (w *work) untouched(sig Interrupted) session.Result {
	s := w.writer.Session()
	return session.Result{
		Session: s.ID, Short: s.Short, State: s.State, Reason: session.ReasonSignal, Done: s.Done, Left: s.StepTotal - s.Done,
		Message: "interrupted by a signal before anything was executed", Next: resume.Again(s, w.Workspace), Signal: sig.Signal,
	}
}

// behind returns the cause of err: the store was removed, the session's time is over, or
// another process took the session over. A process that lost the session can first see
// used-up records of its command, and only then have its own write refused.
func (w *work) behind(ctx context.Context, err error) error {
	if gone := w.store.InPlace(); gone != nil { // the records of its commands are gone too
		return gone
	}
	if cause := context.Cause(ctx); errors.Is(cause, session.ErrForked) || errors.Is(cause, session.ErrFenced) {
		return cause
	}
	if errors.Is(context.Cause(ctx), session.ErrTimeout) && (errors.Is(err, session.ErrTimeout) || errors.Is(err, ctx.Err())) {
		return &session.Error{Code: session.ErrTimeout, Message: "the session ran out of time before anything was executed", Next: resume.Again(w.writer.Session(), w.Workspace)}
	}
	if f := w.writer.Fence(context.WithoutCancel(ctx)); errors.Is(f, session.ErrFenced) {
		return f
	}
	return err
}

func (w *work) carryOut(ctx context.Context, again <-chan struct{}, root *workspace.Root, runner *command.Runner) (session.Result, error) {
	before := w.writer.Session().Plan
	env := newEnvironment(root, w.writer, w.plan, w.Redactor)
	begin := env
	// Later snapshots use env, which looks again.
	begin.git, begin.seen = w.git, &seen{}
	r := w.resumer(begin, runner, asking{w.door, w.origin(ctx), env.view}, func(n session.Notice) {
		if n.Kind == session.NoticeSession {
			n.TimeUS = w.restUS
		}
		w.door.Notice(n)
	})
	if !w.fresh {
		var err error
		if err = w.sameModels(ctx); err != nil {
			return session.Result{}, err
		}
		if r.Options.Inputs, err = w.restore(ctx, w.door); err != nil {
			return session.Result{}, err
		}
		w.tally.begin()
		r.Mark = w.tally.ended
	}
	ready, err := r.Resume(ctx)
	if err == nil && r.Options.Inputs.Renew {
		ready.Begin, err = w.renewed(ctx, ready.Begin, r.Options.Inputs.Renewed)
	}
	if err != nil {
		return session.Result{}, err
	}
	if err := w.fenceCommands(ctx, runner); err != nil {
		return session.Result{}, err
	}
	for _, warning := range w.Settings.Warnings {
		w.warn(warning)
	}
	w.teller = w.Site.teller(ctx, w.writer, w.plan, ready.Next, w.door.Notice)
	e := w.engine(root, runner, env)
	e.Sandbox = w.confinement(ctx)
	if e.Prompting, err = w.prompting(root); err != nil {
		return session.Result{}, err
	}
	if !w.fresh {
		e.Changed = env.diffs(ready.Changed)
		if err := w.openCalls(ctx, r, &ready.Next); err != nil {
			return session.Result{}, err
		}
	}
	e.Journal, e.Notify, e.Again = w.teller, w.teller.notice, again
	if w.door.Watches() {
		live := &watched{Runner: runner, out: w.liveOutputs(w.writer.Session().ID, w.door.Notice), items: map[session.StepID]session.Item{}}
		defer live.out.close()
		for _, it := range ready.Next.Items {
			live.items[it.ID] = it
		}
		e.Commands = live
	}
	if w.asks() {
		ready.Begin = append(ready.Begin, w.granted()...)
		if err := w.askTrust(ctx); err != nil {
			return session.Result{}, err
		}
	}
	result, err := e.Execute(ctx, ready.Next, ready.Begin...)
	if err != nil || w.writer.Session().Plan == before {
		return result, err
	}
	w.plan = nil // a model made the rest of it
	if err := w.planned(ctx); err != nil {
		return session.Result{}, err
	}
	return w.carryOut(ctx, again, root, runner)
}

// engine returns the engine of the session, without anyone who is told what happens.
func (w *work) engine(root *workspace.Root, runner *command.Runner, env environment) *engine.Engine {
	return &engine.Engine{
		Journal: w.writer, Blobs: w.writer, Files: root, Commands: runner, Person: w.door, Plan: w.plan,
		Policy:  engine.Policy{Uncertain: w.choices.Uncertain, Outcomes: w.choices.Outcomes, Captures: w.choices.Captures, Force: w.choices.Force},
		Environ: os.Environ(), Confine: w.confines(), Inputs: w.inputs, Secrets: w.params.Secrets, Notify: func(session.Notice) {},
		Redact: w.Redactor.String, Masked: w.Redactor.Reader, Captured: w.captured, Last: os.Getpid() == 1,
		Log: w.Log.With("session_id", w.writer.Session().Short),
		Snapshot: func(ctx context.Context, status func(session.StepID) session.Status) (string, string, error) {
			shot, err := env.Snapshot(ctx, resume.Planned(w.plan, status))
			return shot.Manifest, shot.Git, err
		},
		Look:        env.look,
		MaxParallel: w.plan.MaxParallel,
	}
}

// openCalls gives the prompts in next their calls in progress.
func (w *work) openCalls(ctx context.Context, r *resume.Resumer, next *session.Continuation) error {
	open, err := r.Operations(ctx, w.writer.Work)
	for _, call := range open {
		for i := range next.Items {
			if it := &next.Items[i]; it.ID == call.ID.Of() {
				it.Calls = append(it.Calls, call)
			}
		}
	}
	return err
}

// captured adds a captured value to the redactor if its variable has a secret name.
func (s *Site) captured(name, value string) {
	s.Redactor.Learn(redact.FromEnvironment([]string{name + "=" + value}))
}

// fenceCommands makes the supervisor refuse requests of the process that executed the
// session before. That process may only be frozen. A session that ran no command has no
// supervisor.
func (w *work) fenceCommands(ctx context.Context, runner *command.Runner) error {
	if _, err := os.Stat(w.commandDir(w.writer.Session().ID)); err != nil {
		return nil
	}
	return runner.Announce(ctx)
}

func (w *work) resumer(env environment, runner *command.Runner, ask resume.Person, notify func(session.Notice)) *resume.Resumer {
	host, _ := os.Hostname() // people read it; no code needs it
	report := w.writer.Report()
	c := w.Settings.Config.Resume
	return &resume.Resumer{
		Journal: w.writer, Plan: w.plan, Files: env.root, Commands: runner, Environment: env, Person: ask,
		Notify: notify, Log: w.Log,
		Options: resume.Options{
			Choices:  resume.Choices{Captures: w.choices.Captures, InProgress: resume.Strategy(c.InProgressStrategy), RestartStep: w.choices.RestartStep, Redact: w.Redactor.String},
			Validate: c.ValidateEnvironment, Timeout: c.ValidationTimeout, OnChanges: resume.OnChanges(c.ChangedFilesAction), DecidedBy: w.decidedBy(),
			Config: w.Settings.Keys(), Device: w.store.Device(), Host: host, PID: os.Getpid(), Workspace: w.Workspace,
			Checkpoint: checkpointName(report), Order: report.Order, Sync: string(w.sync),
		},
	}
}

func (w *work) decidedBy() string {
	if w.choices.Explicit {
		return "flag"
	}
	return "policy"
}

// runner gives access to the session's commands. It starts nothing by itself.
func (w *work) runner() *command.Runner {
	s := w.writer.Session()
	return command.NewRunner(command.Config{
		Executable: w.Supervisor, Dir: w.commandDir(s.ID), Session: s.ID, Epoch: s.Epoch + 1, Share: w.Settings.Config.Workspace.Share, Now: w.Now,
		Args: supervisorArgs(s.ID, w.workspaceLocks(w.Workspace), w.commandDir(s.ID), w.Settings.Config.Command.MaxOutputBytes),
	})
}

// close releases the resources of this session except its locks.
func (w *work) close() error {
	w.git.stop()
	if w.writer == nil {
		return nil
	}
	return w.writer.Close()
}
