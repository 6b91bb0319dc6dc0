package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/acode-dev/acode/session"
)

const (
	maxCapture  = 64 << 10
	maxReceipt  = 256 << 10 // of each output stream that a receipt keeps
	cutMargin   = 4 << 10   // seen beyond a cut: no secret is longer
	shownLines  = 5         // of the standard error of a failed command
	wroteLines  = 200       // of each output that whoever wants more is shown
	requestPoll = 200 * time.Millisecond
	againWindow = 600 * time.Millisecond // in which a second signal is waited for
)

// run executes a command step under its supervisor.
func (e *Engine) run(ctx context.Context, it *session.Item, step *session.Step) error {
	if e.uncertain(it) {
		if err := e.again(ctx, it); err != nil {
			return err
		}
		return e.settle(ctx, it, step, session.CommandRecord{Key: e.key(it, it.Attempt), State: session.CommandUnknown, Why: e.Journal.Session().Steps[it.ID].Message})
	}
	if err := e.enter(ctx, it, step.Digest()); err != nil {
		return err
	}
	if it.Action == session.ActionAttach {
		e.handling(it, it.Action)
	}
	return e.launch(ctx, it, step)
}

// launch hands a command whose intent is durable to its supervisor and takes what comes back.
func (e *Engine) launch(ctx context.Context, it *session.Item, step *session.Step) error {
	req, err := e.request(ctx, it, step.Run)
	if err != nil {
		return err
	}
	rec, err := e.await(ctx, it, req.Key, func(ctx context.Context) (session.CommandRecord, error) { return e.Commands.Run(ctx, req) })
	if err != nil {
		return commandFailure(err)
	}
	return e.outcome(ctx, it, step, rec)
}

func (e *Engine) uncertain(it *session.Item) bool {
	return e.inProgress(it) && e.Journal.Session().Steps[it.ID].Status == session.StepUncertain
}

// commandFailure makes a failed step of a request that the supervisor refused.
func commandFailure(err error) error {
	switch session.CodeOf(err) {
	case session.ErrEscape, session.ErrCommand:
		return &failure{code: session.CodeOf(err), message: err.Error()}
	}
	return err
}

// request builds what the supervisor is asked to run.
func (e *Engine) request(ctx context.Context, it *session.Item, r *session.Run) (session.CommandRequest, error) {
	values, err := e.captures(ctx, it)
	if err != nil {
		return session.CommandRequest{}, err
	}
	env := slices.Clone(e.Environ)
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
	s := e.Journal.Session()
	return session.CommandRequest{
		Key: e.key(it, it.Attempt), Epoch: s.Epoch, Argv: r.Command(), Workspace: s.Workspace, Dir: r.Dir,
		Env: env, Timeout: r.Timeout, Volatile: r.Volatile,
	}, nil
}

// await waits for a command. A signal leaves the command to its supervisor, a second one ends
// it; a request to cancel the session ends it too.
func (e *Engine) await(ctx context.Context, it *session.Item, key string, wait func(context.Context) (session.CommandRecord, error)) (session.CommandRecord, error) {
	watched, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		e.watch(watched, cancel)
	}()
	rec, err := wait(watched)
	cancel(nil)
	<-stopped
	if err == nil || !errors.Is(err, context.Cause(watched)) && !errors.Is(err, context.Canceled) {
		return rec, err
	}
	cause := context.Cause(watched)
	var sig Interrupted
	switch {
	case errors.Is(cause, session.ErrCancelled):
		return e.terminate(ctx, key)
	case errors.As(cause, &sig):
		return e.leave(ctx, it, key, sig)
	}
	return rec, cause
}

// watch ends a wait when somebody asks to cancel the session.
func (e *Engine) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(requestPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		requests, err := e.Journal.Requests(ctx)
		if err != nil {
			continue // the next Append meets the same store and says what is wrong with it
		}
		if slices.ContainsFunc(requests, func(r session.Request) bool { return r.Kind == session.RequestCancel }) {
			cancel(session.ErrCancelled)
			return
		}
	}
}

