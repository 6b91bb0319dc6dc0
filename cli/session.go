package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

func (a *app) sessionCommand() *cobra.Command {
	c := Group("session", "List, show, cancel and explain sessions",
		a.listCommand(), a.showCommand(), a.historyCommand(), a.cancelCommand(), a.unlockCommand(), a.exportCommand())
	for _, sub := range c.Commands() {
		c.SuggestFor = append(c.SuggestFor, sub.Name())
	}
	return c
}

func (a *app) listCommand() *cobra.Command {
	var resumable, all, remote bool
	list := func(rows []terminal.Row) error {
		if a.json {
			return terminal.ListJSON(a.io.out, rows)
		}
		return terminal.List(a.io.out, rows, all, a.now())
	}
	run := a.reading(func(ctx context.Context, b *base, s *local.Store, _ []string) error {
		where := b.workspace
		if all {
			where = ""
		}
		rows, err := b.rows(ctx, s, where)
		if err != nil {
			return err
		}
		if resumable {
			if rows, err = b.keepResumable(ctx, s, rows); err != nil {
				return err
			}
		}
		return list(rows)
	})
	cmd := &cobra.Command{
		Use: "list", Short: "List the sessions of this workspace", Args: cobra.NoArgs,
		Long: "List the sessions of this workspace. With --remote those that the server holds of every\nmachine that delivers with this one's role: what is pending here is delivered first, or the\nreason why not is said.",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case remote && resumable:
				return &session.Error{Code: session.ErrUsage, Message: "--resumable and --remote exclude one another: only its own machine knows whether a session can be resumed now", Next: "acode session list --all --resumable"}
			case remote:
				return a.handOver()
			}
			err := run(cmd, args)
			if errors.Is(err, session.ErrUnknownID) { // there is no store yet
				return list(nil)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&resumable, "resumable", false, "only sessions that can be resumed now")
	cmd.Flags().BoolVar(&all, "all", false, "sessions of every workspace")
	cmd.Flags().BoolVar(&remote, "remote", false, "sessions of every machine and workspace, as the server has them")
	return cmd
}

// keepResumable keeps what a resume would go on with: nothing that runs, is over, or went on elsewhere.
func (b *base) keepResumable(ctx context.Context, s *local.Store, rows []terminal.Row) ([]terminal.Row, error) {
	elsewhere := map[session.ID]bool{}
	if b.cfg.Config.Sync.URL != "" {
		_, lanes, _, err := s.Sync(ctx)
		if err != nil {
			return nil, err
		}
		for _, l := range lanes {
			elsewhere[l.Session] = forked(l.Session, l.State, l.Reason) != nil
		}
	}
	return slices.DeleteFunc(rows, func(r terminal.Row) bool { return r.State.Terminal() || r.Running || elsewhere[r.ID] }), nil
}

func (a *app) historyCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "history [ID]", Short: "Show the events of a session", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeSession(anySession),
		RunE: a.reading(func(ctx context.Context, b *base, s *local.Store, args []string) error {
			if format != "text" && format != "json" {
				return &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("--format=%s: must be text or json", format), Next: "acode session history --help"}
			}
			id, err := b.subject(ctx, s, strings.Join(args, ""))
			if err != nil {
				return err
			}
			if format == "json" || b.json {
				return terminal.HistoryJSON(b.io.out, events(ctx, s, id))
			}
			return terminal.History(b.io.out, events(ctx, s, id))
		}),
	}
	cmd.Flags().StringVar(&format, "format", "text", "`text|json`")
	completeValues(cmd, "format", "text|json")
	return cmd
}

func (a *app) exportCommand() *cobra.Command {
	return &cobra.Command{
		Use: "export [ID]", Short: "Write a session as one JSON document", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeSession(anySession),
		RunE: a.readingSession(func(ctx context.Context, b *base, s *local.Store, id session.ID) error {
			sess, err := s.View(ctx, id)
			if err != nil {
				return err
			}
			plan, noPlan := b.planText(ctx, s, sess)
			if noPlan != nil && !errors.Is(noPlan, session.ErrCorrupt) {
				return noPlan
			}
			// What is damaged is left out: verify sends here for the rest.
			err = terminal.Export(b.io.out, terminal.ExportView{Row: b.row(summary(sess)), Plan: plan, Events: events(ctx, s, id)})
			return errors.Join(noPlan, err)
		}),
	}
}

// pageEvents is how many events of a session are in memory together.
const pageEvents = 1000

// events gives the events of a session, oldest first.
func events(ctx context.Context, s *local.Store, id session.ID) terminal.Events {
	return func(yield func(session.Event, error) bool) {
		for after := uint64(0); ; {
			page, err := s.Events(ctx, id, after, pageEvents)
			if err != nil && !errors.Is(err, session.ErrCorrupt) {
				yield(session.Event{}, err)
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
				after = e.Seq
			}
			if err != nil && !yield(session.Event{}, err) || len(page) < pageEvents {
				return
			}
		}
	}
}

// planText gives the plan of a session as it may be shown.
func (b *base) planText(ctx context.Context, s *local.Store, sess *session.Session) (json.RawMessage, error) {
	p, err := s.Plan(ctx, sess)
	if err != nil {
		return nil, err
	}
	b.learn(p)
	p.Secrets = nil // for processes of acode only
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	return b.redactor.JSON(text), nil
}
