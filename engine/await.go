package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/acode-dev/acode/session"
)

const (
	requestPoll = 200 * time.Millisecond
	// againWindow is how long acode waits for a second signal.
	againWindow = 600 * time.Millisecond
	// endPoll is how often acode checks meanwhile whether the command has ended.
	endPoll = 50 * time.Millisecond
)

// await waits for a command. The event that ends the wait decides about the command:
//
//	the command ends             its record is the result
//	a request to cancel the      terminate: INT, TERM, KILL; the record says so
//	  session
//	a signal                     leave: the session pauses and the command continues.
//	                             acode records its end within againWindow, or while a
//	                             person at a terminal may still decide
//	a second signal meanwhile    terminate
//	the session's timeout        the command continues
//	a signal or the timeout,     terminate at once
//	  when the command would
//	  end with this process
func (b *branch) await(ctx context.Context, it *session.Item, key string, wait func(context.Context) (session.CommandRecord, error)) (session.CommandRecord, error) {
	watched, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		b.watch(watched, cancel, it, key)
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
		return b.terminate(ctx, key)
	case errors.As(cause, &sig):
		return b.leave(ctx, it, key, sig)
	case errors.Is(cause, session.ErrTimeout) || errors.Is(cause, context.DeadlineExceeded):
		if b.endsWithUs(ctx, key) {
			return b.terminate(ctx, key) // the timeout is handled after the command's record
		}
		return rec, outOfTime(b.became(context.WithoutCancel(ctx), it, key))
	}
	return rec, cause
}

// watch ends a wait when another process asks to cancel the session. It warns once if the
// command has lost its supervisor.
func (b *branch) watch(ctx context.Context, cancel context.CancelCauseFunc, it *session.Item, key string) {
	tick := time.NewTicker(requestPoll)
	defer tick.Stop()
	for alone := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !alone {
			alone = b.alone(ctx, it, key)
		}
		requests, err := b.Journal.Requests(ctx)
		if err != nil {
			continue // the next Append finds the same problem and reports it
		}
		if slices.ContainsFunc(requests, func(r session.Request) bool { return r.Kind == session.RequestCancel }) {
			cancel(session.ErrCancelled)
			return
		}
	}
}

// alone reports whether a command runs without its supervisor. If so, it warns the
// person.
func (b *branch) alone(ctx context.Context, it *session.Item, key string) bool {
	rec, err := b.Commands.Look(ctx, key)
	if err != nil || rec.State != session.CommandUnattended {
		return false
	}
	b.tell(session.Notice{Kind: session.NoticeWarning, Item: it, Text: fmt.Sprintf(
		"the supervisor of the %s of %s is gone; the %[1]s runs on without a timeout, and no one will know how it ends: then %[3]s", b.what(it, key), it.ID, b.foresee(it, key))})
	b.Log.Warn("a command runs without its supervisor", "event", "command_unattended", "step", it.ID.String(), "key", key)
	return true
}

// leaving is a command that a branch leaves to its supervisor.
type leaving struct {
	it *session.Item
	// the command has lost its supervisor
	alone bool
	// the command would end with this process, and its end would not be recorded
	endsToo bool

	// closed when the wait for a second signal ends; nil means after againWindow
	over <-chan struct{}
}

