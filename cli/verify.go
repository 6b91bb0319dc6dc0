package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

func (i *Invocation) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "verify [ID]", Short: "Replay from the first event and check every hash, HMAC and blob", Args: cobra.MaximumNArgs(1), ValidArgsFunction: i.completeSession(anySession),
		RunE: i.reading(func(ctx context.Context, s *app.Site, ref string) error {
			report, err := s.Verify(ctx, ref)
			if err != nil {
				return err
			}
			return i.printVerified(report, s.Settings.Config.Store.Home)
		}),
	}
}

func (i *Invocation) printVerified(report app.Verified, home string) (err error) {
	if i.JSON {
		err = terminal.JSON(i.Out, newVerifyJSON(report))
	} else {
		for _, p := range report.Problems {
			fmt.Fprintln(i.Err, terminal.Clean(p.String()))
		}
		if len(report.Problems) > 0 {
			fmt.Fprintln(i.Err, "hint: "+afterDamage(report, home))
		}
		verdict := "all good"
		if n := len(report.Problems); n > 0 {
			verdict = terminal.Plural(n, "problem")
		}
		_, err = fmt.Fprintf(i.Out, "%s, %s, %s, %s: %s\n", terminal.Plural(report.Sessions, "session"), terminal.Plural(report.Events, "event"),
			terminal.Plural(report.Checkpoints, "checkpoint"), terminal.Plural(report.Blobs, "blob"), verdict)
	}
	// Damage decides the exit status, even when the output is lost.
	if len(report.Problems) > 0 {
		err = quietExit(exitFor(session.ErrCorrupt))
	}
	return err
}

// afterDamage returns advice about the problems that verify found.
func afterDamage(r app.Verified, home string) string {
	if slices.ContainsFunc(r.Problems, func(p app.Problem) bool { return p.Session == "" }) {
		return "restore the database, its log and heads/ from a backup, or move " + home + " away to start with an empty store; to save the readable part of a session: acode session export ID"
	}
	return "sessions that are not listed are not affected; restore the others from a backup, or see their events: acode session history ID"
}

func newVerifyJSON(r app.Verified) map[string]any {
	problems := []map[string]any{}
	for _, p := range r.Problems {
		problems = append(problems, map[string]any{"session_id": p.Session, "code": p.Code, "message": p.Message, "place": p.Place, "trusted_seq": p.Trusted})
	}
	return map[string]any{"v": 1, "sessions": r.Sessions, "events": r.Events, "checkpoints": r.Checkpoints, "blobs": r.Blobs, "problems": problems}
}
