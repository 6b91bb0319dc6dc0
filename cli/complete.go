package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

// completeSession completes the id of a session that suits the command, with state and title
// beside it. It only looks, and stays silent when the store cannot be read.
func (a *app) completeSession(fits suits) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		rows, err := a.everySession(cmd, fits)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []cobra.Completion
		for _, r := range rows {
			if strings.HasPrefix(r.Short, typed) {
				out = append(out, cobra.CompletionWithDesc(r.Short, string(r.State)+": "+terminal.Clean(r.Task)))
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// everySession lists the sessions of this workspace that suit, then those of the others.
func (a *app) everySession(cmd *cobra.Command, fits suits) ([]terminal.Row, error) {
	b, err := a.boot(nil)
	if err != nil {
		return nil, err
	}
	s, err := b.openRead(cmd.Context())
	if err != nil {
		return nil, err
	}
	defer s.Close()
	rows, err := b.rows(cmd.Context(), s, "")
	rows = slices.DeleteFunc(rows, func(r terminal.Row) bool { return !fits(cmd.Context(), s, r) })
	slices.SortStableFunc(rows, func(x, y terminal.Row) int { return b.distance(x) - b.distance(y) })
	return rows, err
}

// completeValues completes a flag that takes one of a few values, written as "a|b".
func completeValues(cmd *cobra.Command, flag, values string) {
	of := cobra.FixedCompletions(strings.Split(values, "|"), cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc(flag, of) // the flag exists
}

func (b *base) distance(r terminal.Row) int {
	if r.Workspace == b.workspace {
		return 0
	}
	return 1
}

// suits reports whether a command takes a session.
type suits func(context.Context, *local.Store, terminal.Row) bool

func anySession(context.Context, *local.Store, terminal.Row) bool { return true }

func openSession(_ context.Context, _ *local.Store, r terminal.Row) bool { return !r.State.Terminal() }

// waitingSession is one with a question, which stays open when a signal pauses the session.
func waitingSession(ctx context.Context, s *local.Store, r terminal.Row) bool {
	if r.State != session.Paused {
		return r.State == session.AwaitingApproval
	}
	sess, err := s.View(ctx, r.ID)
	return err == nil && asksStill(sess)
}
