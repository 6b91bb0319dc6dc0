package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"time"

	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/session"
)

// Logs selects outputs of commands.
type Logs struct {
	// Ref is as in Status.
	Ref string
	// Step is TASK/STEP; empty means every step.
	Step string
	// Attempt counts from 1; 0 means the latest attempt of each step.
	Attempt int
	// Follow also waits for new output, until no process executes the session.
	Follow bool

	// Begin is called before the output of each attempt, unless it is nil.
	Begin func(step session.StepID, attempt int) error

	// Tell, if not nil, is called for the session and then for each line, instead of
	// Begin and the writer. A line that was read while it was written has the time of the
	// read.
	Tell func(session.Notice)
}

// Logs writes all stored output of commands to w, redacted, in the order of their starts.
// This includes the output of running commands. Logs takes no lock and changes nothing.
func (s *Site) Logs(ctx context.Context, o Logs, w io.Writer) error {
	id, err := s.subject(ctx, o.Ref)
	if err != nil {
		return err
	}
	if o.Step != "" {
		if _, err := session.ParseStepID(o.Step); err != nil {
			return &session.Error{Code: session.ErrUsage, Message: err.Error()}
		}
	}
	l := logs{Logs: o, site: s, id: id, to: w}
	if o.Tell != nil {
		if err := l.announce(ctx); err != nil {
			return err
		}
	}
	for {
		sess, err := s.store.View(ctx, id)
		if err != nil {
			return err
		}
		runs := s.row(summary(sess)).Running // look before reading the events, so that none is missed
		if err := l.read(ctx); err != nil {
			return err
		}
		for ; l.written < len(l.attempts); l.written++ {
			if err := l.write(ctx, l.attempts[l.written]); err != nil {
				return err
			}
		}
		switch {
		case o.Follow && runs:
		case !l.found && o.Step != "":
			return &session.Error{Code: session.ErrUsage, Message: "no such attempt of a command was started in this session", Place: o.Step, Next: session.Do(session.MoveShow, string(id))}
		default:
			return nil
		}
		if !pause(ctx) {
			return context.Cause(ctx)
		}
	}
}

// announce tells the session and loads the items of its steps.
func (l *logs) announce(ctx context.Context) error {
	sess, p, next, err := l.site.outlook(ctx, l.id)
	if err != nil {
		return err
	}
	l.split = split(p)
	l.items = map[session.StepID]session.Item{}
	for _, it := range next.Items {
		l.items[it.ID] = it
	}
	l.Tell(session.Notice{Kind: session.NoticeSession, Session: sess, Text: sess.Task})
	return nil
}

// split returns the steps whose commands write two separate streams.
func split(p *session.Plan) map[session.StepID]bool {
	out := map[session.StepID]bool{}
	for id, step := range p.All() {
		out[id] = step.Run != nil && step.Run.Capture != ""
	}
	return out
}

