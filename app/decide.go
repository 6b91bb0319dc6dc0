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
	id, err := s.addressed(ctx, v.Ref)
	if err != nil {
		return Decision{}, err
	}
	g, err := s.gate(ctx, id, v.Step)
	if err != nil {
		return Decision{}, err
	}
	r := session.Request{Session: id, Kind: session.RequestDeny, Step: g.step, Digest: g.digest, Asked: g.asked, Reason: v.Reason, By: v.By}
	if v.Grant {
		r.Kind = session.RequestApprove
	}
	d, err := s.decide(ctx, r, func(w *local.Writer, asked int64) (sideEffects, error) {
		drafts, err := answer(w.Session(), r, g.question)
		if err == nil {
			_, err = w.AppendAnswering(ctx, asked, drafts...)
		}
		return sideEffects{}, err
	})
	d.Gate = &g.shown
	return d, err
}

// addressed is the session that an answer is meant for.
func (s *Site) addressed(ctx context.Context, ref string) (session.ID, error) {
	if ref == "" {
		return s.waiting(ctx)
	}
	return s.store.Find(ctx, ref)
}

// gate is the question that a session waits for.
type gate struct {
	step             session.StepID
	digest, question string
	asked            uint64 // seq of the question, or of an answer to it
	shown            session.Gate
}

// gate finds the open question, which must be the one of step when that is named.
func (s *Site) gate(ctx context.Context, id session.ID, step string) (gate, error) {
	sess, p, next, err := s.outlook(ctx, id)
	if err != nil {
		return gate{}, err
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
		if err != nil {
			return gate{}, err
		}
		if digest == st.Approval.Digest {
			return gate{step: it.ID, digest: digest, question: shown.Question, asked: st.LastSeq, shown: shown}, nil
		}
	}
	return gate{}, &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("session %s waits for no approval%s; nothing was changed", sess.Short, of(step)),
		Next: session.Do(session.MoveStatus, sess.Short)}
}

func of(step string) string {
	if step == "" {
		return ""
	}
	return " of " + step
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
			From: sess.State, To: session.Paused, Reason: session.ReasonApproval, Detail: r.Reason}})
	}
	return drafts, nil
}

// decision writes the events of a decision, in the place of the request asked (0: there is none) that was
// left unanswered.
type decision func(w *local.Writer, asked int64) (sideEffects, error)

type sideEffects struct {
	ended    int      // commands
	warnings []string // for the person
}

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
			return s.asked(ctx, r, out)
		}
	}
	if err != nil {
		return Decision{}, err
	}
	also, err := s.write(ctx, r, write)
	if err := errors.Join(err, held.Release()); err != nil {
		return Decision{}, err
	}
	out.Recorded, out.Ended, out.Warnings = true, also.ended, also.warnings
	return out, nil
}

// asked says whether the process that was asked has answered.
func (s *Site) asked(ctx context.Context, r session.Request, out Decision) (Decision, error) {
	waits, err := s.store.Asked(ctx, r)
	if err != nil {
		return Decision{}, err
	}
	out.Waits = waits != 0
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
func (s *Site) write(ctx context.Context, r session.Request, decision decision) (sideEffects, error) {
	w, err := s.store.Load(ctx, r.Session)
	if err != nil {
		return sideEffects{}, err
	}
	asked, err := s.store.Asked(ctx, r)
	if err != nil {
		return sideEffects{}, errors.Join(err, w.Close())
	}
	also, err := decision(w, asked)
	return also, errors.Join(err, w.Close())
}
