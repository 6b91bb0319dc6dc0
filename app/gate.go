package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/session"
)

// asks describes a gate as the engine asks it: the values of inputs and captures are filled in, and
// its digest binds an answer to that.
func (s *Site) asks(ctx context.Context, sess *session.Session, p *session.Plan, next *session.Continuation, it session.Item) (g session.Gate, digest string, err error) {
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

// values gives what ${NAME} stands for in the question of it.
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
		if st.Capture.Blob.Sealed {
			s.Redactor.Learn(sealedWords(name, value))
		}
		values[name] = value
	}
	return values, nil
}

// approvals tells what is asked and how that was answered, until the next resume has made use of it, and gives
// the first question that is open, with what a yes to it lets happen; nil: none is.
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
			notes = append(notes, fmt.Sprintf("%s asks: %s", it.ID, g.Question))
		case a.Answer == "denied":
			notes = append(notes, fmt.Sprintf("%s was denied by %s; the next resume asks anew", it.ID, a.By))
		case a.For == sess.Epoch+1:
			notes = append(notes, fmt.Sprintf("%s was approved by %s; the next resume uses that once", it.ID, a.By))
		}
	}
	return notes, open, nil
}

// waiting is the session that ref names, or else the only one of this workspace that waits for an answer. Where there
// are none or several it returns ErrUsage, which lists them.
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
			continue // approve says in full why
		}
		questions, _, _ := s.approvals(ctx, sess, p, &next) // as above
		for _, q := range questions {
			text += "\n    " + strings.Join(strings.Fields(q), " ")
		}
	}
	return "", &session.Error{Code: session.ErrUsage, Message: text, Next: session.Words("name the session")}
}
