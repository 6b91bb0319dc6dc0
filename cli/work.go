package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/lock"
	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
	"github.com/acode-dev/acode/workspace"
)

// work is one session in this process's hands, from its locks to its result.
type work struct {
	*base
	store   *local.Store
	writer  *local.Writer
	plan    *session.Plan
	origin  string // the file that a new session's plan was read from; empty: none
	locks   []release
	git     *gitAsked // nil: nobody asked yet
	fresh   bool
	choices choices
	printer *terminal.Printer
	sync    session.SyncState // how delivery stands at the start; empty: off
	tally   tally
}

type release interface{ Release() error }

// choices are what those flags of resume say that the configuration has no key for.
type choices struct {
	uncertain   session.OnInterrupt
	captures    map[session.StepID]string // given by a person for commands whose outcome is unknown
	restartStep bool
	force       bool
	byFlag      bool // a flag says what to do with changed files
}

// execute prepares the session and carries it out; the result has been printed.
func (w *work) execute(ctx context.Context) error {
	delivery, err := w.syncView(ctx, w.store, w.writer.Session().ID)
	if err != nil {
		return err
	}
	ctx, again, stop := w.signals(ctx)
	defer stop()
	w.printer, w.sync = w.base.printer(ctx.Done(), w.fresh, delivery), delivery.State
	defer w.printer.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer w.drain(cancel)()
	for _, what := range odd(w.writer.Report()) {
		w.log.Warn("the session or its store is odd", "event", "session_odd", "session_id", w.writer.Session().Short, "what", what)
		w.printer.Notice(session.Notice{Kind: session.NoticeWarning, Text: what})
	}
	if w.fresh {
		w.recall(ctx)
	}
	root, err := workspace.Open(w.workspace, w.now)
	if err != nil {
		return err
	}
	defer root.Close()
	root.Redact = w.redactor.String
	if w.plan == nil {
		if w.plan, err = w.writer.Plan(ctx); err != nil { // decoded meanwhile
			return err
		}
		w.learn(w.plan)
	}
	if !w.fresh {
		w.sweepWorkspace(root)
		w.tellEdited(ctx)
	}
	runner := w.runner()
	defer runner.Close()
	if w.runsNext() {
		runner.Warm()
	}
	result, err := w.carryOut(ctx, again, root, runner)
	if err == nil && w.writer.Session().State.Terminal() {
		if err := command.ForgetAll(w.commandDir(w.writer.Session().ID)); err != nil { // a kill may have left some
			w.log.Warn("raw outputs stay", "event", "outputs_left", "error", err.Error())
		}
	}
	var sig engine.Interrupted
	switch {
	case err == nil:
	case errors.As(context.Cause(ctx), &sig) && (errors.Is(err, sig) || errors.Is(err, ctx.Err())):
		result = w.untouched(sig)
	default:
		return w.failed(w.behind(ctx, err))
	}
	result.Next = w.spelled(result.Next)
	w.printer.Notice(session.Notice{Kind: session.NoticeResult, Session: w.writer.Session(), Result: &result})
	if status := exitOfResult(result); status != 0 {
		return quietExit(status)
	}
	return nil
}

// recall tells of the last session that was interrupted here without a word: a new one does again what that
// one did. What cannot be read of others holds nobody up.
func (w *work) recall(ctx context.Context) {
	rows, _ := w.rows(ctx, w.store, w.workspace)
	for _, r := range rows {
		if r.Interrupted && r.ID != w.writer.Session().ID {
			w.printer.Notice(session.Notice{Kind: session.NoticeWarning, Text: w.spelled(fmt.Sprintf("session %s was interrupted here: acode resume %s goes on with it, this is a new one", r.Short, r.Short))})
			return
		}
	}
}

// runsNext guesses whether a command is what comes first: its supervisor can start while the
// session is still being looked at.
func (w *work) runsNext() bool {
	for i := range w.plan.Tasks {
		for j := range w.plan.Tasks[i].Steps {
			step := &w.plan.Tasks[i].Steps[j]
			if w.writer.Session().Status(session.StepID{Task: w.plan.Tasks[i].ID, Step: step.ID}) != session.StepDone {
				return step.Kind == session.KindRun
			}
		}
	}
	return false
}

// untouched is the result of a signal that came before anything was executed.
func (w *work) untouched(sig engine.Interrupted) session.Result {
	s := w.writer.Session()
	return session.Result{
		Session: s.ID, Short: s.Short, State: s.State, Reason: session.ReasonSignal, Done: s.Done, Left: s.StepTotal - s.Done,
		Message: "interrupted by a signal before anything was executed", Next: resume.Again(s, w.workspace), Signal: sig.Signal,
	}
}

