package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/lock"
	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

// resumeFlags are the flags of resume as typed.
type resumeFlags struct {
	dryRun, restartStep, force, share bool
	wait                              time.Duration
	waits                             bool // --wait was given
	onChanges, inProgress, uncertain  string
	given                             []string // --capture, as typed
	captures                          map[session.StepID]string
}

func (a *app) resumeCommand() *cobra.Command {
	var f resumeFlags
	cmd := &cobra.Command{
		Use: "resume [ID]", Short: "Resume a session from where it stopped", Args: Following("wait", cobra.MaximumNArgs(1)), ValidArgsFunction: a.completeSession(openSession),
		Long: "Resume a session from where it stopped: completed work is skipped, the step that was in\nprogress is examined, the rest is carried out. Without ID, the most recent resumable\nsession of this workspace. With ID, in the workspace of that session wherever you are;\n-C DIR goes on in a workspace that has moved there.",
		RunE: func(cmd *cobra.Command, args []string) error {
			f.waits = cmd.Flags().Changed("wait")
			if err := f.check(); err != nil {
				return err
			}
			return a.resume(cmd.Context(), strings.Join(args, ""), f)
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.dryRun, "dry-run", false, "say what would be done and change nothing")
	fl.DurationVar(&f.wait, "wait", 0, "wait this long for a session or workspace that is executed")
	fl.Lookup("wait").NoOptDefVal = "60s"
	for _, c := range f.answers() {
		fl.StringVar(c.value, c.flag, "", c.about+": `"+c.allowed+"`")
		completeValues(cmd, c.flag, c.allowed)
	}
	fl.StringArrayVar(&f.given, "capture", nil, "the value of an interrupted command with capture, as `TASK/STEP=VALUE`: it happened and wrote this")
	fl.BoolVar(&f.restartStep, "restart-step", false, "roll back the file step that was in progress even if it is complete")
	fl.BoolVar(&f.force, "force", false, "skip dependency checks and continue with changed files; never the chain, approvals or locks")
	fl.BoolVar(&f.share, "share-workspace", false, "resume although another session executes in this workspace")
	return cmd
}

// Following is what args says of the arguments, but that a duration is none while flag is given: it was
// meant for that flag, whose value follows a "=" because it may be left out.
func Following(flag string, args cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		for _, arg := range given {
			if _, err := time.ParseDuration(arg); err == nil && cmd.Flags().Changed(flag) {
				return &session.Error{Code: session.ErrUsage, Message: "the time of --" + flag + " follows a \"=\"; nothing was changed", Place: arg,
					Next: "write --" + flag + "=" + arg}
			}
		}
		return args(cmd, given)
	}
}

// answerFlag is a flag that takes one of a few values, written as "a|b".
type answerFlag struct {
	value                *string
	flag, about, allowed string
}

// answers are the flags that answer what a resume would ask.
func (f *resumeFlags) answers() []answerFlag {
	return []answerFlag{
		{&f.onChanges, "on-changes", "changed files", "continue|abort"},
		{&f.inProgress, "in-progress", "a file step in progress whose files hold something else", "rollback|retry|prompt"},
		{&f.uncertain, "uncertain", "the command in progress, if nobody can know its outcome", "rerun|done|fail"},
	}
}

func (f *resumeFlags) check() error {
	for _, c := range f.answers() {
		if *c.value != "" && !strings.Contains("|"+c.allowed+"|", "|"+*c.value+"|") {
			return &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("--%s=%s: must be one of %s; nothing was changed", c.flag, *c.value, c.allowed), Next: "acode resume --help"}
		}
	}
	f.captures = map[session.StepID]string{}
	for _, given := range f.given {
		step, value, ok := strings.Cut(given, "=")
		id, err := session.ParseStepID(step)
		if !ok || err != nil {
			return &session.Error{Code: session.ErrUsage, Message: "--capture takes TASK/STEP=VALUE; nothing was changed", Place: given, Next: "acode resume --help"}
		}
		if f.captures[id], err = session.CaptureValue(step, value); err != nil {
			return &session.Error{Code: session.ErrUsage, Message: "--capture: the value cannot be used; nothing was changed", Cause: err}
		}
	}
	return nil
}

