package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

func (i *Invocation) unlockCommand() *cobra.Command {
	return &cobra.Command{
		Use: "unlock [ID]", Short: "Explain who holds a session; removes nothing that is held", Args: cobra.MaximumNArgs(1), ValidArgsFunction: i.completeSession(openSession),
		RunE: i.reading(func(ctx context.Context, s *app.Site, ref string) error {
			l, err := s.Locks(ctx, ref)
			if err != nil {
				return err
			}
			return i.explain(l)
		}),
	}
}

type locksJSON struct {
	V         int              `json:"v"`
	SessionID session.ID       `json:"session_id"`
	ShortID   string           `json:"short_id"`
	Holder    *terminal.Holder `json:"holder"` // null: nobody holds it
	Notes     []string         `json:"notes"`
}

func (i *Invocation) explain(l app.Locks) error {
	if !l.Beside.IsZero() {
		l.Notes = append(l.Notes, i.Spell(l.Beside))
	}
	if i.JSON {
		return terminal.JSON(i.Out, locksJSON{V: 1, SessionID: l.Session.ID, ShortID: l.Session.Short, Holder: terminal.NewHolder(l.Holder), Notes: append([]string{}, l.Notes...)})
	}
	said := "Session lock: free. A lock is never left behind: the kernel frees it when its holder ends.\n"
	if h := l.Holder; h != nil {
		said = fmt.Sprintf("Session lock: held by %s since %s: %s\nIt is free as soon as that process ends; nothing was removed.\n", h.Process(), h.Since.UTC().Format(time.RFC3339), terminal.Clean(h.Command))
	}
	for _, n := range l.Notes {
		said += terminal.Clean(n) + "\n"
	}
	_, err := fmt.Fprint(i.Out, said)
	return err
}
