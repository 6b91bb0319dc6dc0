package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/lock"
	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

func (a *app) sessionCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "session", Short: "List, show, cancel and explain sessions"}
	cmd.AddCommand(a.listCommand(), a.showCommand(), a.historyCommand(), a.cancelCommand(), a.unlockCommand(), a.exportCommand())
	return cmd
}

func (a *app) listCommand() *cobra.Command {
	var resumable, all bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the sessions of this workspace", Args: cobra.NoArgs,
		RunE: a.reading(func(ctx context.Context, b *base, s *local.Store, _ []string) error {
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
			if b.json {
				return terminal.ListJSON(b.io.out, rows)
			}
			return terminal.List(b.io.out, rows, all, b.now())
		}),
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
		Use: "show [ID]", Short: "Show a session with every step", Args: cobra.MaximumNArgs(1),
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
		v.Titles = append(v.Titles, b.redactor.String(t.Title))
	}
	for _, it := range next.Items {
		step := terminal.StepView{Item: it}
		if st := sess.Steps[it.ID]; st != nil {
			step.Code, step.Message, step.Item.Attempt = st.Code, st.Message, st.Attempt // not the next attempt
			if st.EndedUS > 0 {
				step.Item.Took = time.Duration(st.EndedUS-st.StartedUS) * time.Microsecond
			}
		}
		v.Steps = append(v.Steps, step)
	}
	return v, nil
}

func (a *app) historyCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "history [ID]", Short: "Show the events of a session", Args: cobra.MaximumNArgs(1),
		RunE: a.reading(func(ctx context.Context, b *base, s *local.Store, args []string) error {
			if format != "text" && format != "json" {
				return &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("--format=%s: must be text or json", format)}
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
	return cmd
}

func (a *app) exportCommand() *cobra.Command {
	return &cobra.Command{
		Use: "export [ID]", Short: "Write a session as one JSON document", Args: cobra.MaximumNArgs(1),
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
			return terminal.JSON(b.io.out, exportJSON{V: 1, Session: summary(sess), Plan: b.redactor.JSON(plan), Events: exported(events)})
		}),
	}
}

type exportJSON struct {
	V       int             `json:"v"`
	Session session.Summary `json:"session"`
	Plan    json.RawMessage `json:"plan"` // redacted
	Events  []eventJSON     `json:"events"`
}

type eventJSON struct {
	Seq     uint64            `json:"seq"`
	Time    string            `json:"time"`
	Type    session.EventType `json:"type"`
	Actor   string            `json:"actor"`
	Epoch   uint64            `json:"epoch"`
	Hash    string            `json:"hash"`
	Payload json.RawMessage   `json:"payload"`
}

func exported(events []session.Event) []eventJSON {
	out := make([]eventJSON, len(events))
	for i, e := range events {
		out[i] = eventJSON{Seq: e.Seq, Time: e.Time().Format(time.RFC3339Nano), Type: e.Type, Actor: e.Actor, Epoch: e.Epoch, Hash: e.Hash.String(), Payload: json.RawMessage(e.Payload)}
	}
	return out
}

func (a *app) cancelCommand() *cobra.Command {
	var onlyCommand bool
	var reason string
	cmd := &cobra.Command{
		Use: "cancel [ID]", Short: "Cancel a session, or with --command only its running command", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.writing(cmd.Context(), func(ctx context.Context, b *base, s *local.Store) error {
				id, err := b.subject(ctx, s, strings.Join(args, ""))
				if err != nil {
					return err
				}
				if onlyCommand {
					return b.endCommands(ctx, id)
				}
				return b.cancel(ctx, s, id, reason)
			})
		},
	}
	cmd.Flags().BoolVar(&onlyCommand, "command", false, "end the running command and leave the session paused")
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	return cmd
}

// writing opens the store for a command that may write.
func (a *app) writing(ctx context.Context, f func(context.Context, *base, *local.Store) error) error {
	b, err := a.boot()
	if err != nil {
		return err
	}
	s, err := b.openWrite(ctx)
	if err != nil {
		return err
	}
	return errors.Join(f(ctx, b, s), s.Close(), b.closeLog())
}

