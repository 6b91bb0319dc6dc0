package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/acode-dev/acode/session"
)

// permitted carries out a call that changes something, if the powers of the model or a
// person allow it. If not, the model is told, and the session pauses after MaxDenied of
// them.
func (t *talk) permitted(ctx context.Context, c *modelCall) error {
	raw, err := json.Marshal(c.Work)
	if err != nil {
		return err
	}
	answer := Answer{Granted: !c.verdict.Deny, Reason: c.verdict.Reason}
	if c.verdict.Ask {
		if answer, err = t.decided(ctx, c, raw); err != nil {
			return t.belongs(&c.Item, err)
		}
	}
	if answer.Granted {
		if c.Call.Work, err = t.stage(ctx, raw); err != nil {
			return err
		}
		return t.changes(ctx, c.Item)
	}
	t.refuse(c.ID, session.MessageDenied, t.conv.Denial(c.verdict.Ask, answer.Reason))
	return t.deniedAgain(c.ID)
}

// deniedAgain counts a denial. It returns the stop of the session after too many.
func (t *talk) deniedAgain(id session.StepID) error {
	if t.denials++; t.MaxDenied > 0 && t.denials >= t.MaxDenied {
		return &stop{to: session.Paused, reason: session.ReasonApproval, code: session.ErrDenied,
			detail: fmt.Sprintf("%s: %d calls of the model were denied; the last one is %s", t.it.ID, t.denials, id)}
	}
	return nil
}

// decided returns the answer of a person to the question about a call. A yes is bound to
// exactly the work that was shown. If that changes before the answer, the person is asked
// again. The events of the answer are pending.
func (t *talk) decided(ctx context.Context, c *modelCall, work []byte) (Answer, error) {
	for {
		question, err := t.wants(ctx, c, work)
		if err != nil {
			return Answer{}, err
		}
		answer, err := t.answer(ctx, c, question)
		if err != nil || !answer.Granted {
			return answer, err
		}
		again, err := t.wants(ctx, c, work)
		if err != nil || again.Digest == question.Digest {
			return answer, err
		}
	}
}

// answer returns the answer to a question about a call: one that was given before, or
// that the person gives now.
func (t *talk) answer(ctx context.Context, c *modelCall, question session.ApprovalRequestedData) (Answer, error) {
	if t.granted(c.ID, question.Digest) {
		return Answer{Granted: true}, nil
	}
	if no, known := t.elsewhere(c.ID, question.Digest); known && !no.Granted {
		return no, nil
	}
	if err := t.ask(ctx, question); err != nil {
		return Answer{}, err
	}
	answer, err := t.wait(ctx, c.ID, question.Digest, func(ctx context.Context) (Answer, error) {
		gate := session.CallGateOf(question).Redacted(t.Redact)
		t.tell(session.Notice{Kind: session.NoticeAsking, Item: &c.Item, Text: gate.Question, Detail: gate.Lines()})
		return t.Person.Permit(ctx, c.Item, gate.Question, t.Redact(c.verdict.Means))
	})
	if err != nil {
		return answer, t.unanswered(c.ID, err)
	}
	if _, known := t.elsewhere(c.ID, question.Digest); !known {
		t.pending = append(t.pending, t.said(c.ID, question.Digest, answer))
	}
	to := session.Executing
	if t.p.Plans && !answer.Granted {
		to = session.Planning
	}
	t.pending = append(t.pending, session.Draft{Type: session.StateChanged, Data: session.StateChangedData{To: to}})
	if answer.Scope != session.ScopeAlways {
		return answer, nil
	}
	if err := t.commit(ctx); err != nil {
		return answer, err
	}
	return answer, t.Always(c.verdict.Offer)
}

func (t *talk) said(id session.StepID, digest string, a Answer) session.Draft {
	if a.Granted {
		return t.grant(id, digest, a)
	}
	return session.Draft{Type: session.ApprovalDenied, Actor: "user", Data: session.ApprovalDeniedData{StepID: id, Digest: digest, By: a.By, Reason: a.Reason}}
}

// wants returns the question about a call. Its digest binds the call, its work, the names
// of the environment, and the content of the files before and after.
func (t *talk) wants(ctx context.Context, c *modelCall, work []byte) (q session.ApprovalRequestedData, err error) {
	q = session.ApprovalRequestedData{StepID: c.ID, Question: "The model asks to use " + c.Call.Tool, Offer: c.verdict.Offer}
	if c.verdict.Reason != "" {
		q.Question += " (" + c.verdict.Class + ": " + c.verdict.Reason + ")"
	}
	var bound []byte
	if run := c.Work.Run; run != nil {
		q.Detail, bound, err = t.wantsRun(ctx, c, run)
	} else {
		q.Detail, bound, err = t.wantsFiles(ctx, c)
	}
	h := sha256.New()
	for _, part := range [][]byte{[]byte(c.ID.String()), work, bound} {
		_, _ = fmt.Fprintf(h, "%d %s\n", len(part), part) // a hash never fails to write
	}
	q.Digest = hex.EncodeToString(h.Sum(nil))
	return q, err
}

// wantsRun describes a command, and returns the names of its environment.
func (t *talk) wantsRun(ctx context.Context, c *modelCall, run *session.Run) (lines []string, bound []byte, err error) {
	req, err := t.request(ctx, &c.Item, run)
	if err != nil {
		return nil, nil, err
	}
	dir := run.Dir
	if dir == "" {
		dir = "the workspace"
	}
	lines = append(c.Work.Does(), "in "+dir+", "+confinedText(run.Sandbox))
	names := make([]string, len(req.Env))
	for i, v := range req.Env {
		names[i], _, _ = strings.Cut(v, "=")
	}
	slices.Sort(names)
	bound, err = json.Marshal(names)
	return lines, bound, err
}

func confinedText(how session.Confinement) string {
	switch how {
	case session.Unconfined:
		return "with all your rights"
	case session.ConfinedOnline:
		return "in a sandbox with the network"
	}
	return "in a sandbox without a network"
}

// mostShown is the greatest length of a file whose change is shown.
const mostShown = 256 << 10

// wantsFiles describes the changes of files as differences, and returns their hashes
// before and after.
func (t *talk) wantsFiles(ctx context.Context, c *modelCall) (lines []string, bound []byte, err error) {
	key := t.key(&c.Item, 1)
	all, err := t.Files.Prepare(ctx, key, c.Work.Changes)
	if err != nil {
		return nil, nil, fileFailure(err)
	}
	defer t.Files.Discard(key)
	if err := t.Files.CheckProtected(ctx, key); err != nil {
		return nil, nil, fileFailure(err)
	}
	lines = c.Work.Does()
	for _, tr := range all {
		before, berr := t.image(tr.Path, tr.Pre)
		after, aerr := t.image(tr.Path, tr.Post)
		if berr == nil && aerr == nil {
			lines = append(lines, t.Diff(before, after, tr.Path)...)
		}
	}
	bound, err = json.Marshal(all)
	return lines, bound, err
}

// image returns content that Prepare found or computed. A file that is too large to show
// has none.
func (t *talk) image(path string, i session.Image) ([]byte, error) {
	if i.Hash == "" || i.Size > mostShown {
		return nil, nil
	}
	r, err := t.Files.Image(path, i.Hash)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
