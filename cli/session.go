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

func (i *Invocation) sessionCommand() *cobra.Command {
	c := Group("session", "List, show, end and explain sessions",
		i.listCommand(), i.showCommand(), i.historyCommand(), i.cancelCommand(), i.completeCommand(), i.unlockCommand(), i.exportCommand())
	for _, sub := range c.Commands() {
		c.SuggestFor = append(c.SuggestFor, sub.Name())
	}
	return c
}

func (i *Invocation) listCommand() *cobra.Command {
	var resumable, all, remote bool
	run := i.reading(func(ctx context.Context, s *app.Site, _ string) error {
		rows, err := s.List(ctx, all)
		if err == nil && resumable {
			rows, err = s.Resumable(ctx, rows)
		}
		if err != nil {
			return err
		}
		return i.Page().List(rows, all)
	})
	cmd := &cobra.Command{
		Use: "list", Short: "List the sessions of this workspace", Args: cobra.NoArgs,
		Long: "List the sessions of this workspace. With --remote, list the sessions on the server from every\nmachine that delivers with the same role as this one. acode first delivers pending events, or\nreports why it cannot.",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case remote && resumable:
				return &session.Error{Code: session.ErrUsage, Message: "--resumable and --remote cannot be combined: only the machine of a session knows whether it can be resumed now", Next: session.Do(session.MoveListResumable, "")}
			case remote:
				return i.handOver(syncProgram)
			}
			err := run(cmd, args)
			// There is no store yet.
			if errors.Is(err, session.ErrUnknownID) {
				return i.Page().List(nil, all)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&resumable, "resumable", false, "only sessions that can be resumed now")
	cmd.Flags().BoolVar(&all, "all", false, "sessions of every workspace")
	cmd.Flags().BoolVar(&remote, "remote", false, "sessions of every machine and workspace, as the server has them")
	return cmd
}

func (i *Invocation) historyCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "history [ID]", Short: "Show the events of a session", Args: cobra.MaximumNArgs(1), ValidArgsFunction: i.completeSession(anySession),
		RunE: i.reading(func(ctx context.Context, s *app.Site, ref string) error {
			if format != "text" && format != "json" {
				return &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("--format=%s: must be text or json", format), Next: session.Words("acode session history --help")}
			}
			events, err := s.History(ctx, ref)
			if err != nil {
				return err
			}
			page := i.Page()
			page.JSON = page.JSON || format == "json"
			return page.History(events)
		}),
	}
	cmd.Flags().StringVar(&format, "format", "text", "`text|json`")
	completeValues(cmd, "format", "text|json")
	return cmd
}

func (i *Invocation) exportCommand() *cobra.Command {
	return &cobra.Command{
		Use: "export [ID]", Short: "Write a session as one JSON document", Args: cobra.MaximumNArgs(1), ValidArgsFunction: i.completeSession(anySession),
		RunE: i.reading(func(ctx context.Context, s *app.Site, ref string) error {
			all, damage := s.Export(ctx, ref)
			if all.Events == nil {
				return damage
			}
			// Undamaged parts are printed even then; verify sends people here for them.
			return errors.Join(damage, i.Page().Export(all))
		}),
	}
}

func (i *Invocation) showCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show [ID]", Short: "Show a session with every step", Long: "Show a session with every step, and the end of the output of a failed step's command.\nWith -v, show more of it, the output of the other commands and the matches of searches.",
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

func (i *Invocation) completeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "complete [ID]", Short: "Complete the session of an agent", Args: cobra.MaximumNArgs(1), ValidArgsFunction: i.completeSession(openSession),
		Long: "Complete the session of an agent. The agent's next connection begins another session. A session that executes a plan ends with its plan.",
		RunE: i.with(app.Open, func(ctx context.Context, s *app.Site, args []string) error {
			sess, err := s.Complete(ctx, strings.Join(args, ""), whoAmI())
			if err != nil {
				return err
			}
			return i.tell("complete", app.Decision{Session: sess, Recorded: true}, "session "+sess.Short+" is completed")
		}),
	}
}

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
	V         int        `json:"v"`
	SessionID session.ID `json:"session_id"`
	ShortID   string     `json:"short_id"`
	// Holder is null when no process holds the session.
	Holder *terminal.Holder `json:"holder"`
	Notes  []string         `json:"notes"`
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
		said = fmt.Sprintf("Session lock: held by %s since %s: %s\nIt is free as soon as that process ends; nothing was removed.\n", h.Process(), i.Page().Instant(h.Since.UnixMicro()), terminal.Clean(h.Command))
	}
	for _, n := range l.Notes {
		said += terminal.Clean(n) + "\n"
	}
	_, err := fmt.Fprint(i.Out, said)
	return err
}
