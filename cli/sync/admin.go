package syncer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/cli"
	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/remote"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

func (p *program) adminCommand() *cobra.Command {
	device := cli.Group("device", "Manage the machines that may deliver",
		p.administer("add NAME", "Make a login role that may deliver, and print its password once", 1, p.addDevice),
		p.administer("list", "List the roles that may deliver", 0, p.listDevices),
		p.administer("revoke NAME", "Stop the deliveries of a role; its delivered events stay", 1, p.revokeDevice))
	return cli.Group("admin", "Administer the server: migrate, devices, verify, prune", p.migrateCommand(), device,
		p.administer("status", "Show the size of the server and the machines that deliver", 0, p.adminStatus),
		p.adminVerifyCommand(),
		p.pruneCommand())
}

// administer returns a command for the operator of a server, whose role has more rights
// than the role of a device. Before the command runs, acode delivers pending events.
func (p *program) administer(use, short string, args int, f func(context.Context, remote.Options, []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: cobra.ExactArgs(args), RunE: func(cmd *cobra.Command, args []string) error {
		setup, err := p.Setup()
		if err != nil {
			return err
		}
		if p.deliverFirst(cmd.Context(), setup); p.undelivered != nil && !p.JSON {
			terminal.Error(p.Err, fmt.Errorf("the delivery before this command was not completed: %w", p.undelivered), p.Own(p.undelivered))
		}
		return f(cmd.Context(), remoteOptions(&setup), args)
	}}
}

// deliverFirst delivers pending events before the server is asked for something else. It
// keeps the error in undelivered when they cannot be delivered (FR-052).
func (p *program) deliverFirst(ctx context.Context, setup app.Setup) {
	if setup.Settings.Config.Sync.URL == "" {
		// The command itself reports it.
		return
	}
	s, err := app.OpenRead(ctx, setup)
	if err != nil {
		// ErrUnknownID means that there is no store, so nothing is pending.
		if !errors.Is(err, session.ErrUnknownID) {
			p.undelivered = err
		}
		return
	}
	_, _, waiting, err := s.Store().Sync(ctx)
	if err = errors.Join(err, s.Close()); err == nil && waiting.Events > 0 {
		err = p.deliverAs(ctx)
	}
	p.undelivered = err
}

// deliverAs delivers if the address uses the role that this store delivers as. An
// operator mostly uses another role: the server would give it the new sessions and refuse
// all others.
func (p *program) deliverAs(ctx context.Context) error {
	return p.withEndpoints(ctx, "admin", outbox.Options{}, func(l *endpoints) error {
		hello, err := l.server.Hello(ctx, l.outbox.Device())
		if err != nil {
			return outbox.Envelope(err)
		}
		_, acked, err := l.outbox.Totals(ctx)
		if err != nil {
			return err
		}
		if known := acked[hello.Remote.String()]; known > 0 && hello.Events >= known {
			return l.deliver(ctx, 0)
		}
		return &session.Error{Code: session.ErrRemoteAuth, Message: "this address does not use the role that this store delivers as; everything is kept", Next: session.Then("with the role of this store", session.MoveSyncNow, "")}
	})
}

// answer prints v for scripts, or lines for people.
func (p *program) answer(v map[string]any, lines ...string) error {
	if p.JSON {
		v["v"] = 1
		if p.undelivered != nil {
			v["undelivered"] = terminal.NewReason(p.undelivered)
		}
		return terminal.JSON(p.Out, v)
	}
	_, err := io.WriteString(p.Out, strings.Join(lines, "\n")+"\n")
	return err
}

func (p *program) migrateCommand() *cobra.Command {
	var dryRun bool
	c := p.administer("migrate", "Bring the server's schema to this program's version", 0, func(ctx context.Context, o remote.Options, _ []string) error {
		return p.migrate(ctx, o, dryRun)
	})
	c.Long = "Bring the server's schema to this program's version, and install the functions that fill its\nviews. Needs a role that may create a schema and roles. Laptops never do this by themselves."
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print the SQL and change nothing")
	return c
}

