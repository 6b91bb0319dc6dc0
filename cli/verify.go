package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

func (a *app) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "verify [ID]", Short: "Replay from the first event and check every hash, HMAC and blob", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeSession(anySession),
		RunE: a.reading(func(ctx context.Context, b *base, s *local.Store, args []string) error {
			id := session.ID("")
			if len(args) == 1 {
				var err error
				if id, err = find(ctx, s, args[0], false); err != nil {
					return err
				}
			}
			return b.verify(ctx, s, id)
		}),
	}
}

func (b *base) verify(ctx context.Context, s *local.Store, id session.ID) error {
	report, err := s.Verify(ctx, id)
	if err != nil {
		return err
	}
	if err := b.verifyClaims(id, &report); err != nil {
		return err
	}
	if b.json {
		err = terminal.JSON(b.io.out, newVerifyJSON(report))
	} else {
		for _, p := range report.Problems {
			fmt.Fprintln(b.io.err, terminal.Clean(p.String()))
		}
		if len(report.Problems) > 0 {
			fmt.Fprintln(b.io.err, "hint: "+afterDamage(report, b.home()))
		}
		_, err = fmt.Fprintf(b.io.out, "%s, %s, %s, %s: %s\n", terminal.Plural(report.Sessions, "session"), terminal.Plural(report.Events, "event"),
			terminal.Plural(report.Checkpoints, "checkpoint"), terminal.Plural(report.Blobs, "blob"), verdictText(len(report.Problems)))
	}
	if len(report.Problems) > 0 { // whatever became of the output
		err = quietExit(rowOf(session.ErrCorrupt).Exit)
	}
	return err
}

// afterDamage says what to do about problems that verify found.
func afterDamage(r local.VerifyReport, home string) string {
	if slices.ContainsFunc(r.Problems, func(p local.Problem) bool { return p.Session == "" }) {
		return "put the database, its log and heads/ back from a backup, or move " + home + " away to begin anew; what can be read of a session, export shows: acode session export ID"
	}
	return "sessions that no line names go on as before; put what the others lack back from a backup, or look at what they did: acode session history ID"
}

// verifyClaims adds the records of commands, which lie beside the database.
func (b *base) verifyClaims(id session.ID, report *local.VerifyReport) error {
	ids := []session.ID{id}
	if id == "" {
		dirs, err := os.ReadDir(b.commandDir(""))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			report.Problems = append(report.Problems, local.Problem{Code: session.ErrStoreIO, Place: b.commandDir(""), Message: "the records of commands cannot be listed: " + err.Error()})
		}
		ids = ids[:0]
		for _, dir := range dirs {
			if _, err := session.ParseUUID(dir.Name()); err == nil || dir.IsDir() {
				ids = append(ids, session.ID(dir.Name()))
			}
		}
	}
	for _, id := range ids {
		_, unread := command.Records(b.commandDir(id))
		for _, err := range unread {
			report.Problems = append(report.Problems, local.NewProblem(id, err, b.commandDir(id)))
		}
	}
	return nil
}

func verdictText(problems int) string {
	if problems == 0 {
		return "all good"
	}
	return terminal.Plural(problems, "problem")
}

func newVerifyJSON(r local.VerifyReport) map[string]any {
	problems := []map[string]any{}
	for _, p := range r.Problems {
		problems = append(problems, map[string]any{"session_id": p.Session, "code": p.Code, "message": p.Message, "place": p.Place, "trusted_seq": p.Trusted})
	}
	return map[string]any{"v": 1, "sessions": r.Sessions, "events": r.Events, "checkpoints": r.Checkpoints, "blobs": r.Blobs, "problems": problems}
}
