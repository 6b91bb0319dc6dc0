package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/acode-dev/acode/session"
)

// run executes a command step under its supervisor.
func (b *branch) run(ctx context.Context, it *session.Item, step *session.Step) error {
	if it.Action == session.ActionAttach || it.Action == session.ActionDecide {
		b.answered = b.key(it, it.Attempt)
	}
	if it.Status == session.StepFailed && b.ordered(it) {
		b.handling(it, it.Action)
		if it.Action == session.ActionDecide {
			return b.unknown(ctx, it, step, session.CommandRecord{Key: b.key(it, it.Attempt), State: session.CommandUnknown, Why: it.Why})
		}
	}
	if b.uncertain(it) {
		if err := b.again(ctx, it); err != nil {
			return err
		}
		return b.resolve(ctx, it, step, session.CommandRecord{Key: b.key(it, it.Attempt), State: session.CommandUnknown, Why: b.book.step(it.ID).Message})
	}
	if it.Action == session.ActionRetry && it.Status == session.InProgress { // the attempt before was cancelled or void
		b.handling(it, it.Action)
		b.spent = append(b.spent, b.key(it, it.Attempt-1))
	}
	state, err := b.guarding(ctx, it)
	if err != nil {
		return err
	}
	defer b.guard.leave(it.ID)
	if err := b.enter(ctx, it, session.StepStartedData{Digest: step.Digest(), Guard: state}); err != nil {
		return err
	}
	switch it.Action {
	case session.ActionAttach:
		b.handling(it, it.Action)
	case session.ActionDecide:
		rec, err := b.Commands.Look(ctx, b.key(it, it.Attempt))
		if err != nil {
			return err
		}
		if rec.State == session.CommandUnclaimed { // its record was lost
			rec.State, rec.Why = session.CommandUnknown, session.RecordLost
			return b.unknown(ctx, it, step, rec)
		}
		if rec.WasCancelled() {
			rec.State, rec.Why = session.CommandUnknown, it.Why
			return b.unknown(ctx, it, step, rec)
		}
	}
	return b.launch(ctx, it, step)
}

// launch passes a command whose intent is durable to its supervisor, and records the
// outcome.
func (b *branch) launch(ctx context.Context, it *session.Item, step *session.Step) error {
	req, err := b.request(ctx, it, step.Run)
	if err != nil {
		return err
	}
	b.crew.attached(b)
	rec, err := b.await(ctx, it, req.Key, func(ctx context.Context) (session.CommandRecord, error) { return b.Commands.Run(ctx, req) })
	if err != nil {
		return commandFailure(err)
	}
	return b.outcome(ctx, it, step, rec)
}

func (b *branch) uncertain(it *session.Item) bool {
	return b.inProgress(it) && b.book.step(it.ID).Status == session.StepUncertain
}

// ordered reports whether the last attempt failed because acode ended its command.
func (b *branch) ordered(it *session.Item) bool {
	st := b.book.step(it.ID)
	return st.Status == session.StepFailed && st.Code.Ordered()
}

// commandFailure turns a request that the supervisor refused into a failed step.
func commandFailure(err error) error {
	switch session.CodeOf(err) {
	case session.ErrEscape, session.ErrCommand:
		return &failure{code: session.CodeOf(err), message: err.Error()}
	}
	return err
}

// request returns the request for the supervisor.
func (b *branch) request(ctx context.Context, it *session.Item, r *session.Run) (session.CommandRequest, error) {
	values, err := b.captures(ctx, it)
	if err != nil {
		return session.CommandRequest{}, err
	}
	box, err := b.box(r)
	if err != nil {
		return session.CommandRequest{}, err
	}
	env := append(b.Inputs.Environ(box.Environ, b.Secrets), box.Own...)
	for _, vars := range []map[string]string{values, r.Env} {
		names := make([]string, 0, len(vars))
		for name := range vars {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			env = append(env, name+"="+vars[name])
		}
	}
	req := session.CommandRequest{
		Key: b.key(it, it.Attempt), Epoch: b.epoch, Argv: r.Command(), Workspace: b.workspace, Dir: r.Dir,
		Env: env, Timeout: r.Timeout, Volatile: r.Volatile, Split: r.Capture != "", TTY: r.TTY,
	}
	if box.Mode != "" {
		req.Sandbox = &box.Sandbox
	}
	return req, nil
}

