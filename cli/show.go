package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/app"
)

func (i *Invocation) showCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show [ID]", Short: "Show a session with every step", Long: "Show a session with every step, and the end of what the command of a failed step wrote.\nWith -v more of it, and what the other commands wrote and the searches found.",
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: i.completeSession(anySession),
		RunE: i.reading(func(ctx context.Context, s *app.Site, ref string) error {
			d, err := s.Details(ctx, ref, i.verbose > 0)
			if err != nil {
				return err
			}
			return i.Page().Show(d)
		}),
	}
}
