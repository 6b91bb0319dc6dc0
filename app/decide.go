package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/lock"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
)

// Verdict is the answer to a question that a session waits for.
type Verdict struct {
	// Ref is as in Status; empty means the only session of the workspace that waits for
	// an answer.
	Ref string
	// Step names the question; empty means the only one.
	Step  string
	Grant bool
	// Digest is that of the question that the person saw; empty if it is not known.
	Digest string
	// Reason is why the person denies.
	Reason string
	By     string
	// Scope is set for a yes to more than one call of a model.
	Scope session.Scope
}

// Decision is the result of a verdict or a cancel. Its Session is nil on an error.
type Decision struct {
	// Session is the session before the decision.
	Session *session.Session
	Kind    session.RequestKind
	// Recorded is false if the process that executes the session was asked.
	Recorded bool
	// Waits is true if that process has not answered yet.
	Waits bool
	// Ended counts the commands that were ended.
	Ended    int
	Warnings []string
	// Gate is the answered question; nil for a cancel.
	Gate *session.Gate
}

// Decide answers the question that a session waits for. If a process executes the
// session, Decide passes the answer to that process.
func (s *Site) Decide(ctx context.Context, v Verdict) (Decision, error) {
	id, err := s.waiting(ctx, v.Ref)
	if err != nil {
		return Decision{}, err
	}
	r := session.Request{Session: id, Kind: session.RequestDeny, Reason: v.Reason, By: v.By, Scope: v.Scope}
	if v.Grant {
		r.Kind = session.RequestApprove
	}
	shown, err := s.gate(ctx, &r, v.Step)
	if err != nil {
		return Decision{}, err
	}
	if v.Digest != "" && v.Digest != r.Digest {
		return Decision{}, &session.Error{Code: session.ErrConflict, Message: "the question has changed since it was shown; nothing was changed", Next: session.Do(session.MoveStatus, string(id))}
	}
	if v.Scope != "" && (shown.Call == nil || shown.Call.Offer == "") {
		return Decision{}, &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("the question about %s can be answered only for this once; nothing was changed", shown.ID),
			Next: session.Words("approve it without a scope")}
	}
	d, err := s.decide(ctx, r, func(w *local.Writer, asked int64, _ *Decision) error {
		drafts, err := answer(w.Session(), r, shown)
		if err == nil {
			_, err = w.AppendAnswering(ctx, asked, drafts...)
		}
		return err
	})
	d.Gate = &shown
	if err == nil && v.Scope == session.ScopeAlways {
		err = s.keepRule(shown.Call.Offer)
	}
	return d, err
}

// gate returns the open question, and sets the step and digest of r to those of the
// question. If step is not empty, only its question counts.
func (s *Site) gate(ctx context.Context, r *session.Request, step string) (session.Gate, error) {
	sess, p, next, err := s.outlook(ctx, r.Session)
	if err != nil {
		return session.Gate{}, err
	}
	var found []session.Gate
	open := 0 // how many at the start of found have no answer
	for _, it := range next.Items {
		st := sess.Steps[it.ID]
		if st == nil || st.Approval == nil || st.Status == session.StepDone {
			continue
		}
		asks := it.ID
		asks.Op = st.Approval.Op
		if step != "" && step != asks.String() && step != cmp.Or(asks.Op, asks.Step) {
			continue
		}
		shown, digest, err := s.asks(ctx, sess, p, &next, it)
		switch {
		case err != nil:
			return shown, err
		case digest != st.Approval.Digest:
		case st.Approval.Answer == "":
			found = slices.Insert(found, open, shown)
			open++
		default:
			found = append(found, shown)
		}
	}
	if open > 1 {
		return session.Gate{}, severalGates(sess, found[:open])
	}
	if len(found) > 0 {
		st := sess.Steps[found[0].ID.Of()]
		r.Step, r.Digest, r.Asked = found[0].ID, st.Approval.Digest, st.LastSeq
		return found[0], nil
	}
	what := "no approval"
	if step != "" {
		what += " of " + step
	}
	return session.Gate{}, &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("session %s waits for %s; nothing was changed", sess.Short, what),
		Next: session.Do(session.MoveStatus, sess.Short)}
}

// severalGates is the error for several open questions. It lists them.
func severalGates(sess *session.Session, open []session.Gate) error {
	text := fmt.Sprintf("session %s waits for %d approvals; nothing was changed", sess.Short, len(open))
	for _, g := range open {
		text += fmt.Sprintf("\n  %s asks: %s", g.ID, strings.Join(strings.Fields(g.Question), " "))
	}
	return &session.Error{Code: session.ErrUsage, Message: text, Next: session.Words("name the step that you answer")}
}

// answer returns the events of an answer while no process executes the session.
func answer(sess *session.Session, r session.Request, shown session.Gate) ([]session.Draft, error) {
	if err := resume.Allowed(sess); err != nil {
		return nil, err
	}
	again := session.ApprovalRequestedData{Question: shown.Question}
	if shown.Call != nil {
		again.Detail = shown.Call.Does
	}
	drafts := sess.Answered(r, sess.Epoch+1, again)
	if len(drafts) == 0 {
		return nil, &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("the question about %s is answered already: %s; nothing was changed", r.Step, sess.Steps[r.Step.Of()].Approval.Answer),
			Next: session.Do(session.MoveResume, sess.Short)}
	}
	ofAgent := r.Step.Op != "" && sess.Steps[r.Step.Of()].Talk == nil
	if r.Kind == session.RequestDeny && sess.State != session.Paused && !ofAgent {
		drafts = append(drafts, session.Draft{Type: session.StateChanged, Actor: "user", Data: session.StateChangedData{
			From: sess.State, To: session.Paused, Reason: session.ReasonApproval, Detail: r.Reason, Code: session.ErrDenied}})
	}
	return drafts, nil
}