// box returns the sandbox of r. Without one, Mode is empty.
func (b *branch) box(r *session.Run) (Box, error) {
	how := b.confinement(r)
	if how == session.Unconfined {
		return Box{Environ: b.Environ}, nil
	}
	return b.Confine(how)
}

func (b *branch) confinement(r *session.Run) session.Confinement {
	return cmp.Or(r.Sandbox, b.Engine.Sandbox, session.Unconfined)
}

// outcome turns the record of an ended command into a receipt or a question.
func (b *branch) outcome(ctx context.Context, it *session.Item, step *session.Step, rec session.CommandRecord) error {
	switch rec.State {
	case session.CommandFinished:
		return b.finished(ctx, it, step, rec)
	case session.CommandUnknown, session.CommandLingering:
		return b.unknown(ctx, it, step, rec)
	case session.CommandVoid: // the next resume starts it under a new key
		return &session.Error{Code: session.ErrStoreIO, Message: "the command of " + it.ID.String() + " was not started: " + rec.Why, Retryable: true,
			Next: session.Words("check the disk that holds acode's state, then resume")}
	}
	return &session.Error{Code: session.ErrInternal, Message: fmt.Sprintf("the supervisor answered with a command that is %s", rec.State), Place: it.ID.String()}
}

// finished takes the result of an ended command. If its record does not show the outcome,
// it asks.
func (b *branch) finished(ctx context.Context, it *session.Item, step *session.Step, rec session.CommandRecord) error {
	if rec.Interruption() != "" {
		awaitEnd(ctx, ownSignal) // in a shutdown acode gets a signal too; then the next resume decides
	}
	doubt, err := b.take(context.WithoutCancel(ctx), it, step, rec)
	if doubt != "" {
		if rec.Why = doubt; rec.Interruption() != "" { // otherwise the command did run, and only its output is lost
			rec.State = session.CommandUnknown
		}
		return b.unknown(ctx, it, step, rec)
	}
	return err
}

// take stores the outputs and the changed files of a finished command and queues its
// receipt. A failure is returned as an error. doubt says why there can be no receipt: a
// signal that acode did not send ended the command, or its output is lost.
func (b *branch) take(ctx context.Context, it *session.Item, step *session.Step, rec session.CommandRecord) (doubt string, err error) {
	if by := rec.Interruption(); by != "" {
		return "it was ended by " + by + ", which acode did not send; it may have done its work before", nil
	}
	if rec.Lost != "" && step.Run.Capture != "" {
		return "a value is captured from its output, and the output is incomplete: " + rec.Lost, nil
	}
	captured, uncaptured := "", error(nil)
	if step.Run.Capture != "" && rec.Exit == 0 { // first, because the value may be a secret in all that follows
		captured, uncaptured = b.captureText(rec.Key, step.Run.Capture)
	}
	result, wrote, last, err := b.result(ctx, rec)
	if errors.Is(err, session.ErrCorrupt) {
		return fmt.Sprintf("its record says that it ended with %s, and its output is lost: %v", cmp.Or(rec.Signal, fmt.Sprintf("status %d", rec.Exit)), err), nil
	}
	if err != nil {
		return "", err
	}
	if it.Call != nil && len(result.Left) > 0 {
		b.guard.lingers(rec.Key)
	}
	held, err := b.putBack(ctx, it)
	if err != nil {
		return "", err
	}
	files, err := b.changedFiles(ctx)
	if err != nil {
		return "", err
	}
	if it.Action == session.ActionAttach {
		b.overUS = rec.EndedUS
	}
	receipt := session.StepCompletedData{Command: result, Files: files, Manifest: b.look(ctx), Held: held}
	f := judge(step.Run, result)
	if f != nil {
		f.last = last
		f.starve(rec)
	} else if step.Run.Capture != "" {
		if uncaptured == nil {
			receipt.Capture, uncaptured = b.keepCapture(ctx, step.Run.Capture, captured)
		}
		if f, err = captureFailure(uncaptured); err != nil {
			return "", err
		}
	}
	// Only now: until there is a receipt, the raw output is all that is left of the
	// command.
	b.spent = append(b.spent, rec.Key)
	if step.Run.Capture != "" { // other output is shown while it is written; this output may hold a secret that is known only now
		for _, line := range wrote {
			b.onCommit = append(b.onCommit, session.Notice{Kind: session.NoticeOutput, Item: it, Text: line})
		}
	}
	if f != nil {
		f.command, f.files, f.manifest, f.held = result, files, receipt.Manifest, held
		return "", f
	}
	b.done(it, receipt)
	if len(result.Left) > 0 {
		b.onCommit = append(b.onCommit, session.Notice{Kind: session.NoticeInfo, Item: it, Text: "Still running; acode does not wait for:", Detail: b.redacted(result.Left)})
	}
	return "", nil
}

