package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/acode-dev/acode/session"
)

// leftWait is how long acode waits for the remaining processes of a command when no
// person can be asked and the step has no timeout.
const leftWait = time.Minute

// outlive waits for the remaining processes of a command whose outcome is unknown,
// because they may change the answer. A person chooses to wait or to decide now. If acode
// cannot ask, it waits for the timeout of the step, then stops with ErrUncertain and the
// list of processes. An answer given in advance decides at once.
func (b *branch) outlive(ctx context.Context, it *session.Item, step *session.Step, key string) error {
	if by, _ := b.declared(it, step.Run, key); by == "person" {
		return nil
	}
	left, err := b.Commands.Left(ctx, key)
	if err == nil && len(left) > 0 { // do not ask about processes that are just ending
		if awaitEnd(ctx, requestPoll); ctx.Err() != nil {
			return context.Cause(ctx)
		}
		left, err = b.Commands.Left(ctx, key)
	}
	if err != nil || len(left) == 0 {
		return err
	}
	b.tell(session.Notice{Kind: session.NoticeWarning, Item: it, Text: fmt.Sprintf("processes of the command of %s still run:", it.ID), Detail: b.redacted(left)})
	b.Log.Warn("a command left processes running", "event", "command_left", "step", it.ID.String(), "key", key, "processes", len(left))
	wait := false
	err = b.asking(ctx, func() (err error) {
		wait, err = b.Person.Linger(ctx, *it, b.redacted(left))
		return err
	})
	limit, bound := time.Duration(0), ""
	switch {
	case errors.Is(err, session.ErrUncertain):
		limit = leftWait
		if step.Run.Timeout > 0 {
			limit = step.Run.Timeout
		}
		bound = fmt.Sprintf(", at most %s", limit)
	case err != nil:
		return err
	case !wait:
		return nil
	}
	b.tell(session.Notice{Kind: session.NoticeInfo, Item: it, Text: "Waiting until it ends" + bound + "."})
	return b.untilNone(ctx, it, key, limit)
}

// leaves reports whether any process of the command of key runs.
func (b *branch) leaves(ctx context.Context, key string) bool {
	left, err := b.Commands.Left(ctx, key)
	return err == nil && len(left) > 0
}

// untilNone waits until no process of the command of key runs, at most limit; 0 means no
// limit.
func (b *branch) untilNone(ctx context.Context, it *session.Item, key string, limit time.Duration) error {
	var over <-chan time.Time
	if limit > 0 {
		t := time.NewTimer(limit)
		defer t.Stop()
		over = t.C
	}
	tick := time.NewTicker(requestPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		case <-over:
			return b.stillLeft(ctx, it, key)
		}
		if err := b.boundary(ctx); err != nil {
			return err
		}
		if left, err := b.Commands.Left(ctx, key); err != nil || len(left) == 0 {
			return err
		}
	}
}

// stillLeft stops the session before a decision that the remaining processes could make
// wrong.
func (b *branch) stillLeft(ctx context.Context, it *session.Item, key string) error {
	left, err := b.Commands.Left(ctx, key)
	if err != nil || len(left) == 0 {
		return err
	}
	return &stop{to: session.Paused, reason: session.ReasonUncertain, code: session.ErrUncertain,
		detail: fmt.Sprintf("%s: the outcome of its command is unknown, and its processes still run: %s", it.ID, strings.Join(b.redacted(left), "; ")),
		next:   b.answerWith(it)}
}