// leave pauses the session with its command running on, and gives a second signal a moment.
func (e *Engine) leave(ctx context.Context, it *session.Item, key string, sig Interrupted) (session.CommandRecord, error) {
	s := e.Journal.Session()
	e.Notify(session.Notice{Kind: session.NoticeInfo, Item: it, Text: "The running command stays with its supervisor; signal again now to end it.",
		Detail: []string{"end it later: acode session cancel --command " + s.Short}})
	halt := &stop{to: session.Paused, reason: session.ReasonSignal, signal: sig.Signal, detail: "interrupted by a signal; the command of " + it.ID.String() + " runs on"}
	bg := context.WithoutCancel(ctx)
	manifest, git := e.snapshot(bg)
	if err := e.commit(bg, session.Draft{Type: session.StateChanged, Actor: "user", Data: session.StateChangedData{
		From: s.State, To: session.Paused, Reason: halt.reason, Detail: halt.detail, Manifest: manifest, Git: git}}); err != nil {
		return session.CommandRecord{}, err
	}
	window := time.NewTimer(againWindow)
	defer window.Stop()
	select {
	case <-window.C:
		return session.CommandRecord{}, halt
	case <-e.Again:
		return e.terminate(bg, key)
	}
}

// terminate ends the command and waits for its record.
func (e *Engine) terminate(ctx context.Context, key string) (session.CommandRecord, error) {
	bg := context.WithoutCancel(ctx)
	if err := e.Commands.Terminate(bg, key); err != nil {
		return session.CommandRecord{}, err
	}
	return e.Commands.Wait(bg, key)
}

// outcome turns the record of a command that is over into a receipt or a question.
func (e *Engine) outcome(ctx context.Context, it *session.Item, step *session.Step, rec session.CommandRecord) error {
	switch rec.State {
	case session.CommandFinished:
		return e.finished(ctx, it, step, rec, "")
	case session.CommandUnknown, session.CommandLingering:
		return e.unknown(ctx, it, step, rec)
	case session.CommandVoid:
		return e.nextAttempt(ctx, it, step, "policy")
	}
	return &session.Error{Code: session.ErrInternal, Message: fmt.Sprintf("the supervisor answered with a command that is %s", rec.State), Place: it.ID.String()}
}

// finished keeps the outputs and the files that the command changed, and queues the receipt.
func (e *Engine) finished(ctx context.Context, it *session.Item, step *session.Step, rec session.CommandRecord, by string) error {
	ctx = context.WithoutCancel(ctx)
	result, wrote, last, err := e.result(ctx, rec)
	if err != nil {
		return err
	}
	files, err := e.changedFiles(ctx)
	if err != nil {
		return err
	}
	receipt := session.StepCompletedData{Command: result, Files: files, By: by}
	f := judge(step.Run, result)
	if f != nil {
		f.last = last
	} else if step.Run.Capture != "" {
		receipt.Capture, err = e.capture(ctx, rec.Key, step.Run.Capture)
		if f, err = captureFailure(err); err != nil {
			return err
		}
	}
	// Only now: until there is a receipt, the raw output is all that there is.
	e.spent = append(e.spent, rec.Key)
	for _, line := range wrote {
		e.onCommit = append(e.onCommit, session.Notice{Kind: session.NoticeOutput, Item: it, Text: line})
	}
	if f != nil {
		f.command, f.files = result, files
		return f
	}
	e.done(it, receipt)
	return nil
}

// captureFailure tells an output that cannot be captured from one that could not be read.
func captureFailure(err error) (*failure, error) {
	if err == nil || session.CodeOf(err) != session.ErrCommand {
		return nil, err
	}
	return &failure{code: session.ErrCommand, message: err.Error()}, nil
}

// judge says what was wrong with a finished command, nil when nothing was.
func judge(r *session.Run, c *session.CommandResult) *failure {
	switch {
	case c.StartError != "":
		return &failure{code: session.ErrCommand, message: "the command could not be started: " + c.StartError}
	case c.TimedOut:
		return &failure{code: session.ErrTimeout, message: fmt.Sprintf("the command ran out of its time of %s and was ended", r.Timeout)}
	case c.Cancelled:
		return &failure{code: session.ErrCommand, message: "the command was ended on request"}
	case c.Signal != "":
		return &failure{code: session.ErrCommand, message: "the command was killed by " + c.Signal}
	case c.Exit != 0:
		return &failure{code: session.ErrCommand, message: fmt.Sprintf("the command exited with status %d", c.Exit)}
	}
	return nil
}