func (p *program) migrate(ctx context.Context, o remote.Options, dryRun bool) error {
	var sql io.Writer
	if dryRun {
		sql = p.Out
	}
	m, err := remote.Migrate(ctx, o, sql)
	if err != nil || dryRun {
		return err
	}
	line := fmt.Sprintf("Migrated the schema from version %d to %d.", m.From, m.To)
	if m.From == m.To {
		line = fmt.Sprintf("The schema is at version %d already.", m.To)
	}
	return p.answer(map[string]any{"from": m.From, "to": m.To}, line)
}

func (p *program) addDevice(ctx context.Context, o remote.Options, args []string) error {
	password, err := remote.AddDevice(ctx, o, args[0])
	if err != nil {
		return err
	}
	return p.answer(map[string]any{"device": args[0], "password": password},
		"Added the role "+args[0]+". Its password is kept nowhere else; put it into that machine's ~/.pgpass:", password)
}

func (p *program) revokeDevice(ctx context.Context, o remote.Options, args []string) error {
	if err := remote.RevokeDevice(ctx, o, args[0]); err != nil {
		return err
	}
	return p.answer(map[string]any{"device": args[0], "revoked": true}, "Revoked "+args[0]+". What it delivered stays.")
}

func (p *program) listDevices(ctx context.Context, o remote.Options, _ []string) error {
	devices, err := remote.ListDevices(ctx, o)
	if err != nil {
		return err
	}
	rows := []map[string]any{}
	lines := []string{fmt.Sprintf("%-24s %-8s %9s %12s  %s", "ROLE", "STATE", "SESSIONS", "EVENTS", "LAST DELIVERY")}
	for _, d := range devices {
		state := "revoked"
		switch {
		case d.Enabled && d.Expired:
			state = "expired"
		case d.Enabled:
			state = "enabled"
		}
		rows = append(rows, map[string]any{"device": d.Name, "enabled": d.Enabled, "expired": d.Expired, "sessions": d.Sessions, "events": d.Events, "last_delivery_at": stamp(d.Last)})
		lines = append(lines, fmt.Sprintf("%-24s %-8s %9d %12d  %s", d.Name, state, d.Sessions, d.Events, orNever(d.Last)))
	}
	return p.answer(map[string]any{"devices": rows}, lines...)
}

// stamp formats a time for scripts; nil for the zero time.
func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339)
}

