package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/terminal"
)

// completeSession completes the id of a session that fits the command, and shows its
// state and title. It changes nothing, and offers nothing when it cannot read the store.
func (i *Invocation) completeSession(fits suits) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var out []cobra.Completion
		look := i.reading(func(ctx context.Context, s *app.Site, _ string) error {
			rows, err := s.List(ctx, true)
			// The sessions of this workspace come first.
			for _, here := range []bool{true, false} {
				for _, r := range rows {
					if here == (r.Workspace == s.Workspace) && strings.HasPrefix(r.Short, typed) && fits(ctx, s, r) {
						out = append(out, cobra.CompletionWithDesc(r.Short, string(r.State)+": "+terminal.Clean(r.Task)))
					}
				}
			}
			return err
		})
		if len(args) > 0 || look(cmd, nil) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeValues completes the values of a flag. values separates them with "|".
func completeValues(cmd *cobra.Command, flag, values string) {
	of := cobra.FixedCompletions(strings.Split(values, "|"), cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc(flag, of) // the flag exists
}

// suits reports whether a command accepts a session.
type suits func(context.Context, *app.Site, app.Row) bool

func anySession(context.Context, *app.Site, app.Row) bool { return true }

func openSession(_ context.Context, _ *app.Site, r app.Row) bool { return !r.State.Terminal() }

func waitingSession(ctx context.Context, s *app.Site, r app.Row) bool { return s.Asks(ctx, r) }