// endCommands ends every command of the session that still runs.
func (b *base) endCommands(ctx context.Context, id session.ID) error {
	records, err := command.Records(b.commandDir(id))
	if err != nil {
		return err
	}
	ended := 0
	for _, r := range records {
		switch r.State {
		case session.CommandRunning, session.CommandUnattended, session.CommandLingering:
			if err := command.Cancel(ctx, b.commandDir(id), r.Key); err != nil {
				return err
			}
			b.log.Info("command ended on request", "event", "command_cancelled", "key", r.Key)
			ended++
		}
	}
	fmt.Fprintf(b.io.out, "%d commands ended; the session can be resumed\n", ended)
	return nil
}

// cancel ends a session for good: itself when nobody executes it, else by asking its holder.
func (b *base) cancel(ctx context.Context, s *local.Store, id session.ID, reason string) error {
	return b.decide(ctx, s, id, session.Request{Session: id, Kind: session.RequestCancel, Reason: reason, By: whoAmI()},
		func(sess *session.Session) ([]session.Draft, error) {
			if sess.State.Terminal() {
				return nil, &session.Error{Code: session.ErrTerminal, Message: fmt.Sprintf("the session is %s already; nothing was changed", sess.State)}
			}
			if err := b.endCommands(ctx, id); err != nil {
				return nil, err
			}
			return []session.Draft{{Type: session.StateChanged, Actor: "user", Data: session.StateChangedData{From: sess.State, To: session.Cancelled, Reason: session.ReasonUser, Detail: reason}}}, nil
		})
}

// decide writes events when nobody holds the session's lock, and otherwise leaves a request
// for the holder.
func (b *base) decide(ctx context.Context, s *local.Store, id session.ID, r session.Request, events func(*session.Session) ([]session.Draft, error)) error {
	self, err := lock.Self(commandLine(), b.now())
	if err != nil {
		return err
	}
	held, err := lock.Acquire(b.lockFile(id), self)
	if errors.Is(err, session.ErrLocked) {
		if err := s.Ask(ctx, r); err != nil {
			return err
		}
		fmt.Fprintf(b.io.out, "The process that executes the session was asked to %s\n", r.Kind)
		return nil
	}
	if err != nil {
		return err
	}
	err = b.append(ctx, s, id, events)
	if err == nil {
		fmt.Fprintf(b.io.out, "Recorded: %s\n", r.Kind)
	}
	return errors.Join(err, held.Release())
}

func (b *base) append(ctx context.Context, s *local.Store, id session.ID, events func(*session.Session) ([]session.Draft, error)) error {
	w, err := s.Load(ctx, id)
	if err != nil {
		return err
	}
	drafts, err := events(w.Session())
	if err == nil {
		_, err = w.Append(ctx, drafts...)
	}
	return errors.Join(err, w.Close())
}

func (a *app) unlockCommand() *cobra.Command {
	return &cobra.Command{
		Use: "unlock [ID]", Short: "Explain who holds a session; removes nothing that is held", Args: cobra.MaximumNArgs(1),
		RunE: a.reading(func(ctx context.Context, b *base, s *local.Store, args []string) error {
			id, err := b.subject(ctx, s, strings.Join(args, ""))
			if err != nil {
				return err
			}
			return b.explainLocks(id)
		}),
	}
}

func (b *base) explainLocks(id session.ID) error {
	h, held, err := lock.Read(b.lockFile(id))
	if err != nil {
		return err
	}
	if held {
		fmt.Fprintf(b.io.out, "Session lock: held by pid %d since %s: %s\nIt is free as soon as that process ends; nothing was removed.\n", h.PID, h.Since.UTC().Format(time.RFC3339), terminal.Clean(h.Command))
	} else {
		fmt.Fprintln(b.io.out, "Session lock: free. A lock is never left behind: the kernel frees it when its holder ends.")
	}
	for _, n := range b.commandNotes(id) {
		fmt.Fprintln(b.io.out, terminal.Clean(n))
	}
	return nil
}