func (f resumeFlags) choices() choices {
	return choices{captures: f.captures, uncertain: session.OnInterrupt(f.uncertain), restartStep: f.restartStep, force: f.force, byFlag: f.onChanges != "" || f.force}
}

// settings are the flags that have a key of the configuration.
func (f resumeFlags) settings() map[string]string {
	out := map[string]string{}
	if f.force {
		out["resume.changed_files_action"] = string(resume.ChangesContinue)
	}
	if f.onChanges != "" {
		out["resume.changed_files_action"] = f.onChanges
	}
	if f.inProgress != "" {
		out["resume.in_progress_strategy"] = f.inProgress
	}
	if f.share {
		out["workspace.share"] = "true"
	}
	if f.waits {
		out["lock.wait"] = f.wait.String()
	}
	return out
}

func (a *app) resume(ctx context.Context, ref string, f resumeFlags) error {
	b, store, err := a.bootFor(ctx, ref, f.dryRun, f.settings())
	if errors.Is(err, session.ErrUnknownID) { // there is no store yet
		return noResumable()
	}
	if err != nil {
		if !f.dryRun {
			a.refusedEarly(ref, err)
		}
		return err
	}
	if f.dryRun {
		return errors.Join(b.dryRun(ctx, store, ref, f.choices()), store.Close())
	}
	w := &work{base: b, store: store, choices: f.choices(), tally: tally{now: b.now}}
	id, err := w.load(ctx, ref)
	if err == nil {
		err = w.execute(ctx)
	} else {
		err = w.refuse(ctx, id, err)
	}
	w.note(ctx, err)
	return errors.Join(err, w.close())
}

// load finds, locks and verifies the session. The id is empty when there is none.
func (w *work) load(ctx context.Context, ref string) (session.ID, error) {
	id, err := w.pick(ctx, w.store, ref, true)
	if w.tally.picked(err); err != nil {
		return id, err
	}
	w.locks, err = w.takeWithin(ctx, id, w.cfg.Config.Lock.Wait)
	w.tally.lock(err)
	if err != nil {
		return id, w.lockedOut(ctx, id, err)
	}
	w.tally.ended(session.PhaseLock)
	killed := w.tidy(ctx, id)
	if err = w.notForked(ctx, w.store, id); err != nil {
		return id, err
	}
	w.git = askGit(ctx, w.workspace)
	if w.writer, err = w.store.Load(ctx, id); err != nil {
		return id, err
	}
	if !killed {
		w.sweepAfter(w.store, w.writer.Session().State)
	}
	w.tally.ended(session.PhaseLoad)
	w.tally.epoch = w.writer.Session().Epoch
	w.redactor.Learn(w.sealedCaptures(ctx))
	if err = resume.Allowed(w.writer.Session()); err != nil {
		return id, err
	}
	return id, w.askedBefore(ctx)
}