// pause waits until the next look is due, and reports false if ctx has ended.
func pause(ctx context.Context) bool {
	t := time.NewTimer(100 * time.Millisecond)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// logs is the state of Logs.
type logs struct {
	Logs
	site *Site
	id   session.ID
	to   io.Writer
	// set if lines are told
	items map[session.StepID]session.Item
	// set if lines are told: steps whose two streams are stored apart
	split map[session.StepID]bool
	// seq of the last event that was read
	after    uint64
	attempts []*attempt
	// the number of attempts that were written
	written int
	// whether a wanted attempt was found
	found bool
}

// attempt is one start of a command.
type attempt struct {
	step   session.StepID
	number int
	key    string
	// tool and label of a call of an agent
	title, label string
	// whether there is a receipt
	over bool
	// result in the receipt; nil if it has none
	result *session.CommandResult
}

// read takes the new events.
func (l *logs) read(ctx context.Context) error {
	for {
		page, err := l.site.store.Events(ctx, l.id, l.after, pageEvents)
		if err != nil {
			return err
		}
		for _, e := range page {
			if err := l.take(e); err != nil {
				return err
			}
			l.after = e.Seq
		}
		if len(page) < pageEvents {
			return nil
		}
	}
}

func (l *logs) take(e session.Event) error {
	switch e.Type {
	case session.StepStarted, session.OperationStarted:
		var d session.StepStartedData
		if err := e.Decode(&d); err != nil || d.Kind != session.KindRun {
			return err
		}
		a := &attempt{step: d.StepID, number: d.Attempt, key: d.Key}
		if d.Call != nil {
			a.title, a.label = d.Call.Tool, l.site.Redactor.String(d.Call.Label)
		}
		l.attempts = append(l.attempts, a)
	case session.StepCompleted, session.StepFailedEvent, session.StepUnknown, session.OperationCompleted, session.OperationFailed, session.OperationUnknown:
		var d struct {
			Key     string                 `json:"key"`
			Command *session.CommandResult `json:"command"`
		}
		if err := e.Decode(&d); err != nil {
			return err
		}
		for _, a := range l.attempts {
			if a.key == d.Key {
				a.over, a.result = true, d.Command
			}
		}
	}
	return nil
}

// wants reports whether a is selected.
func (l *logs) wants(a *attempt) bool {
	if l.Step != "" && l.Step != a.step.String() {
		return false
	}
	if l.Attempt > 0 {
		return l.Attempt == a.number
	}
	for _, other := range l.attempts {
		if other.step == a.step && other.number > a.number {
			return false
		}
	}
	return true
}

// write writes the output of a's command. With Follow it waits until the command is over.
func (l *logs) write(ctx context.Context, a *attempt) error {
	if !l.wants(a) {
		return nil
	}
	if l.found = true; l.Begin != nil && l.Tell == nil {
		if err := l.Begin(a.step, a.number); err != nil {
			return err
		}
	}
	to := l.sinks(a)
	for !a.over {
		over, err := to.follow(ctx, l, a)
		switch {
		case err == nil && over:
			return to.close()
		case !errors.Is(err, fs.ErrNotExist): // an incomplete line may hold half of a secret
			return err
		}
		if err := l.read(ctx); err != nil {
			return err
		}
		sess, err := l.site.store.View(ctx, l.id)
		if err != nil {
			return err
		}
		if a.over {
			break
		}
		if !l.Follow || !l.site.row(summary(sess)).Running || !pause(ctx) { // the command was not started
			return context.Cause(ctx)
		}
	}
	if a.result == nil {
		return nil
	}
	return errors.Join(l.site.kept(ctx, a.result, to.stdout, to.stderr), to.close())
}

// sinks take the output of a command.
type sinks struct {
	stdout, stderr io.Writer
	// nil if the output is only masked and copied
	lines []*liveLines
	close func() error
}

func (l *logs) sinks(a *attempt) sinks {
	if l.Tell == nil {
		masked := l.site.Redactor.Stream(l.to)
		return sinks{stdout: masked, stderr: masked, close: masked.Close}
	}
	it, out := l.item(a), l.site.liveOutputs(l.id, l.Tell)
	if it.Action, it.Attempt = session.ActionExecute, a.number; a.number > 1 {
		it.Action = session.ActionRetry
	}
	stdout, stderr := out.lines(it, session.BothStreams), out.lines(it, session.Stderr)
	if l.split[a.step] {
		stdout.stream = session.Stdout
	}
	stdout.unwatched, stderr.unwatched = math.MaxInt64, math.MaxInt64
	return sinks{stdout, stderr, []*liveLines{stdout, stderr}, func() error { return errors.Join(stdout.close(), stderr.close()) }}
}

// item returns the item of a's step. A call of an agent is not in the plan.
func (l *logs) item(a *attempt) session.Item {
	if it, known := l.items[a.step]; known {
		return it
	}
	return session.Item{ID: a.step, Title: a.title, Label: a.label, Kind: session.KindRun}
}

// follow copies the output of a's command, and with Follow also its later output.
func (t sinks) follow(ctx context.Context, l *logs, a *attempt) (over bool, err error) {
	dir := l.site.commandDir(l.id)
	if l.Follow && t.lines != nil {
		var before [2]count
		if _, err := command.Follow(ctx, dir, a.key, false, &before[0], &before[1]); err != nil {
			return false, err
		}
		for i, lines := range t.lines {
			lines.unwatched = before[i].n
		}
	}
	return command.Follow(ctx, dir, a.key, l.Follow, t.stdout, t.stderr)
}

// kept writes the outputs that a receipt holds.
func (s *Site) kept(ctx context.Context, c *session.CommandResult, stdout, stderr io.Writer) error {
	return errors.Join(s.keptOf(ctx, c.Stdout, stdout), s.keptOf(ctx, c.Stderr, stderr))
}

func (s *Site) keptOf(ctx context.Context, o session.Output, to io.Writer) error {
	hash := o.Whole.Hash
	if hash == "" {
		hash = o.Blob.Hash
	}
	if hash == "" {
		_, err := io.WriteString(to, o.Text)
		return err
	}
	r, err := s.store.OpenBlob(ctx, hash)
	if err != nil {
		return fmt.Errorf("open an output: %w", err)
	}
	_, err = io.Copy(to, r)
	return errors.Join(err, r.Close())
}
