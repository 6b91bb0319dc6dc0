package remote

import (
	"context"
	"fmt"
	"time"
)

// PrunedMonth is a month of events that Prune drops, or would drop.
type PrunedMonth struct {
	// Month is its first day.
	Month    time.Time
	Events   int64
	Sessions int64
	Bytes    int64
	// Blocked is why the month stays; empty if it goes.
	Blocked string
}

// Prune drops the events that were received in months that ended at least age ago, by the
// server's clock. The chains of their sessions then begin above these events and still
// verify; their heads, projections, forks and blobs stay. With dryRun it only returns the
// months.
//
// A month stays, with a reason, if it has events that were not verified and projected, or
// that follow one of a type that the server does not know. Later months with events of
// the same sessions stay too.
func Prune(ctx context.Context, o Options, age time.Duration, dryRun bool) ([]PrunedMonth, error) {
	a, err := connect(ctx, o)
	if err != nil {
		return nil, err
	}
	defer a.close()
	months, err := a.months(ctx, age)
	for i := range months {
		if err != nil || dryRun || months[i].Blocked != "" {
			continue
		}
		// Each month has its own transaction, so dropped months stay dropped after an
		// error.
		_, err = a.conn.Exec(ctx, `SELECT acode.prune_month($1::text::date)`, months[i].Month.Format(time.DateOnly))
	}
	return months, a.failed("prune the server", err)
}

// months lists the months that ended at least age ago, oldest first.
func (a *admin) months(ctx context.Context, age time.Duration) ([]PrunedMonth, error) {
	var before time.Time
	if err := a.conn.QueryRow(ctx, `SELECT now()`).Scan(&before); err != nil {
		return nil, err
	}
	before = before.Add(-age)
	const names = `SELECT c.relname, pg_total_relation_size(c.oid) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'acode.events'::regclass ORDER BY c.relname`
	var out []PrunedMonth
	var name string
	var m PrunedMonth
	err := a.each(ctx, names, nil, []any{&name, &m.Bytes}, func() error {
		month, err := time.Parse("events_2006_01", name)
		if err != nil {
			return fmt.Errorf("read the month of partition %s: %w", name, err)
		}
		if m.Month = month; !month.AddDate(0, 1, 0).After(before) {
			out = append(out, m)
		}
		return nil
	})
	kept := []string{}
	for i := range out {
		if err == nil {
			err = a.count(ctx, &out[i], kept)
		}
		if out[i].Blocked != "" {
			kept = append(kept, out[i].Month.Format("2006-01"))
		}
	}
	return out, err
}

// count counts the events of a month, and blocks a month that must stay. A month that
// continues sessions of a month that stays must stay too: a chain begins in one place.
func (a *admin) count(ctx context.Context, m *PrunedMonth, kept []string) error {
	const count = `SELECT count(*), count(DISTINCT e.session_id), count(*) FILTER (WHERE e.seq > h.verified_seq), count(*) FILTER (WHERE e.seq > h.projected_seq),
    count(*) FILTER (WHERE e.seq >= h.unknown_seq),
    $1::text::date >= date_trunc('month', now() AT TIME ZONE 'UTC')::date,
    coalesce(bool_or(cardinality($3::text[]) > 0 AND e.session_id IN (SELECT k.session_id FROM acode.events k WHERE to_char(k.received_at AT TIME ZONE 'UTC', 'YYYY-MM') = ANY ($3::text[]))), false)
FROM acode.events e LEFT JOIN acode.heads h USING (session_id)
WHERE e.received_at >= ($1::text || ' 00:00+00')::timestamptz AND e.received_at < ($2::text || ' 00:00+00')::timestamptz`
	var unverified, unprojected, unknown int64
	var current, follows bool
	from, to := m.Month.Format(time.DateOnly), m.Month.AddDate(0, 1, 0).Format(time.DateOnly)
	if err := a.conn.QueryRow(ctx, count, from, to, kept).Scan(&m.Events, &m.Sessions, &unverified, &unprojected, &unknown, &current, &follows); err != nil {
		return err
	}
	switch {
	case current:
		m.Blocked = "the month is not over on the server"
	case unverified > 0:
		m.Blocked = fmt.Sprintf("%d events are not verified yet; verify the server, which verifies them or reports the error", unverified)
	case unprojected > 0:
		m.Blocked = fmt.Sprintf("%d events are not in the typed tables yet; verify the server, which puts them there", unprojected)
	case unknown > 0:
		m.Blocked = fmt.Sprintf("%d events have, or follow, a type that the server does not know; migrate the server with a newer acode, which puts them into the typed tables", unknown)
	case follows:
		m.Blocked = "it has sessions of an earlier month that stays"
	}
	return nil
}