// askedBefore takes up what a process was asked to do that ended without an answer, and that cannot wait.
func (w *work) askedBefore(ctx context.Context) error {
	asked, err := w.writer.Requests(ctx)
	if err != nil {
		return err
	}
	for _, r := range asked {
		if r.Kind != session.RequestCancel {
			continue
		}
		if err := w.takeUp(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// takeUp cancels the session as r asks, and returns ErrCancelled then. As nobody can take r back, a
// person at the terminal may say that it no longer counts.
func (w *work) takeUp(ctx context.Context, r session.Request) error {
	if !w.yes && w.interactive() {
		counts, err := unlessEnded(terminal.Ask(w.io.in, w.io.err, requestNote(r)+". Cancel it now?", true))
		if err != nil {
			return err
		}
		if !counts {
			_, err := w.writer.AppendAnswering(ctx, r.ID)
			return err
		}
	}
	drafts, also, err := w.cancelling(ctx, w.store, r)(w.writer.Session())
	if err != nil {
		return err
	}
	if _, err := w.writer.AppendAnswering(ctx, r.ID, drafts...); err != nil {
		return err
	}
	said := append([]string{"session " + w.writer.Session().Short + " is cancelled now: " + requestNote(r)}, also.warnings...)
	return errors.Join(w.forgetOver(ctx, w.store, r.Session), &session.Error{Code: session.ErrCancelled, Message: strings.Join(said, "; ")})
}

// refuse logs an attempt whose session could not be had. With JSON it is told with the session,
// as far as that can be read.
func (w *work) refuse(ctx context.Context, id session.ID, err error) error {
	var said quietExit
	if errors.As(err, &said) {
		return err // a person said no
	}
	s, short := (*session.Session)(nil), ""
	if id != "" {
		if seen, verr := w.store.View(ctx, id); verr == nil { // else log and result go without
			s, short = seen, seen.Short
		}
	}
	w.refused(short, err)
	if s == nil {
		return err
	}
	err = about(short, shortage(err))
	if !w.json {
		return err
	}
	status, hint := w.verdict(err)
	w.printer = w.base.printer(ctx.Done(), false, terminal.SyncView{})
	defer w.printer.Close()
	w.printer.Notice(session.Notice{Kind: session.NoticeSession, Session: s, Text: s.Task})
	w.printer.Fail(err, status, hint)
	return quietExit(status)
}

// sealedCaptures gives the captured values that are kept sealed, as far as each is one word or has a telling
// name: they held a secret when they were captured, which the environment of this process need not tell any more.
func (w *work) sealedCaptures(ctx context.Context) []string {
	var words []string
	for _, st := range w.writer.Session().Steps {
		if st.Capture == nil || !st.Capture.Blob.Sealed {
			continue
		}
		r, err := w.writer.Open(ctx, st.Capture.Blob.Hash)
		if err != nil {
			continue // whoever needs the value says what is wrong with it
		}
		value, err := io.ReadAll(r)
		_ = r.Close() // it was read
		if err != nil {
			continue // as above
		}
		words = append(words, redact.FromEnvironment([]string{st.Capture.Name + "=" + string(value)})...)
		if len(bytes.Fields(value)) == 1 {
			words = append(words, string(value))
		}
	}
	return words
}

// takeWithin takes the locks, waiting for their holders as long as it may.
func (w *work) takeWithin(ctx context.Context, id session.ID, wait time.Duration) ([]release, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for said := w.json || w.quiet; ; {
		taken, err := w.take(id)
		if !errors.Is(err, session.ErrLocked) || wait == 0 {
			return taken, err
		}
		if !said {
			said = true
			fmt.Fprintf(w.io.err, "Waiting for at most %s: %s\n", wait, terminal.Clean(w.lockedOut(ctx, id, err).Error()))
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-tick.C:
		}
	}
}

// pick gives the session that ref names, or the most recent resumable one of this workspace,
// after asking whoever can be asked, or else the one that is executed when it may be waited for.
func (b *base) pick(ctx context.Context, s *local.Store, ref string, confirm bool) (session.ID, error) {
	if ref != "" {
		return find(ctx, s, ref, true)
	}
	rows, err := b.rows(ctx, s, b.workspace)
	if err != nil {
		return "", err
	}
	var free, running []terminal.Row
	for _, r := range rows {
		switch {
		case r.State.Terminal():
		case r.Running:
			running = append(running, r)
		default:
			free = append(free, r)
		}
	}
	switch {
	case len(free) > 0:
		return b.confirm(ctx, s, free, confirm)
	case len(running) > 0 && confirm && b.cfg.Config.Lock.Wait > 0:
		return running[0].ID, nil // it is waited for
	case len(running) > 0:
		return running[0].ID, b.held(running[0])
	}
	return "", b.noneHere(ctx, s)
}

// confirm shows the sessions that were found and asks for the most recent, the first, unless
// nobody can be asked.
func (b *base) confirm(ctx context.Context, s *local.Store, free []terminal.Row, ask bool) (session.ID, error) {
	r := free[0]
	asks := ask && !b.yes && b.interactive()
	if b.json || !ask || b.quiet && !asks {
		return r.ID, nil
	}
	at, err := b.position(ctx, s, r.ID)
	if err != nil {
		return "", err
	}
	err = terminal.Found(b.io.out, free, []terminal.Position{at}, b.now())
	if !asks {
		return r.ID, nil // what could not be written is told in the end
	}
	if err != nil {
		return "", err
	}
	question := "Resume this session?"
	if len(free) > 1 {
		question = "Resume " + r.Short + ", the most recent?"
	}
	yes, err := unlessEnded(terminal.Ask(b.io.in, b.io.err, question, true))
	if err == nil && !yes {
		return "", quietExit(0)
	}
	return r.ID, err
}

// lockedOut says who executes the session, when that is why it could not be locked.
func (w *work) lockedOut(ctx context.Context, id session.ID, err error) error {
	if !errors.Is(err, session.ErrLocked) {
		return err
	}
	h, held, rerr := lock.Read(w.lockFile(id))
	s, verr := w.store.View(ctx, id)
	if rerr != nil || verr != nil {
		return err
	}
	if !held { // but the workspace is, or the holder has just ended
		return &session.Error{Code: session.ErrLocked, Message: "session " + s.Short + " was not resumed", Cause: err, Retryable: true, Next: waitFor(resume.Again(s, w.workspace))}
	}
	return executedBy(s.Short, h, resume.Again(s, w.workspace))
}

// held says who executes the session of r, which may have ended since r was read.
func (b *base) held(r terminal.Row) error {
	h, held, err := lock.Read(b.lockFile(r.ID))
	switch {
	case err != nil:
		return err
	case !held:
		return &session.Error{Code: session.ErrLocked, Retryable: true, Message: "session " + r.Short + " was not resumed: the process that executed it has just ended", Next: "acode resume " + r.Short}
	}
	return executedBy(r.Short, h, "acode resume "+r.Short)
}

func executedBy(short string, h lock.Holder, again string) error {
	return &session.Error{Code: session.ErrLocked, Retryable: true,
		Message: fmt.Sprintf("Session is locked by another process: %s is executed by %s since %s: %s", short, h.Process(), h.Since.UTC().Format(time.RFC3339), h.Command),
		Next:    waitFor(again)}
}

func waitFor(again string) string { return "wait for it with: " + again + " --wait" }

func noResumable() *session.Error {
	return &session.Error{Code: session.ErrNoResumable, Message: "no resumable session", Next: "start one with: acode run --plan FILE"}
}

func (b *base) noneHere(ctx context.Context, s *local.Store) error {
	all, err := b.rows(ctx, s, "")
	if err != nil {
		return err
	}
	e := noResumable()
	var elsewhere []string
	for _, r := range all {
		if !r.State.Terminal() && !r.Running {
			if _, _, err := s.Workspace(ctx, r.ID); err != nil { // it may be of this workspace
				return err
			}
			elsewhere = append(elsewhere, r.Short+" in "+r.Workspace)
		}
	}
	if len(elsewhere) > 0 {
		e.Message = "no resumable session in this workspace; elsewhere: " + session.Few(elsewhere, terminal.FewRows)
		e.Next = "acode resume ID; it goes on in its own workspace"
	}
	if len(elsewhere) > terminal.FewRows {
		e.Next += "; all of them: acode session list --resumable --all"
	}
	return e
}
