package syncer

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/cli"
	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

// sessionCommand returns the command for session list --remote, which acode documents and
// hands over.
func (p *program) sessionCommand() *cobra.Command {
	c := cli.Group("session", "List the sessions of the server", p.listCommand("list"))
	c.Hidden = true
	return c
}

func (p *program) listCommand(name string) *cobra.Command {
	list := &cobra.Command{Use: name, Hidden: true, Short: "List the sessions of the server", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.listRemote(cmd.Context()) }}
	list.Flags().Bool("remote", true, "always set")
	list.Flags().Bool("all", true, "always set")
	return list
}

// listRemote delivers pending events and lists the sessions of the server. It reports why
// when the events cannot be delivered (FR-052).
func (p *program) listRemote(ctx context.Context) error {
	return p.withEndpoints(ctx, "session list", outbox.Options{}, func(l *endpoints) error {
		undelivered := l.deliver(ctx, 0)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		rows, err := l.remoteRows(ctx)
		if err != nil {
			return outbox.Envelope(err)
		}
		if undelivered != nil && !p.JSON {
			terminal.Error(p.Err, fmt.Errorf("the delivery before this list was not completed: %w", undelivered), p.Own(undelivered))
		}
		return p.Page().RemoteList(rows, undelivered)
	})
}

// remoteRows lists the sessions of the server with the number of events that are pending
// here.
func (l *endpoints) remoteRows(ctx context.Context) ([]terminal.RemoteRow, error) {
	list, err := l.projected(ctx)
	if err != nil {
		return nil, err
	}
	lanes, err := l.outbox.Lanes(ctx)
	if err != nil {
		return nil, err
	}
	pending := map[session.ID]uint64{}
	for _, lane := range lanes {
		if !lane.WentOn() {
			pending[lane.Session] = lane.Pending()
		}
	}
	rows := make([]terminal.RemoteRow, len(list))
	for i, s := range list {
		rows[i] = terminal.RemoteRow{RemoteSummary: s, Pending: pending[s.ID]}
	}
	return rows, nil
}

// projectRows is how many events one call projects.
const projectRows = 2000

// projected lists the sessions of the server after its typed tables contain all events.
// The tables lag behind deliveries, and another process may be filling them. It lists a
// server that cannot fill them within choresTime as it is.
func (l *endpoints) projected(ctx context.Context) ([]session.RemoteSummary, error) {
	list, err := l.remoteList(ctx)
	limited, cancel := context.WithTimeout(ctx, choresTime)
	defer cancel()
	for err == nil && lags(list) && limited.Err() == nil {
		for more := true; more; {
			var failed error
			if more, failed = l.server.Project(limited, projectRows); failed != nil {
				cancel()
			}
		}
		if list, err = l.remoteList(ctx); err == nil && lags(list) {
			pause(limited, retryEvery)
		}
	}
	return list, err
}

func lags(list []session.RemoteSummary) bool {
	return slices.ContainsFunc(list, func(s session.RemoteSummary) bool { return s.Projected < s.LastSeq })
}

// listPage is how many sessions one call lists.
const listPage = 500

func (l *endpoints) remoteList(ctx context.Context) ([]session.RemoteSummary, error) {
	var list []session.RemoteSummary
	var before session.ID
	for {
		page, err := l.server.List(ctx, before, listPage)
		list = append(list, page...)
		if err != nil || len(page) < listPage {
			return list, err
		}
		before = page[len(page)-1].ID
	}
}
