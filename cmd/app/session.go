package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

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
	var resumable, all bool
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
			rows = keepResumable(rows)
		}
		return list(rows)
	})
	cmd := &cobra.Command{
		Use: "list", Short: "List the sessions of this workspace", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := run(cmd, args)
			if errors.Is(err, session.ErrUnknownID) { // there is no store yet
				return list(nil)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&resumable, "resumable", false, "only sessions that can be resumed now")
	cmd.Flags().BoolVar(&all, "all", false, "sessions of every workspace")
	return cmd
}

func keepResumable(rows []terminal.Row) []terminal.Row {
	var out []terminal.Row
	for _, r := range rows {
		if !r.State.Terminal() && !r.Running {
			out = append(out, r)
		}
	}
	return out
}

func (a *app) showCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show [ID]", Short: "Show a session with every step", Long: "Show a session with every step, and the end of what the command of a failed step wrote.\nWith -v more of it, and what the other commands wrote and the searches found.",
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeSession(anySession),
		RunE: a.reading(func(ctx context.Context, b *base, s *local.Store, args []string) error {
			id, err := b.subject(ctx, s, strings.Join(args, ""))
			if err != nil {
				return err
			}
			v, err := b.showView(ctx, s, id)
			if err != nil {
				return err
			}
			if b.json {
				return terminal.ShowJSON(b.io.out, v)
			}
			return terminal.Show(b.io.out, v)
		}),
	}
}

func (b *base) showView(ctx context.Context, s *local.Store, id session.ID) (terminal.ShowView, error) {
	var v terminal.ShowView
	var err error
	if v.StatusView, err = b.statusView(ctx, s, id); err != nil {
		return v, err
	}
	sess, p, next, err := b.outlook(ctx, s, id)
	if err != nil {
		return v, err
	}
	for _, t := range p.Tasks {
		v.Titles = append(v.Titles, b.redactor.String(cmp.Or(t.Title, t.ID)))
	}
	for _, it := range next.Items {
		step := terminal.StepView{Item: it}
		if st := sess.Steps[it.ID]; st != nil {
			step.Code, step.Message, step.Item.Attempt = st.Code, st.Message, st.Attempt // not the next attempt
			if st.EndedUS > 0 {
				step.Item.Took = time.Duration(st.EndedUS-st.StartedUS) * time.Microsecond
			}
			if st.Status == session.StepFailed || st.Status == session.StepDone && b.verbose > 0 {
				step.Output = b.wrote(ctx, s, id, st.LastSeq)
			}
		}
		v.Steps = append(v.Steps, step)
	}
	return v, nil
}

// wrote gives the end of what a step wrote or found, as the receipt in event seq keeps it. Of a
// command that failed that is its standard error, else its standard output; with -v it is both.
func (b *base) wrote(ctx context.Context, s *local.Store, id session.ID, seq uint64) []string {
	unread := func(err error) []string { return []string{"what it wrote cannot be read: " + err.Error()} }
	events, err := s.Events(ctx, id, seq-1, 1)
	var receipt struct {
		Command *session.CommandResult `json:"command"`
		Matches *session.Output        `json:"matches"`
	}
	for _, e := range events {
		err = e.Decode(&receipt)
	}
	if err != nil {
		return unread(err)
	}
	var outputs []session.Output
	if receipt.Command != nil {
		outputs = []session.Output{receipt.Command.Stderr, receipt.Command.Stdout}
	}
	count := 5
	if b.verbose > 0 {
		slices.Reverse(outputs)
		count = 200
	}
	if receipt.Matches != nil {
		outputs = append(outputs, *receipt.Matches)
	}
	var lines []string
	for _, o := range outputs {
		text, err := content(ctx, s, o)
		if err != nil {
			return unread(err)
		}
		if text = strings.TrimSpace(text); text != "" {
			all := strings.Split(text, "\n")
			lines = append(lines, all[max(0, len(all)-count):]...)
		}
		if len(lines) > 0 && b.verbose == 0 {
			break
		}
	}
	return lines
}

// content is what was kept of an output.
func content(ctx context.Context, s *local.Store, o session.Output) (string, error) {
	if o.Blob.Hash == "" {
		return o.Text, nil
	}
	r, err := s.OpenBlob(ctx, o.Blob.Hash)
	if err != nil {
		return "", err
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	return string(text), err
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
			events, err := s.Events(ctx, id, 0, math.MaxInt32)
			if err != nil {
				return err
			}
			if format == "json" || b.json {
				return terminal.HistoryJSON(b.io.out, events)
			}
			return terminal.History(b.io.out, events)
		}),
	}
	cmd.Flags().StringVar(&format, "format", "text", "`text|json`")
	completeValues(cmd, "format", "text|json")
	return cmd
}

func (a *app) exportCommand() *cobra.Command {
	return &cobra.Command{
		Use: "export [ID]", Short: "Write a session as one JSON document", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeSession(anySession),
		RunE: a.reading(func(ctx context.Context, b *base, s *local.Store, args []string) error {
			id, err := b.subject(ctx, s, strings.Join(args, ""))
			if err != nil {
				return err
			}
			sess, p, _, err := b.outlook(ctx, s, id)
			if err != nil {
				return err
			}
			events, err := s.Events(ctx, id, 0, math.MaxInt32)
			if err != nil {
				return err
			}
			plan, err := json.Marshal(p)
			if err != nil {
				return err
			}
			return terminal.Export(b.io.out, terminal.ExportView{Row: b.row(summary(sess)), Plan: b.redactor.JSON(plan), Events: events})
		}),
	}
}