// decision writes the events of a decision. asked is the number of the unanswered request
// that they answer, 0 for none. It adds its other effects to out.
type decision func(w *local.Writer, asked int64, out *Decision) error

// decide writes events if it gets the session's lock. Otherwise it leaves a request for
// the holder, and writes the events if the holder ends without an answer.
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

// answerTime is how long the holder has to answer or end. After a signal acode ends
// within a second.
const answerTime = 1500 * time.Millisecond

// holdUnanswered takes the session's lock if its holder releases it without an answer to
// r. It returns nil if the holder has answered, or still runs after answerTime.
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

// write loads the session and carries out a decision. The decision answers an unanswered
// request like r, if there is one.
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

// asks returns a gate as the engine shows it, with the values of inputs and captures
// filled in. The digest binds an answer to this text.
func (s *Site) asks(ctx context.Context, sess *session.Session, p *session.Plan, next *session.Continuation, it session.Item) (g session.Gate, digest string, err error) {
	if a := sess.Steps[it.ID].Approval; a.Op != "" {
		var d session.ApprovalRequestedData
		err := s.eventAt(ctx, sess.ID, a.Asked, &d)
		return session.CallGateOf(d).Redacted(s.Redactor.String), a.Digest, err
	}
	question := p.Tasks[it.Task-1].Steps[it.Step-1].Approve
	if strings.Contains(question, "${") {
		values, err := s.values(ctx, sess, p, it)
		if err != nil {
			return g, "", err
		}
		question = session.Expand(question, values)
	}
	g = p.GateOf(next, it.ID, question)
	return g.Redacted(s.Redactor.String), engine.ApprovalDigest(p, *next, it.ID, question, sess.Inputs), nil
}

// values returns the values of ${NAME} in the question of it.
func (s *Site) values(ctx context.Context, sess *session.Session, p *session.Plan, it session.Item) (map[string]string, error) {
	in, err := s.store.Inputs(ctx, sess)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	if in != nil {
		values = in.Values(p, in.Masked())
	}
	for name, by := range session.NewVisibility(p).At(it.Task-1, it.Step-1) {
		st := sess.Steps[by]
		if st == nil || st.Capture == nil {
			continue
		}
		value := st.Capture.Value
		if st.Capture.Blob.Hash != "" {
			if value, err = s.content(ctx, session.Output{Blob: st.Capture.Blob}); err != nil {
				return nil, fmt.Errorf("read the value that %s captured: %w", by, err)
			}
		}
		values[name] = value
	}
	return values, nil
}

// approvals returns notes on each question and its answer, until the next resume uses the
// answer. It also returns the first open question with the steps that a yes allows, nil
// if there is none.
func (s *Site) approvals(ctx context.Context, sess *session.Session, p *session.Plan, next *session.Continuation) (notes []string, open *session.Gate, err error) {
	if sess.State.Terminal() {
		return nil, nil, nil
	}
	for _, it := range next.Items {
		st := sess.Steps[it.ID]
		if st == nil || st.Approval == nil || st.Status == session.StepDone {
			continue
		}
		switch a := st.Approval; {
		case a.Answer == "":
			g, _, err := s.asks(ctx, sess, p, next, it)
			if err != nil {
				return nil, nil, err
			}
			if open == nil {
				open = &g
			}
			notes = append(notes, fmt.Sprintf("%s asks: %s", g.ID, g.Question))
		case a.Op != "" && st.Talk == nil && (a.Answer == "denied" || !a.Lapsed(sess.Epoch)):
			notes = append(notes, fmt.Sprintf("%s/%s was %s by %s; the agent is told when it makes the call again", it.ID, a.Op, a.Answer, a.By))
		case a.Answer == "denied" && a.Op != "":
			notes = append(notes, fmt.Sprintf("%s/%s was denied by %s; the next resume tells the model", it.ID, a.Op, a.By))
		case a.Answer == "denied":
			notes = append(notes, fmt.Sprintf("%s was denied by %s; the next resume asks again", it.ID, a.By))
		case a.For == sess.Epoch+1:
			notes = append(notes, fmt.Sprintf("%s was approved by %s; the next resume uses that once", it.ID, a.By))
		}
	}
	return notes, open, nil
}

// waiting returns the session that ref names. Without ref it returns the only session of
// this workspace that waits for an answer. If there is none or several, it returns
// ErrUsage, which lists them.
func (s *Site) waiting(ctx context.Context, ref string) (session.ID, error) {
	if ref != "" {
		return s.store.Find(ctx, ref)
	}
	rows, err := s.rows(ctx, s.Workspace)
	if err != nil {
		return "", err
	}
	var found []Row
	for _, r := range rows {
		if s.Asks(ctx, r) {
			found = append(found, r)
		}
	}
	switch len(found) {
	case 1:
		return found[0].ID, nil
	case 0:
		return "", &session.Error{Code: session.ErrUsage, Message: "no session of this workspace waits for an approval; nothing was changed", Next: session.Do(session.MoveList, "")}
	}
	text := fmt.Sprintf("%d sessions of this workspace wait for an approval; nothing was changed", len(found))
	for _, r := range found {
		text += fmt.Sprintf("\n  %s - %s", r.Short, s.Redactor.String(r.Task))
		sess, p, next, err := s.outlook(ctx, r.ID)
		if err != nil {
			continue // approve reports the error in full
		}
		questions, _, _ := s.approvals(ctx, sess, p, &next) // approve reports the error in full
		for _, q := range questions {
			text += "\n    " + strings.Join(strings.Fields(q), " ")
		}
	}
	return "", &session.Error{Code: session.ErrUsage, Message: text, Next: session.Words("name the session")}
}
