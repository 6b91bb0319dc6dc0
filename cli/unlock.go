package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/lock"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

func (a *app) unlockCommand() *cobra.Command {
	return &cobra.Command{
		Use: "unlock [ID]", Short: "Explain who holds a session; removes nothing that is held", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeSession(openSession),
		RunE: a.readingSession(func(ctx context.Context, b *base, s *local.Store, id session.ID) error {
			return b.explainLocks(ctx, s, id)
		}),
	}
}

func (b *base) explainLocks(ctx context.Context, s *local.Store, id session.ID) error {
	sess, err := s.View(ctx, id)
	if err != nil {
		return err
	}
	h, held, err := lock.Read(b.lockFile(id))
	if err != nil {
		return err
	}
	others, err := b.othersHere(ctx, s, sess)
	if err != nil {
		return err
	}
	notes := append(b.commandNotes(id), others...)
	if held {
		notes = append(holderNotes(h), notes...)
	}
	if b.json {
		return b.locksJSON(sess, h, held, notes)
	}
	said := "Session lock: free. A lock is never left behind: the kernel frees it when its holder ends.\n"
	if held {
		said = fmt.Sprintf("Session lock: held by %s since %s: %s\nIt is free as soon as that process ends; nothing was removed.\n", h.Process(), h.Since.UTC().Format(time.RFC3339), terminal.Clean(h.Command))
	}
	for _, n := range notes {
		said += terminal.Clean(n) + "\n"
	}
	_, err = fmt.Fprint(b.io.out, said)
	return err
}

// othersHere tells of other sessions that keep sess from being executed in its workspace.
func (b *base) othersHere(ctx context.Context, s *local.Store, sess *session.Session) ([]string, error) {
	executing, supervisor, err := lock.Holders(workspaceLocks(b.home(), sess.Workspace))
	if err != nil {
		return nil, err
	}
	short := func(h lock.Holder) string {
		other, err := s.View(ctx, h.Session)
		if err != nil {
			return string(h.Session) // it is about to be made
		}
		return other.Short
	}
	var notes []string
	for _, h := range executing {
		if h.Session != sess.ID {
			notes = append(notes, fmt.Sprintf("session %s executes in this workspace: %s since %s: %s", short(h), h.Process(), h.Since.UTC().Format(time.RFC3339), h.Command))
		}
	}
	if supervisor.PID != 0 && supervisor.Session != sess.ID && len(notes) == 0 {
		notes = append(notes, b.spelled(fmt.Sprintf("a command of session %[1]s still runs in this workspace; to end it: acode session cancel --command %[1]s", short(supervisor))))
	}
	return notes, nil
}

type locksJSON struct {
	V         int              `json:"v"`
	SessionID session.ID       `json:"session_id"`
	ShortID   string           `json:"short_id"`
	Holder    *terminal.Holder `json:"holder"` // null: nobody holds it
	Notes     []string         `json:"notes"`
}

func (b *base) locksJSON(sess *session.Session, h lock.Holder, held bool, notes []string) error {
	out := locksJSON{V: 1, SessionID: sess.ID, ShortID: sess.Short, Notes: append([]string{}, notes...)}
	if held {
		out.Holder = holder(h)
	}
	return terminal.JSON(b.io.out, out)
}