func orNever(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

func (p *program) adminStatus(ctx context.Context, o remote.Options, _ []string) error {
	s, err := remote.ReadStatus(ctx, o)
	if err != nil {
		return err
	}
	size := func(n int64) string { return humanize.IBytes(uint64(n)) }
	lines := []string{
		fmt.Sprintf("Database: %s, PostgreSQL %s, schema version %d, synchronous_commit %s by default", s.Database, s.Server, s.Version, s.Durable),
		fmt.Sprintf("Size: %s (events %s, blobs %s)", size(s.Bytes), size(s.EventBytes), size(s.BlobBytes)),
		fmt.Sprintf("Sessions: %d with %d events, %d of them pruned; %d blobs", s.Sessions, s.Events, s.Pruned, s.Blobs),
		fmt.Sprintf("Not yet verified: %d events; not yet in the typed tables: %d; chains that are wrong: %d", s.Unverified, s.Unprojected, s.Broken),
		fmt.Sprintf("Forks: %d events fenced, %d forked", s.Fenced, s.Forked),
		fmt.Sprintf("Partitions: made for %s ahead", terminal.Plural(s.MonthsAhead, "month")),
	}
	machines := []map[string]any{}
	for _, m := range s.Machines {
		machines = append(machines, map[string]any{"owner": m.Owner, "device": m.Device, "sessions": m.Sessions, "events": m.Events,
			"last_delivery_at": stamp(m.Last), "quiet_seconds": int64(m.Quiet.Seconds())})
		lines = append(lines, fmt.Sprintf("Machine %s as %s: %s, %d events, silent for %s", m.Device, m.Owner, terminal.Plural(int(m.Sessions), "session"), m.Events, m.Quiet.Round(time.Second)))
	}
	return p.answer(map[string]any{
		"schema": s.Version, "server": s.Server, "database": s.Database, "bytes": s.Bytes, "event_bytes": s.EventBytes, "blob_bytes": s.BlobBytes,
		"sessions": s.Sessions, "events": s.Events, "pruned": s.Pruned, "unverified": s.Unverified, "unprojected": s.Unprojected, "broken": s.Broken,
		"blobs": s.Blobs, "fenced": s.Fenced, "forked": s.Forked, "months_ahead": s.MonthsAhead, "synchronous_commit": s.Durable, "machines": machines,
	}, lines...)
}

func (p *program) adminVerifyCommand() *cobra.Command {
	c := p.administer("verify", "Recompute every chain, fork and blob on the server; exits 1 for a difference", 0, p.adminVerify)
	c.Long = "Recompute every chain, fork and blob on the server; exits 1 for a difference. Events that inactive\nmachines left unverified count as verified afterwards. They are put into the typed tables, so\nthat they can be pruned."
	return c
}

func (p *program) adminVerify(ctx context.Context, o remote.Options, _ []string) error {
	c, err := remote.VerifyAll(ctx, o)
	if err != nil {
		return err
	}
	found := []map[string]any{}
	for _, d := range c.Differences {
		found = append(found, map[string]any{"session_id": d.Session, "seq": d.Seq, "what": d.What, "detail": d.Detail})
		if !p.JSON {
			fmt.Fprintf(p.Err, "%s event %d: %s: %s\n", d.Session, d.Seq, d.What, terminal.Clean(d.Detail))
		}
	}
	verdict := "all good"
	if n := len(found); n > 0 {
		verdict = terminal.Plural(n, "difference")
	}
	err = p.answer(map[string]any{"sessions": c.Sessions, "events": c.Events, "withheld": c.Withheld, "forks": c.Forks, "blobs": c.Blobs, "differences": found},
		fmt.Sprintf("%s, %d events, %d forked events, %d blobs: %s", terminal.Plural(c.Sessions, "session"), c.Events, c.Forks, c.Blobs, verdict))
	if err == nil && len(found) > 0 {
		err = cli.ExitAs(session.ErrSyncDiffers)
	}
	return err
}

func (p *program) pruneCommand() *cobra.Command {
	var olderThan time.Duration
	var dryRun bool
	c := p.administer("prune --older-than TIME", "Drop months of events that are older", 0, func(ctx context.Context, o remote.Options, _ []string) error {
		return p.prune(ctx, o, olderThan, dryRun)
	})
	c.Long = "Drop the events that were received in months that ended at least that long ago, for example 2160h\nfor 90 days. Chains that begin after them still verify, and the machines keep their own copies.\nTry --dry-run first."
	c.Flags().DurationVar(&olderThan, "older-than", 0, "drop months that ended at least this `age` ago; at least 744h")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be dropped and change nothing")
	// The flag was defined above.
	_ = c.MarkFlagRequired("older-than")
	return c
}

// leastAge is longer than a month, so that the month that receives deliveries is kept.
const leastAge = 31 * 24 * time.Hour

func (p *program) prune(ctx context.Context, o remote.Options, age time.Duration, dryRun bool) error {
	if age < leastAge {
		return &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("--older-than must be at least %s; nothing was changed", leastAge)}
	}
	months, err := remote.Prune(ctx, o, age, dryRun)
	if err != nil {
		return err
	}
	rows := []map[string]any{}
	var lines []string
	for _, m := range months {
		rows = append(rows, map[string]any{"month": m.Month.Format("2006-01"), "events": m.Events, "sessions": m.Sessions, "bytes": m.Bytes, "blocked": m.Blocked})
		what := "dropped"
		switch {
		case m.Blocked != "":
			what = "stays: " + m.Blocked
		case dryRun:
			what = "would be dropped"
		}
		lines = append(lines, fmt.Sprintf("%s: %d events of %s, %s: %s", m.Month.Format("2006-01"), m.Events, terminal.Plural(int(m.Sessions), "session"), humanize.IBytes(uint64(m.Bytes)), what))
	}
	if len(lines) == 0 {
		lines = append(lines, "No month is that old.")
	}
	return p.answer(map[string]any{"dry_run": dryRun, "months": rows}, lines...)
}
