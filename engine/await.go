package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/acode-dev/acode/session"
)

const (
	requestPoll = 200 * time.Millisecond
	againWindow = 600 * time.Millisecond // in which a second signal is waited for
	endPoll     = 50 * time.Millisecond  // how often it is looked meanwhile whether the command has ended
)

// await waits for a command. What ends the wait decides what becomes of it:
//
//	its own end                           its record is the result
//	a request to cancel the session       terminate: INT, TERM, KILL, and its record
//	a signal                              leave: the session pauses, the command runs on; if it
//	                                      ends within againWindow, that is recorded
//	a second one within againWindow       terminate
//	the end of the session's time         it runs on
//	a signal or that end, where the
//	command would end with this process   terminate, at once
func (e *Engine) await(ctx context.Context, it *session.Item, key string, wait func(context.Context) (session.CommandRecord, error)) (session.CommandRecord, error) {
	watched, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		e.watch(watched, cancel, it, key)
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
	case errors.Is(cause, session.ErrTimeout) || errors.Is(cause, context.DeadlineExceeded):
		if e.endsWithUs(ctx, key) {
			return e.terminate(ctx, key) // the time that is over is met after its record
		}
		return rec, outOfTime(e.became(context.WithoutCancel(ctx), it, key))
	}
	return rec, cause
}

// watch ends a wait when somebody asks to cancel the session, and says once that the command has lost
// its supervisor.
func (e *Engine) watch(ctx context.Context, cancel context.CancelCauseFunc, it *session.Item, key string) {
	tick := time.NewTicker(requestPoll)
	defer tick.Stop()
	for alone := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !alone {
			alone = e.alone(ctx, it, key)
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

// alone reports whether a command runs without its supervisor, and says then what that means.
func (e *Engine) alone(ctx context.Context, it *session.Item, key string) bool {
	rec, err := e.Commands.Look(ctx, key)
	if err != nil || rec.State != session.CommandUnattended {
		return false
	}
	e.Notify(session.Notice{Kind: session.NoticeWarning, Item: it, Text: fmt.Sprintf(
		"the supervisor of the %s of %s is gone; the %[1]s runs on, without a timeout, and nobody will know how it ends: then %[3]s", e.what(it, key), it.ID, e.foresee(it, key))})
	e.Log.Warn("a command runs without its supervisor", "event", "command_unattended", "step", it.ID.String(), "key", key)
	return true
}

// leave pauses the session with its command running on, and gives a second signal a moment.
func (e *Engine) leave(ctx context.Context, it *session.Item, key string, sig Interrupted) (session.CommandRecord, error) {
	s, ends := e.Journal.Session(), e.endsWithUs(ctx, key)
	said := session.Notice{Kind: session.NoticeInfo, Item: it, Text: "The running command stays with its supervisor; signal again now to end it.",
		Hint: session.Then("end it later", session.MoveCancelCommand, s.Short)}
	if rec, err := e.Commands.Look(context.WithoutCancel(ctx), key); err == nil && rec.State == session.CommandUnattended {
		said.Text = "The running command runs on, without its supervisor; signal again now to end it."
	}
	if ends {
		said.Text, said.Hint = "The running command is ended too: nothing outlives this process, which is PID 1.", session.Hint{}
	}
	e.Notify(said)
	halt := &stop{to: session.Paused, reason: session.ReasonSignal, signal: sig.Signal, detail: "interrupted by a signal"}
	bg := context.WithoutCancel(ctx)
	manifest, git := e.snapshot(bg, halt.reason)
	if err := e.commit(bg, session.Draft{Type: session.StateChanged, Actor: "user", Data: session.StateChangedData{
		From: s.State, To: session.Paused, Reason: halt.reason, Detail: halt.detail, Signal: halt.signal, Manifest: manifest, Git: git}}); err != nil {
		return session.CommandRecord{}, err
	}
	if ends {
		return e.terminate(bg, key)
	}
	window, tick := time.NewTimer(againWindow), time.NewTicker(endPoll)
	defer window.Stop()
	defer tick.Stop()
	for {
		select {
		case <-tick.C: // its service may have been told as a whole to end
			if rec, err := e.Commands.Look(bg, key); err == nil && rec.State == session.CommandFinished {
				return rec, nil
			}
		case <-window.C:
			halt.aside = e.became(bg, it, key)
			return session.CommandRecord{}, halt
		case <-e.Again:
			return e.terminate(bg, key)
		}
	}
}

// endsWithUs reports whether the command would end with this process, unrecorded. One that runs in
// another PID namespace does not.
func (e *Engine) endsWithUs(ctx context.Context, key string) bool {
	if !e.Last {
		return false
	}
	rec, err := e.Commands.Look(context.WithoutCancel(ctx), key)
	return err != nil || !rec.Elsewhere
}

// became says what has become of a command that acode leaves: it may not even have begun. Whether it
// still runs later, status finds out.
func (e *Engine) became(ctx context.Context, it *session.Item, key string) string {
	if e.runsOn(ctx, key) {
		return "; the " + e.what(it, key) + " of " + it.ID.String() + " runs on"
	}
	return ""
}

// runsOn reports whether something runs of what was started under key.
func (e *Engine) runsOn(ctx context.Context, key string) bool {
	rec, err := e.Commands.Look(ctx, key)
	return err == nil && slices.Contains([]session.CommandState{session.CommandRunning, session.CommandUnattended, session.CommandLingering}, rec.State)
}

// what says what of a step runs under key.
func (e *Engine) what(it *session.Item, key string) string {
	if key == e.key(it, it.Attempt) {
		return "command"
	}
	return "check"
}

// terminate ends the command and waits for its record.
func (e *Engine) terminate(ctx context.Context, key string) (session.CommandRecord, error) {
	bg := context.WithoutCancel(ctx)
	if err := e.Commands.Terminate(bg, key); err != nil {
		return session.CommandRecord{}, err
	}
	return e.Commands.Wait(bg, key)
}