// result keeps what the command wrote; wrote is the end of both outputs, last that of its
// standard error.
func (e *Engine) result(ctx context.Context, rec session.CommandRecord) (c *session.CommandResult, wrote, last []string, err error) {
	c = &session.CommandResult{
		Exit: rec.Exit, Signal: rec.Signal, TimedOut: rec.TimedOut, Cancelled: rec.Cancelled,
		StartError: rec.StartError, DurationUS: rec.EndedUS - rec.StartedUS, Left: rec.Left,
	}
	stdout, stderr, err := e.Commands.Output(rec.Key)
	if err != nil {
		return nil, nil, nil, err
	}
	defer stdout.Close()
	defer stderr.Close()
	for _, o := range []struct {
		from io.Reader
		to   *session.Output
	}{{stdout, &c.Stdout}, {stderr, &c.Stderr}} {
		text, size, cut, err := ends(o.from, maxReceipt, e.clean)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("read command output: %w", err)
		}
		out, err := e.output(ctx, text, size, cut)
		if err != nil {
			return nil, nil, nil, err
		}
		*o.to = *out
		wrote = append(wrote, e.lastLines(text, wroteLines)...)
		last = e.lastLines(text, shownLines)
	}
	return c, wrote, last, nil
}

// lastLines is the end of a text, at most count lines, as a person is shown it.
func (e *Engine) lastLines(text string, count int) []string {
	text = strings.TrimSpace(e.clean(text))
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	return lines[max(0, len(lines)-count):]
}

// ends reads r whole and keeps its first and last limit/2 bytes. What it cuts it cleans
// before, with a margin on the far side of the cut, so that no part of a secret is left over.
func ends(r io.Reader, limit int, clean func(string) string) (text string, size int64, cut bool, err error) {
	keep := limit/2 + cutMargin
	head, err := io.ReadAll(io.LimitReader(r, int64(keep)))
	if err != nil || len(head) < keep {
		return string(head), int64(len(head)), false, err
	}
	tail := slices.Clone(head[limit/2:])
	size = int64(len(head))
	buf := make([]byte, 32<<10)
	for err == nil {
		var n int
		n, err = r.Read(buf)
		size += int64(n)
		tail = append(tail, buf[:n]...)
		if len(tail) > 2*keep {
			cut = true
			tail = append(tail[:0], tail[len(tail)-keep:]...)
		}
	}
	if err != io.EOF {
		return "", size, cut, err
	}
	first, last := string(head), string(tail)
	if !cut { // nothing is lost yet: what runs over both halves is seen whole
		first = string(head[:limit/2]) + last
		if size <= int64(limit) {
			return first, size, false, nil
		}
		last = first
	}
	first, last = clean(first), clean(last)
	if cut { // however much cleaning took away, what the cut itself went through is in the margin
		first, last = first[:max(0, len(first)-cutMargin)], last[min(len(last), cutMargin):]
	}
	return first[:min(len(first), limit/2)] + "\n[acode: the middle was left out]\n" + last[max(0, len(last)-limit/2):], size, true, nil
}

// changedFiles lists the session's own files that a command changed: their new hashes go into
// its receipt.
func (e *Engine) changedFiles(ctx context.Context) ([]session.FileState, error) {
	s := e.Journal.Session()
	if len(s.Files) == 0 {
		return nil, nil
	}
	known := make([]session.FileState, 0, len(s.Files))
	for _, f := range s.Files {
		known = append(known, *f)
	}
	now, err := e.Files.Stat(ctx, known)
	if err != nil {
		return nil, err
	}
	var changed []session.FileState
	for i, f := range now {
		if f.Hash != known[i].Hash || f.Mode != known[i].Mode {
			changed = append(changed, f)
		}
	}
	slices.SortFunc(changed, func(a, b session.FileState) int { return strings.Compare(a.Path, b.Path) })
	return changed, nil
}

// capture takes the value of a capture from the command's raw standard output.
func (e *Engine) capture(ctx context.Context, key, name string) (*session.Capture, error) {
	stdout, stderr, err := e.Commands.Output(key)
	if err != nil {
		return nil, err
	}
	defer stdout.Close()
	defer stderr.Close()
	raw, err := io.ReadAll(io.LimitReader(stdout, 2*maxCapture))
	if err != nil {
		return nil, fmt.Errorf("read command output: %w", err)
	}
	value := strings.TrimSpace(string(raw))
	switch {
	case len(value) > maxCapture || len(raw) == 2*maxCapture:
		return nil, badCapture(name, "is longer than 64 KiB")
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return nil, badCapture(name, "is no text")
	}
	ref, err := e.Blobs.Stage(ctx, strings.NewReader(value), int64(len(value)))
	return &session.Capture{Name: name, Blob: ref}, err
}

func badCapture(name, what string) error {
	return &session.Error{Code: session.ErrCommand, Message: fmt.Sprintf("the output to be captured as %s %s", name, what)}
}