// redacted returns command lines of descendants with secrets redacted.
func (b *branch) redacted(left []string) []string {
	out := make([]string, len(left))
	for i, l := range left {
		out[i] = b.Redact(l)
	}
	return out
}

// judge returns the failure of a finished command, or nil. If a command was asked to end
// and exits with 0, it has done its work, and running it again would repeat that.
func judge(r *session.Run, c *session.CommandResult) *failure {
	switch {
	case c.StartError != "":
		return &failure{code: session.ErrCommand, message: "the command could not be started: " + r.Command()[0] + ": " + c.StartError}
	case c.TimedOut:
		return &failure{code: session.ErrTimeout, message: fmt.Sprintf("the command exceeded its timeout of %s and ", r.Timeout) + fate("was ended", c.Left)}
	case c.Cancelled && c.Exit != 0:
		return &failure{code: session.ErrStopped, message: "the command " + fate("was ended on request", c.Left)}
	case c.Signal != "":
		return &failure{code: session.ErrCommand, message: "the command crashed with " + c.Signal}
	case c.Exit != 0:
		return &failure{code: session.ErrCommand, message: fmt.Sprintf("the command exited with status %d", c.Exit)}
	}
	return nil
}

// fate returns how a command ended. A process with another user's rights cannot be
// signalled and continues.
func fate(ended string, left []string) string {
	if len(left) == 0 {
		return ended
	}
	return "could not be ended: " + strings.Join(left, ", ") + " runs with another user's rights"
}

// look stores the state of the workspace after a command, for its receipt. If that fails,
// the next resume reports the command's changes as changed files. The failure must not
// prevent the recording of the result.
func (b *branch) look(ctx context.Context) (manifest string) {
	if b.Look == nil {
		return ""
	}
	b.looking.Lock()
	defer b.looking.Unlock()
	manifest, err := b.Look(ctx)
	if err != nil {
		b.Log.Warn("the workspace could not be checked after a command", "event", "look_failed", "error", err.Error())
		return ""
	}
	if manifest != "" {
		b.crew.looked(manifest)
	}
	return manifest
}

// changedFiles lists the session's own files that a command changed. Their new hashes go
// into its receipt. A path that is no regular file has no hash, so its times count.
func (b *branch) changedFiles(ctx context.Context) ([]session.FileState, error) {
	known := b.book.known()
	if len(known) == 0 || b.Files == nil { // nil if a cancelled session's workspace is gone
		return nil, nil
	}
	now, err := b.Files.Stat(ctx, known)
	if session.CodeOf(err) == session.ErrFileStep { // no step has failed: the next resume takes the result
		err = &session.Error{Code: session.ErrEnvironment, Message: "the files of the session cannot be read, so the result of the command was not recorded", Cause: err}
	}
	if err != nil {
		return nil, err
	}
	var changed []session.FileState
	for i, f := range now {
		if f.Hash != known[i].Hash || f.Mode != known[i].Mode || f.Hash == "" && (f.Inode != known[i].Inode || f.CTimeNS != known[i].CTimeNS) {
			changed = append(changed, f)
		}
	}
	slices.SortFunc(changed, func(a, b session.FileState) int { return strings.Compare(a.Path, b.Path) })
	return changed, nil
}