// behind gives what lies behind err: a store that was removed, the end of the session's time, or
// another process that took the session over. A late holder finds the records of its command
// used up before its own write is refused.
func (w *work) behind(ctx context.Context, err error) error {
	if gone := w.store.InPlace(); gone != nil { // and with it the records of its commands
		return gone
	}
	if cause := context.Cause(ctx); errors.Is(cause, session.ErrForked) || errors.Is(cause, session.ErrFenced) {
		return cause
	}
	if errors.Is(context.Cause(ctx), session.ErrTimeout) && (errors.Is(err, session.ErrTimeout) || errors.Is(err, ctx.Err())) {
		return &session.Error{Code: session.ErrTimeout, Message: "the session ran out of time before anything was executed", Next: resume.Again(w.writer.Session(), w.workspace)}
	}
	if f := w.writer.Fence(context.WithoutCancel(ctx)); errors.Is(f, session.ErrFenced) {
		return f
	}
	return err
}

// failed prints an error as the last line and keeps its status.
func (w *work) failed(err error) error {
	err = about(w.writer.Session().Short, shortage(err))
	status, hint := w.verdict(err)
	w.log.Error("stopped", "event", "error", "session_id", w.writer.Session().Short, "code", string(session.CodeOf(err)), "error", err.Error())
	w.printer.Fail(err, status, hint)
	return quietExit(status)
}

func (w *work) carryOut(ctx context.Context, again <-chan struct{}, root *workspace.Root, runner *command.Runner) (session.Result, error) {
	env := environment{root: root, blobs: w.writer, plan: w.plan, door: w.redactor}
	begin := env
	begin.git, begin.seen = w.git, &seen{} // a later snapshot looks anew
	ask := &prompter{printer: w.printer, in: &typing{in: w.io.in}, asks: w.interactive(), view: env.view}
	r := w.resumer(begin, root, runner, ask)
	if !w.fresh {
		w.tally.begin()
		r.Mark = w.tally.ended
	}
	ready, err := r.Resume(ctx)
	if err != nil {
		return session.Result{}, err
	}
	if err := w.fenceCommands(ctx, runner); err != nil {
		return session.Result{}, err
	}
	for _, warning := range w.cfg.Warnings {
		w.printer.Notice(session.Notice{Kind: session.NoticeWarning, Text: warning})
	}
	e := &engine.Engine{
		Journal: w.writer, Blobs: w.writer, Files: root, Commands: runner, Person: ask, Plan: w.plan,
		Policy:  engine.Policy{Uncertain: w.choices.uncertain, Captures: w.choices.captures, Force: w.choices.force},
		Environ: os.Environ(), Notify: w.printer.Notice, Redact: w.redactor.String, Captured: w.captured, Again: again, Last: os.Getpid() == 1,
		Log: w.log.With("session_id", w.writer.Session().Short),
		Snapshot: func(ctx context.Context) (string, string, error) {
			shot, err := env.Snapshot(ctx)
			return shot.Manifest, shot.Git, err
		},
	}
	return e.Execute(ctx, ready.Next, ready.Begin...)
}

// captured makes a secret of a value that commands get under a telling name.
func (w *work) captured(name, value string) {
	w.redactor.Learn(redact.FromEnvironment([]string{name + "=" + value}))
}

// fenceCommands makes the supervisor refuse whoever executed the session before, in case that
// process is only frozen. A session that ran no command has nobody to tell.
func (w *work) fenceCommands(ctx context.Context, runner *command.Runner) error {
	if _, err := os.Stat(w.commandDir(w.writer.Session().ID)); err != nil {
		return nil
	}
	return runner.Announce(ctx)
}

func (w *work) show(lines []string) {
	for _, l := range lines {
		w.printer.Notice(session.Notice{Kind: session.NoticeInfo, Text: l})
	}
}

func (w *work) resumer(env environment, root *workspace.Root, runner *command.Runner, ask resume.Person) *resume.Resumer {
	host, err := os.Hostname()
	if err != nil {
		host = "" // it only informs people
	}
	report := w.writer.Report()
	c := w.cfg.Config.Resume
	return &resume.Resumer{
		Journal: w.writer, Plan: w.plan, Files: root, Commands: runner, Environment: env, Person: ask,
		Notify: w.printer.Notice, Log: w.log,
		Options: resume.Options{
			Choices:  resume.Choices{Captures: w.choices.captures, InProgress: resume.Strategy(c.InProgressStrategy), RestartStep: w.choices.restartStep, Redact: w.redactor.String},
			Validate: c.ValidateEnvironment, Timeout: c.ValidationTimeout, OnChanges: resume.OnChanges(c.ChangedFilesAction), DecidedBy: w.decidedBy(),
			Config: w.cfg.Keys(), Device: w.store.Device(), Host: host, PID: os.Getpid(), Workspace: w.workspace,
			Checkpoint: checkpointName(report), Order: report.Order, Sync: string(w.sync),
		},
	}
}

