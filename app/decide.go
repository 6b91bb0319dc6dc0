package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/lock"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
)

// Verdict is the answer to a question that a session waits for.
type Verdict struct {
	Ref    string // empty: the only session of the workspace that waits for an answer
	Step   string // narrows the question down; empty: the first one
	Grant  bool
	Reason string // of a denial
	By     string
}

// Decision is what became of what a person decided about a session. Its Session is nil when nothing did.
type Decision struct {
	Session  *session.Session // as it was before
	Kind     session.RequestKind
	Recorded bool // false: the process that executes the session was asked
	Waits    bool // and has not answered yet
	Ended    int  // commands
	Warnings []string
	Gate     *session.Gate // what was answered; nil for a cancel
}

// Decide answers the question that a session waits for. A session that is executed is answered by its
// process.
func (s *Site) Decide(ctx context.Context, v Verdict) (Decision, error) {
	id, err := s.waiting(ctx, v.Ref)
	if err != nil {
		return Decision{}, err
	}
	r := session.Request{Session: id, Kind: session.RequestDeny, Reason: v.Reason, By: v.By}
	if v.Grant {
		r.Kind = session.RequestApprove
	}
	shown, err := s.gate(ctx, &r, v.Step)
	if err != nil {
		return Decision{}, err
	}
	d, err := s.decide(ctx, r, func(w *local.Writer, asked int64, _ *Decision) error {
		drafts, err := answer(w.Session(), r, shown.Question)
		if err == nil {
			_, err = w.AppendAnswering(ctx, asked, drafts...)
		}
		return err
	})
	d.Gate = &shown
	return d, err
}

// gate finds the open question, which must be the one of step when that is named, and has r answer it.
func (s *Site) gate(ctx context.Context, r *session.Request, step string) (session.Gate, error) {
	sess, p, next, err := s.outlook(ctx, r.Session)
	if err != nil {
		return session.Gate{}, err
	}
	for _, it := range next.Items {
		st := sess.Steps[it.ID]
		if it.Kind != session.KindApprove || st == nil || st.Approval == nil || st.Status == session.StepDone {
			continue
		}
		if step != "" && step != it.ID.String() && step != it.ID.Step {
			continue
		}
		shown, digest, err := s.asks(ctx, sess, p, &next, it)
		if err != nil || digest == st.Approval.Digest {
			r.Step, r.Digest, r.Asked = it.ID, digest, st.LastSeq
			return shown, err
		}
	}
	what := "no approval"
	if step != "" {
		what += " of " + step
	}
	return session.Gate{}, &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("session %s waits for %s; nothing was changed", sess.Short, what),
		Next: session.Do(session.MoveStatus, sess.Short)}
}

// answer drafts the events of an answer that is given while no process executes the session.
func answer(sess *session.Session, r session.Request, question string) ([]session.Draft, error) {
	if err := resume.Allowed(sess); err != nil {
		return nil, err
	}
	drafts := sess.Answered(r, sess.Epoch+1, question)
	if len(drafts) == 0 {
		return nil, &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("the question about %s is answered already: %s; nothing was changed", r.Step, sess.Steps[r.Step].Approval.Answer),
			Next: session.Do(session.MoveResume, sess.Short)}
	}
	if r.Kind == session.RequestDeny && sess.State != session.Paused {
		drafts = append(drafts, session.Draft{Type: session.StateChanged, Actor: "user", Data: session.StateChangedData{
			From: sess.State, To: session.Paused, Reason: session.ReasonApproval, Detail: r.Reason, Code: session.ErrDenied}})
	}
	return drafts, nil
}

// decision writes the events of a decision, in the place of the request asked (0: there is none) that was
// left unanswered. It adds to out what else it did.
type decision func(w *local.Writer, asked int64, out *Decision) error

// decide writes events when nobody holds the session's lock, and otherwise leaves a request
// for the holder; also then it writes them where the holder ends without an answer.
func (s *Site) decide(ctx context.Context, r session.Request, write decision) (Decision, error) {
	sess, err := s.store.View(ctx, r.Session)
	if err != nil {
		return Decision{}, err
	}
	out := Decision{Session: sess, Kind: r.Kind}
	held, err := s.hold(r.Session, s.commandLine())
	if errors.Is(err, session.ErrLocked) {
		if err := s.store.Ask(ctx, r); err != nil {
			return Decision{}, err
		}
		if held, err = s.holdUnanswered(ctx, r); held == nil && err == nil {
			waits, err := s.store.Asked(ctx, r)
			if err != nil {
				return Decision{}, err
			}
			out.Waits = waits != 0
			return out, nil
		}
	}
	if err != nil {
		return Decision{}, err
	}
	if err := errors.Join(s.write(ctx, r, write, &out), held.Release()); err != nil {
		return Decision{}, err
	}
	out.Recorded = true
	return out, nil
}

// answerTime is how long whoever was asked is given to end or to answer: a signal ends acode within a
// second.
const answerTime = 1500 * time.Millisecond

// holdUnanswered takes the session's lock if its holder gives it back without having answered r. nil:
// it has answered, or goes on for longer than answerTime and will.
func (s *Site) holdUnanswered(ctx context.Context, r session.Request) (*lock.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		held, err := s.hold(r.Session, s.commandLine())
		if err != nil && !errors.Is(err, session.ErrLocked) {
			return nil, err
		}
		waits, err := s.store.Asked(context.WithoutCancel(ctx), r)
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

// write carries a decision out, in the place of a request like r that was left unanswered.
func (s *Site) write(ctx context.Context, r session.Request, decision decision, out *Decision) error {
	w, err := s.store.Load(ctx, r.Session)
	if err != nil {
		return err
	}
	asked, err := s.store.Asked(ctx, r)
	if err == nil {
		err = decision(w, asked, out)
	}
	return errors.Join(err, w.Close())
}
