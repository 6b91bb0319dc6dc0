package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
)

func (a *app) approveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "approve ID [STEP]", Short: "Approve what a session waits for", Args: cobra.RangeArgs(1, 2), ValidArgsFunction: a.completeSession(waitingSession),
		Long: "Approve what a session waits for. The approval is for this question and the steps behind\nit, and is used once: by the process that executes now, or by the next resume.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.answerGate(cmd.Context(), args, session.RequestApprove, "")
		},
	}
}

func (a *app) denyCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "deny ID [STEP]", Short: "Deny what a session waits for", Args: cobra.RangeArgs(1, 2), ValidArgsFunction: a.completeSession(waitingSession),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.answerGate(cmd.Context(), args, session.RequestDeny, reason)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	return cmd
}

// answerGate answers the open question of a session.
func (a *app) answerGate(ctx context.Context, args []string, kind session.RequestKind, reason string) error {
	return a.writing(ctx, func(ctx context.Context, b *base, s *local.Store) error {
		id, err := find(ctx, s, args[0], false)
		if err != nil {
			return err
		}
		g, err := b.gate(ctx, s, id, strings.Join(args[1:], ""))
		if err != nil {
			return err
		}
		r := session.Request{Session: id, Kind: kind, Step: g.step, Digest: g.digest, Asked: g.asked, Reason: reason, By: whoAmI()}
		return b.decide(ctx, s, r, func(sess *session.Session) ([]session.Draft, sideEffects, error) {
			drafts, err := answer(sess, r, g.question)
			return drafts, sideEffects{}, err
		})
	})
}

// gate is the question that a session waits for.
type gate struct {
	step             session.StepID
	digest, question string
	asked            uint64 // seq of the question, or of an answer to it
}

// gate finds the open question, which must be the one of step when that is named.
func (b *base) gate(ctx context.Context, s *local.Store, id session.ID, step string) (gate, error) {
	sess, p, next, err := b.outlook(ctx, s, id)
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
		if digest := engine.ApprovalDigest(p, next, it.ID); digest == st.Approval.Digest {
			return gate{step: it.ID, digest: digest, question: p.Tasks[it.Task-1].Steps[it.Step-1].Approve, asked: st.LastSeq}, nil
		}
	}
	return gate{}, &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("session %s waits for no approval%s; nothing was changed", sess.Short, of(step)),
		Next: "acode status " + sess.Short}
}

func of(step string) string {
	if step == "" {
		return ""
	}
	return " of " + step
}

// answer drafts the events of an answer that is given while nobody executes the session. A yes that its
// resume did not come to use is given again as one to the same question, asked anew.
func answer(sess *session.Session, r session.Request, question string) ([]session.Draft, error) {
	if err := resume.Allowed(sess); err != nil {
		return nil, err
	}
	if r.Kind == session.RequestApprove {
		asked, epoch := sess.Steps[r.Step].Approval, sess.Epoch+1
		drafts := []session.Draft{{Type: session.ApprovalGranted, Actor: "user", Data: session.ApprovalGrantedData{
			StepID: r.Step, Digest: r.Digest, By: r.By, For: epoch}}}
		switch {
		case asked.Lapsed(epoch):
			anew := session.Draft{Type: session.ApprovalRequested, Data: session.ApprovalRequestedData{StepID: r.Step, Question: question, Digest: r.Digest}}
			return append([]session.Draft{anew}, drafts...), nil
		case asked.Answer != "": // a no can follow a yes
			return nil, &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("the question about %s is answered already: %s; nothing was changed", r.Step, asked.Answer),
				Next: "acode resume " + sess.Short}
		}
		return drafts, nil
	}
	drafts := []session.Draft{{Type: session.ApprovalDenied, Actor: "user", Data: session.ApprovalDeniedData{
		StepID: r.Step, Digest: r.Digest, By: r.By, Reason: r.Reason}}}
	if sess.State != session.Paused {
		drafts = append(drafts, session.Draft{Type: session.StateChanged, Actor: "user", Data: session.StateChangedData{
			From: sess.State, To: session.Paused, Reason: session.ReasonApproval, Detail: r.Reason}})
	}
	return drafts, nil
}
