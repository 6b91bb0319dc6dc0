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

// Logs says which output of commands is wanted.
type Logs struct {
	// as in Status
	Ref string
	// TASK/STEP; empty: of every step
	Step string
	// from 1; 0: the latest one of each step
	Attempt int
	// also what is still to come, until no process executes the session
	Follow bool

	// called before the output of an attempt; nil: nothing is
	Begin func(step session.StepID, attempt int) error

	// Tell is told each line, with the time at which it was read where that was while it
	// was written, and first the session. With it nothing is written, and Begin is not
	// called.
	Tell func(session.Notice)
}

// Logs writes to w what commands wrote, in the order in which they were started: all that
// was kept, redacted, also of one that runs. It takes no lock and changes nothing.
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
		runs := s.row(summary(sess)).Running // before the look at its events: none is missed
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

// announce tells the session, and learns what its steps are called.
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

// split gives the steps whose commands write their two streams apart.
func split(p *session.Plan) map[session.StepID]bool {
	out := map[session.StepID]bool{}
	for id, step := range p.All() {
		out[id] = step.Run != nil && step.Run.Capture != ""
	}
	return out
}

// pause waits until it is time to look again, and reports whether ctx goes on.
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
	// where lines are told
	items map[session.StepID]session.Item
	// likewise: steps whose two streams are kept apart
	split map[session.StepID]bool
	// the last event that was read
	after    uint64
	attempts []*attempt
	// so many attempts
	written int
	// one that is wanted
	found bool
}

// attempt is one start of a command.
type attempt struct {
	step   session.StepID
	number int
	key    string
	// there is a receipt
	over bool
	// of the receipt; nil: it has none
	result *session.CommandResult
}

// read takes the events that came since.
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
	case session.StepStarted:
		var d session.StepStartedData
		if err := e.Decode(&d); err != nil || d.Kind != session.KindRun {
			return err
		}
		l.attempts = append(l.attempts, &attempt{step: d.StepID, number: d.Attempt, key: d.Key})
	case session.StepCompleted, session.StepFailedEvent, session.StepUnknown:
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

// wants reports whether a is asked for.
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

// write writes what the command of a wrote, until it is over where that is wanted.
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
		case !errors.Is(err, fs.ErrNotExist): // a line that is not complete may hold half of a secret
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
		if !l.Follow || !l.site.row(summary(sess)).Running || !pause(ctx) { // it was not started
			return context.Cause(ctx)
		}
	}
	if a.result == nil {
		return nil
	}
	return errors.Join(l.site.kept(ctx, a.result, to.stdout, to.stderr), to.close())
}

// sinks take what a command wrote.
type sinks struct {
	stdout, stderr io.Writer
	// nil: it is copied as it is, but for secrets
	lines []*liveLines
	close func() error
}

func (l *logs) sinks(a *attempt) sinks {
	if l.Tell == nil {
		masked := l.site.Redactor.Stream(l.to)
		return sinks{stdout: masked, stderr: masked, close: masked.Close}
	}
	it, out := l.items[a.step], l.site.liveOutputs(l.id, l.Tell)
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

// follow copies what the command of a has written, and what it writes where that is
// wanted.
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

// kept writes what receipts hold.
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