func (w *work) decidedBy() string {
	if w.choices.byFlag {
		return "flag"
	}
	return "policy"
}

// twice is the time in which the same signal is one: timeout(1) sends it to its command, and at once
// to the group that its command is in, which takes a moment on a busy machine. Nobody presses a key so fast.
const twice = 100 * time.Millisecond

// signals ends the context at the first signal and closes again when somebody asks a second time.
// A hangup never counts as asking: a terminal that is closed sends several, and they may come
// beside a TERM. Whoever has them ignored, with nohup for one, gets none. After stop all is said, and
// what comes then changes nothing: the exit status is the one of the result.
func (w *work) signals(parent context.Context) (ctx context.Context, again <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	if w.timeout > 0 {
		var end context.CancelFunc
		ctx, end = context.WithTimeoutCause(ctx, w.timeout, session.ErrTimeout)
		context.AfterFunc(parent, end)
	}
	second := make(chan struct{})
	got := make(chan os.Signal, 4)
	signal.Notify(got, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(got, syscall.SIGHUP)
	}
	done := make(chan struct{})
	go func() {
		var last os.Signal
		var at time.Time
		for asked := 0; ; {
			select {
			case s := <-got:
				cancel(engine.Interrupted{Signal: int(s.(syscall.Signal))}) // the first counts
				if s == syscall.SIGHUP || s == last && w.now().Sub(at) < twice {
					continue
				}
				last, at = s, w.now()
				if asked++; asked == 2 {
					close(second)
				}
			case <-done:
				return
			}
		}
	}()
	return ctx, second, func() {
		close(done)
		cancel(nil)
	}
}

// take acquires the session's lock and the workspace's; what it took is released by close.
func (w *work) take(id session.ID) ([]release, error) {
	self, err := lock.Self(w.commandLine(), w.now())
	if err != nil {
		return nil, err
	}
	self.Session = id
	sessionLock, err := acquire(w.lockFile(id), self)
	if err != nil {
		return nil, err
	}
	run, err := w.takeWorkspace(self)
	if err != nil {
		return nil, errors.Join(err, sessionLock.Release())
	}
	return []release{sessionLock, run}, nil
}

// takeWorkspace takes the lock of the workspace alone, or beside others where it is shared.
func (w *work) takeWorkspace(self lock.Holder) (*lock.Lock, error) {
	dir := workspaceLocks(w.home(), w.workspace)
	if w.cfg.Config.Workspace.Share {
		return lock.AcquireShared(dir, self)
	}
	return lock.AcquireRun(dir, self, w.commandRuns)
}

// commandRuns reports whether the command that a holder names still runs. Of a damaged record nobody
// can tell: that is for its own session to settle.
func (b *base) commandRuns(h lock.Holder) (bool, error) {
	rec, err := command.NewRunner(command.Config{Dir: b.commandDir(h.Session)}).Look(context.Background(), h.Key)
	if errors.Is(err, session.ErrCorrupt) {
		return false, nil
	}
	return rec.State == session.CommandRunning || rec.State == session.CommandUnattended, err
}

// acquire takes the lock of a file, whose directory comes with the first one.
func acquire(path string, h lock.Holder) (*lock.Lock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, &session.Error{Code: session.DiskCode(err, session.ErrStoreIO), Message: "the directory of locks cannot be made; nothing was changed", Place: path, Cause: err}
	}
	return lock.Acquire(path, h)
}

// hold takes the lock of a session alone, for a change of it that executes nothing.
func (b *base) hold(id session.ID, doing string) (*lock.Lock, error) {
	self, err := lock.Self(doing, b.now())
	if err != nil {
		return nil, err
	}
	self.Session = id
	return acquire(b.lockFile(id), self)
}

// close gives everything back, the locks last.
func (w *work) close() error {
	var errs []error
	w.git.stop()
	if w.writer != nil {
		errs = append(errs, w.writer.Close())
	}
	errs = append(errs, w.store.Close(), w.closeLog())
	for _, l := range w.locks {
		errs = append(errs, l.Release())
	}
	return errors.Join(errs...)
}

// commandLine is what the lock file tells others about this process.
func (b *base) commandLine() string {
	return b.redactor.String("acode " + strings.Join(os.Args[1:], " "))
}
