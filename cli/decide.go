package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/lock"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

// writing opens the store for a command that may write.
func (a *app) writing(ctx context.Context, f func(context.Context, *base, *local.Store) error) error {
	b, err := a.boot(nil)
	if err != nil {
		return err
	}
	s, err := b.openWrite(ctx)
	if err != nil {
		return err
	}
	return errors.Join(f(ctx, b, s), s.Close(), b.closeLog())
}

// decisionJSON is what a person decided about a session, for scripts.
type decisionJSON struct {
	V         int        `json:"v"`
	SessionID session.ID `json:"session_id"`
	ShortID   string     `json:"short_id"`
	Kind      string     `json:"kind"`
	Recorded  bool       `json:"recorded"` // false: the process that executes the session was asked
	Ended     int        `json:"commands_ended"`
	Warnings  []string   `json:"warnings,omitempty"`
}

// tell writes the outcome of a command that is no stream.
func (b *base) tell(d decisionJSON, text string) error {
	if b.json {
		d.V = 1
		return terminal.JSON(b.io.out, d)
	}
	_, err := fmt.Fprintln(b.io.out, text)
	return err
}

// decision gives the events of a decision, and what it did besides.
type decision func(*session.Session) ([]session.Draft, sideEffects, error)

type sideEffects struct {
	ended    int      // commands
	warnings []string // for the person
}

// decide writes events when nobody holds the session's lock, and otherwise leaves a request
// for the holder; also then it writes them where the holder ends without an answer.
func (b *base) decide(ctx context.Context, s *local.Store, r session.Request, events decision) error {
	id := r.Session
	sess, err := s.View(ctx, id)
	if err != nil {
		return err
	}
	said := decisionJSON{SessionID: id, ShortID: sess.Short, Kind: string(r.Kind)}
	held, err := b.hold(id, b.commandLine())
	if errors.Is(err, session.ErrLocked) {
		if err := s.Ask(ctx, r); err != nil {
			return err
		}
		if held, err = b.holdUnanswered(ctx, s, r); held == nil && err == nil {
			return b.tellAsked(ctx, s, r, said)
		}
	}
	if err != nil {
		return err
	}
	also, err := b.append(ctx, s, r, events)
	if err := errors.Join(err, held.Release()); err != nil {
		return err
	}
	said.Recorded, said.Ended, said.Warnings = true, also.ended, also.warnings
	text := "Recorded: " + string(r.Kind) + b.spelled(recordedText(r.Kind, sess.Short, also.ended))
	for _, w := range also.warnings {
		text += "\n⚠ " + terminal.Clean(w)
	}
	return b.tell(said, text)
}

// tellAsked says that somebody else was asked, and whether that has done it.
func (b *base) tellAsked(ctx context.Context, s *local.Store, r session.Request, said decisionJSON) error {
	waits, err := s.Asked(ctx, r)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("The process that executes session %s was asked to %s", said.ShortID, r.Kind)
	if waits != 0 {
		text += ", and has not answered yet; see: " + b.spelled("acode status "+said.ShortID)
	}
	return b.tell(said, text)
}

// answerTime is how long whoever was asked is given to end or to answer: a signal ends acode within a
// second.
const answerTime = 1500 * time.Millisecond

// holdUnanswered takes the session's lock if its holder gives it back without having answered r. nil:
// it has answered, or goes on for longer than answerTime and will.
func (b *base) holdUnanswered(ctx context.Context, s *local.Store, r session.Request) (*lock.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		held, err := b.hold(r.Session, b.commandLine())
		if err != nil && !errors.Is(err, session.ErrLocked) {
			return nil, err
		}
		waits, err := s.Asked(context.WithoutCancel(ctx), r)
		if held != nil && (err != nil || waits == 0) {
			err, held = errors.Join(err, held.Release()), nil
		}
		if held != nil || err != nil || waits == 0 {
			return held, err
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-tick.C:
		}
	}
}

// recordedText says what a recorded decision means and what comes next.
func recordedText(k session.RequestKind, short string, ended int) string {
	if k != session.RequestCancel {
		return "; continue with: acode resume " + short
	}
	if ended == 0 {
		return "; session " + short + " is over"
	}
	return "; session " + short + " is over, " + endedText(ended)
}

// append writes the events of a decision, in the place of a request like r that was left unanswered.
func (b *base) append(ctx context.Context, s *local.Store, r session.Request, events decision) (sideEffects, error) {
	w, err := s.Load(ctx, r.Session)
	if err != nil {
		return sideEffects{}, err
	}
	drafts, also, err := events(w.Session())
	if err == nil {
		var asked int64
		if asked, err = s.Asked(ctx, r); err == nil {
			_, err = w.AppendAnswering(ctx, asked, drafts...)
		}
	}
	return also, errors.Join(err, w.Close())
}