// leave pauses the session while its commands continue, and waits a moment for a second
// signal.
func (b *branch) leave(ctx context.Context, it *session.Item, key string, sig Interrupted) (session.CommandRecord, error) {
	bg := context.WithoutCancel(ctx)
	l := &leaving{it: it, endsToo: b.endsWithUs(ctx, key)}
	if rec, err := b.Commands.Look(bg, key); err == nil {
		l.alone = rec.State == session.CommandUnattended
	}
	halt := interrupted(sig)
	if err := b.crew.leave(l, func(all []*leaving) error { return b.pauses(bg, all, halt) }); err != nil {
		return session.CommandRecord{}, err
	}
	if l.endsToo {
		return b.terminate(bg, key)
	}
	window, tick := time.NewTimer(againWindow), time.NewTicker(endPoll)
	defer window.Stop()
	moment := window.C
	if l.over != nil {
		moment = nil
	}
	defer tick.Stop()
	for {
		select {
		case <-tick.C: // a service manager may have signalled the whole service
			if rec, err := b.Commands.Look(bg, key); err == nil && rec.State == session.CommandFinished {
				return rec, nil
			}
			if asked, err := b.Journal.Requests(bg); l.over == nil || err != nil || len(asked) == 0 {
				continue
			} // otherwise another process waits for the session
		case <-moment:
		case <-l.over:
		case <-b.Again:
			return b.terminate(bg, key)
		}
		halt.aside = b.became(bg, it, key)
		return session.CommandRecord{}, halt
	}
}

// pauses commits the pause of a session that leaves all its commands. Before that it
// tells the person about them.
func (b *branch) pauses(ctx context.Context, all []*leaving, halt *stop) error {
	said := session.Notice{Kind: session.NoticeInfo, Text: "The running command stays with its supervisor; signal again now to end it.",
		Hint: session.Then("end it later", session.MoveCancelCommand, b.short)}
	switch l := all[0]; {
	case l.endsToo:
		said.Text, said.Hint = "The running command is ended too, because nothing outlives this process (PID 1).", session.Hint{}
	case len(all) == 1 && l.alone:
		said.Text = "The running command runs on without its supervisor; signal again now to end it."
	}
	if said.Item = all[0].it; len(all) > 1 {
		said.Item = nil
		said.Text = strings.NewReplacer("The running command stays with its", fmt.Sprintf("The %d running commands stay with their", len(all)),
			"The running command is", fmt.Sprintf("The %d running commands are", len(all)), "end it", "end them").Replace(said.Text)
		said.Hint.Text = strings.Replace(said.Hint.Text, "it", "them", 1)
	}
	b.tell(said)
	manifest, git := b.snapshot(ctx, halt.reason)
	if err := b.commit(ctx, session.Draft{Type: session.StateChanged, Actor: "user", Data: session.StateChangedData{
		To: halt.to, Reason: halt.reason, Detail: halt.detail, Signal: halt.signal, Manifest: manifest, Git: git}}); err != nil {
		return err
	}
	if !all[0].endsToo {
		over := b.Person.Left(ctx)
		for _, l := range all {
			l.over = over
		}
	}
	return nil
}

// endsWithUs reports whether the command would end with this process without a record. A
// command in another PID namespace does not.
func (b *branch) endsWithUs(ctx context.Context, key string) bool {
	if !b.Last {
		return false
	}
	rec, err := b.Commands.Look(context.WithoutCancel(ctx), key)
	return err != nil || !rec.Elsewhere
}

// became returns a text that says whether a command that acode leaves still runs. The
// command may not even have begun.
func (b *branch) became(ctx context.Context, it *session.Item, key string) string {
	if b.runsOn(ctx, key) {
		return "; the " + b.what(it, key) + " of " + it.ID.String() + " runs on"
	}
	return ""
}

// runsOn reports whether any process of the command of key runs.
func (b *branch) runsOn(ctx context.Context, key string) bool {
	rec, err := b.Commands.Look(ctx, key)
	return err == nil && slices.Contains([]session.CommandState{session.CommandRunning, session.CommandUnattended, session.CommandLingering}, rec.State)
}

// what returns the name for the operation of key: "command" or "check".
func (b *branch) what(it *session.Item, key string) string {
	if key == b.key(it, it.Attempt) {
		return "command"
	}
	return "check"
}

// terminate ends the command and waits for its record.
func (b *branch) terminate(ctx context.Context, key string) (session.CommandRecord, error) {
	bg := context.WithoutCancel(ctx)
	if err := b.Commands.Terminate(bg, key); err != nil {
		return session.CommandRecord{}, err
	}
	return b.Commands.Wait(bg, key)
}
