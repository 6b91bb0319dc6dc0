package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

func (i *Invocation) approveCommand() *cobra.Command {
	var scope string
	v := app.Verdict{Grant: true}
	cmd := &cobra.Command{
		Use: "approve [ID [STEP]]", Short: "Approve the question that a session waits for", Args: cobra.MaximumNArgs(2), ValidArgsFunction: i.completeSession(waitingSession),
		Long: "Approve the question that a session waits for. The approval is valid for this question and the\nsteps after it, and is used once: by the process that executes the session now, or by the next\nresume. Without ID, it is for the only session of this workspace that waits; if several wait,\nthey are listed.\n\nIt also applies changes of protected paths that a command of an agent or a model made and acode put\nback. It shows them first, and asks on a terminal. A question of the plan goes first; STEP can name a\ncall, such as TASK/STEP/c1.2.\n\nA question about a call of a model can also be approved for more than this once: with --for session\nor --for always it adds the rule that the question offers.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if v.Scope = session.Scope(scope); scope != "" && v.Scope != session.ScopeSession && v.Scope != session.ScopeAlways {
				return &session.Error{Code: session.ErrUsage, Message: "--for=" + scope + ": must be session or always; nothing was changed"}
			}
			return i.decides(&v)(cmd, args)
		},
	}
	cmd.Flags().StringVar(&scope, "for", "", "also for later calls of the model: `session|always`")
	completeValues(cmd, "for", "session|always")
	return cmd
}

func (i *Invocation) denyCommand() *cobra.Command {
	var v app.Verdict
	cmd := &cobra.Command{
		Use: "deny [ID [STEP]]", Short: "Deny the question that a session waits for", Args: cobra.MaximumNArgs(2), ValidArgsFunction: i.completeSession(waitingSession),
		RunE: i.decides(&v),
	}
	cmd.Flags().StringVar(&v.Reason, "reason", "", "why")
	return cmd
}

// decides returns a command that records v for the session and the step that its
// arguments name. Without arguments, app chooses the session.
func (i *Invocation) decides(v *app.Verdict) func(*cobra.Command, []string) error {
	return i.with(app.Open, func(ctx context.Context, s *app.Site, args []string) error {
		v.By = whoAmI()
		if len(args) > 0 {
			v.Ref, v.Step = args[0], strings.Join(args[1:], "")
		}
		held, err := s.Held(ctx, *v)
		if err != nil {
			return err
		}
		if held != nil && v.Scope != "" {
			return &session.Error{Code: session.ErrUsage, Message: "held changes can be approved only this once; nothing was changed", Next: session.Words("approve them without --for")}
		}
		if held != nil {
			return i.decideHeld(ctx, s, *held, *v)
		}
		return i.decided(s.Decide(ctx, *v))
	})
}

func (i *Invocation) cancelCommand() *cobra.Command {
	var onlyCommand bool
	var reason, step string
	cmd := &cobra.Command{
		Use: "cancel [ID]", Short: "Cancel a session, or with --command only its running commands", Args: cobra.MaximumNArgs(1), ValidArgsFunction: i.completeSession(openSession),
		RunE: i.with(app.Open, func(ctx context.Context, s *app.Site, args []string) error {
			ref := strings.Join(args, "")
			if onlyCommand {
				return i.endCommands(ctx, s, ref, step)
			}
			if step != "" {
				return &session.Error{Code: session.ErrUsage, Message: "--step needs --command; nothing was changed"}
			}
			return i.decided(s.Cancel(ctx, ref, whoAmI(), reason))
		}),
	}
	cmd.Flags().BoolVar(&onlyCommand, "command", false, "end the running commands and leave the session paused")
	cmd.Flags().StringVar(&step, "step", "", "with --command: only that of `TASK/STEP`")
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	return cmd
}

// decisionJSON is a decision about a session, for scripts.
type decisionJSON struct {
	V         int        `json:"v"`
	SessionID session.ID `json:"session_id"`
	ShortID   string     `json:"short_id"`
	Kind      string     `json:"kind"`
	// Recorded is false when acode asked the process that executes the session to record
	// it.
	Recorded bool     `json:"recorded"`
	Ended    int      `json:"commands_ended"`
	Warnings []string `json:"warnings,omitempty"`

	// Gate is the approved or denied question; nil for a cancellation.
	Gate *terminal.GateJSON `json:"gate,omitempty"`
}

// tell prints the outcome of a command that prints no stream of events.
func (i *Invocation) tell(kind string, d app.Decision, text string) error {
	if i.JSON {
		return terminal.JSON(i.Out, decisionJSON{V: 1, SessionID: d.Session.ID, ShortID: d.Session.Short, Kind: kind, Recorded: d.Recorded, Ended: d.Ended, Warnings: d.Warnings, Gate: terminal.NewGateJSON(d.Gate)})
	}
	_, err := fmt.Fprintln(i.Out, text)
	return err
}

// decided prints the decision d and returns err with any error from printing. It prints
// nothing when d names no session.
func (i *Invocation) decided(d app.Decision, err error) error {
	if d.Session == nil {
		return err
	}
	text := i.decidedText(d)
	if d.Gate != nil {
		text = terminal.GateText(*d.Gate) + "\n" + text
	}
	return errors.Join(i.tell(string(d.Kind), d, text), err)
}

// decidedText describes the effect of a decision and the next command.
func (i *Invocation) decidedText(d app.Decision) string {
	short := d.Session.Short
	text := "Recorded: " + string(d.Kind)
	switch {
	case !d.Recorded:
		text = fmt.Sprintf("The process that executes session %s was asked to %s", short, d.Kind)
		if d.Waits {
			text += i.Spell(session.Then(", and has not answered yet; see", session.MoveStatus, short))
		}
		return text
	case d.Kind != session.RequestCancel && d.Session.Calls > 0:
		text += "; the agent is told when it makes the call again"
	case d.Kind != session.RequestCancel:
		text += i.Spell(session.Then("; continue with", session.MoveResume, short))
	case d.Ended == 0:
		text += "; session " + short + " is over"
	default:
		text += "; session " + short + " is over, " + endedText(d.Ended)
	}
	for _, w := range d.Warnings {
		text += "\n⚠ " + terminal.Clean(w)
	}
	return text
}

func endedText(n int) string { return terminal.Plural(n, "command") + " ended" }

// endCommands ends the running commands of a session but leaves the session open.
func (i *Invocation) endCommands(ctx context.Context, s *app.Site, ref, step string) error {
	d, err := s.EndCommands(ctx, ref, step)
	if err != nil {
		return err
	}
	then := "; the session can be resumed"
	if d.Session.State.Terminal() {
		then = "; the session is " + string(d.Session.State)
	}
	return i.tell("cancel_command", d, endedText(d.Ended)+then)
}
