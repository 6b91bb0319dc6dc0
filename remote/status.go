package remote

import (
	"context"
	"time"
)

// Status is the state of a server for an administrator.
type Status struct {
	// Version is the version of the schema.
	Version int
	// Server is PostgreSQL's own version.
	Server   string
	Database string
	// Bytes is the size of all tables of acode.
	Bytes      int64
	EventBytes int64
	BlobBytes  int64
	Sessions   int64
	// Events includes the pruned events.
	Events int64
	Pruned int64
	// Unverified counts the events above the verified marks.
	Unverified  int64
	Unprojected int64
	// Broken counts the sessions whose chain is wrong.
	Broken int64
	Blobs  int64
	// Fenced and Forked count the events that were filed as forks.
	Fenced int64
	Forked int64
	// MonthsAhead counts the coming months that have partitions. With 0, deliveries fail
	// at the end of this month.
	MonthsAhead int
	// Durable is the server's default of synchronous_commit; deliveries raise it.
	Durable  string
	Machines []Machine
}

// Machine is a store that delivers.
type Machine struct {
	// Owner is the login role.
	Owner string
	// Device is the id of the store.
	Device   string
	Sessions int64
	Events   int64
	// Last is the time of its last delivery, by the server's clock.
	Last time.Time
	// Quiet is the time since Last, by the server's clock: acode never compares the
	// clocks of two hosts.
	Quiet time.Duration
}

// ReadStatus reads the state of a server.
func ReadStatus(ctx context.Context, o Options) (Status, error) {
	a, err := connect(ctx, o)
	if err != nil {
		return Status{}, err
	}
	defer a.close()
	var s Status
	err = a.totals(ctx, &s)
	if err == nil {
		err = a.machines(ctx, &s)
	}
	return s, a.failed("read the server's state", err)
}

func (a *admin) totals(ctx context.Context, s *Status) error {
	const totals = `SELECT m.schema_version, current_setting('server_version'), current_database()::text, current_setting('synchronous_commit'),
    h.sessions, h.events, h.pruned, h.unverified, h.unprojected, h.broken, f.fenced, f.forked,
    (SELECT count(*) FROM acode.blobs),
    (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c WHERE c.relnamespace = 'acode'::regnamespace AND c.relkind = 'r'),
    (SELECT coalesce(sum(pg_total_relation_size(i.inhrelid)), 0)::bigint FROM pg_inherits i WHERE i.inhparent = 'acode.events'::regclass),
    pg_total_relation_size('acode.blob_chunks'),
    (SELECT count(*) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'acode.events'::regclass
        AND c.relname > 'events_' || to_char(now() AT TIME ZONE 'UTC', 'YYYY_MM'))
FROM acode.meta m,
    (SELECT count(*) AS sessions, coalesce(sum(last_seq), 0)::bigint AS events, coalesce(sum(first_seq - 1), 0)::bigint AS pruned,
        coalesce(sum(last_seq - verified_seq), 0)::bigint AS unverified, coalesce(sum(last_seq - projected_seq), 0)::bigint AS unprojected,
        count(broken_seq) AS broken FROM acode.heads) h,
    (SELECT count(*) FILTER (WHERE reason = 'fenced') AS fenced, count(*) FILTER (WHERE reason = 'forked') AS forked FROM acode.forks) f`
	return a.conn.QueryRow(ctx, totals).Scan(&s.Version, &s.Server, &s.Database, &s.Durable, &s.Sessions, &s.Events, &s.Pruned,
		&s.Unverified, &s.Unprojected, &s.Broken, &s.Fenced, &s.Forked, &s.Blobs, &s.Bytes, &s.EventBytes, &s.BlobBytes, &s.MonthsAhead)
}

func (a *admin) machines(ctx context.Context, s *Status) error {
	const machines = `SELECT owner::text, device, count(*), sum(last_seq)::bigint, max(updated_at), (extract(epoch FROM clock_timestamp() - max(updated_at)) * 1000000)::bigint
FROM acode.heads GROUP BY owner, device ORDER BY owner, device`
	var m Machine
	var quiet int64
	return a.each(ctx, machines, nil, []any{&m.Owner, &m.Device, &m.Sessions, &m.Events, &m.Last, &quiet}, func() error {
		m.Last, m.Quiet = m.Last.UTC(), time.Duration(quiet)*time.Microsecond
		s.Machines = append(s.Machines, m)
		return nil
	})
}
