package remote

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/acode-dev/acode/migrations"
	"github.com/acode-dev/acode/session"
)

// Hello connects if there is no connection. It returns the identity of the database and
// the number of the device's events there. A server whose schema does not fit this
// program is a fault of class unmigrated or too_new.
func (s *Server) Hello(ctx context.Context, device string) (session.Hello, error) {
	h := session.Hello{Remote: session.RemoteIdentity{Schema: Schema}}
	var version, oldest int
	c := call{`SELECT system, database, schema_version, oldest_client, events, read_only FROM acode.hello($1)`, []any{device}}
	if err := s.one(ctx, c, &h.Remote.System, &h.Remote.Database, &version, &oldest, &h.Events, &h.ReadOnly); err != nil {
		return session.Hello{}, err
	}
	return h, fits(version, oldest)
}

// fits compares the server's schema with the one that this program was built for.
func fits(version, oldest int) error {
	switch {
	case version < migrations.PostgresVersion:
		return &session.SyncFault{Class: session.FaultUnmigrated, Safe: true,
			Cause: fmt.Errorf("the server's schema is version %d and this program needs %d: a migration brings it forward", version, migrations.PostgresVersion)}
	case oldest > migrations.PostgresVersion:
		return &session.SyncFault{Class: session.FaultTooNew, Safe: true,
			Cause: fmt.Errorf("the server's schema is version %d and serves programs from version %d on, this one is %d: install a newer acode", version, oldest, migrations.PostgresVersion)}
	}
	return nil
}

// Marks returns the marks of the device's sessions, by id, at most limit above after. The
// zero ID is the start.
func (s *Server) Marks(ctx context.Context, device string, after session.ID, limit int) ([]session.Mark, error) {
	from, err := uuid(after)
	if err != nil {
		return nil, refused(err)
	}
	var marks []session.Mark
	m := session.Mark{Verdict: session.DeliveryTaken}
	c := call{`SELECT session_id, seq, head, epoch, verified FROM acode.marks($1, $2, $3)`, []any{device, from, int32(limit)}}
	err = s.ask(ctx, []any{&m.Session, &m.Seq, (*hash)(&m.Head), &m.Epoch, &m.Verified}, func() error { marks = append(marks, m); return nil }, c)
	return marks, s.fault(err)
}

// Deliver sends d to the server in one statement and one round trip. When it returns
// without error, the events up to the mark are durable there. A repeat changes nothing
// (FR-054).
func (s *Server) Deliver(ctx context.Context, d session.Delivery) (session.Mark, error) {
	c, err := ingest(d)
	if err != nil {
		return session.Mark{}, refused(err)
	}
	m := session.Mark{Session: d.Session}
	err = s.one(ctx, c, &m.Seq, (*hash)(&m.Head), &m.Epoch, &m.Verified, &m.Verdict, &m.Inserted, &m.Duplicate)
	if err != nil {
		s.makeMonths(ctx, err)
		return session.Mark{}, err
	}
	return m, nil
}

// makeMonths has the server make its partitions if a delivery failed because one is
// missing. Deliveries make partitions in advance, so after a year without any there is
// none. The next attempt finds them.
func (s *Server) makeMonths(ctx context.Context, err error) {
	var pe *pgconn.PgError
	if errors.As(err, &pe) && noPartition(pe) {
		// the delivery has its own error
		_ = s.ask(ctx, nil, nil, call{sql: `SELECT acode.maintain()`})
	}
}

// ingest returns the statement of a delivery.
func ingest(d session.Delivery) (call, error) {
	id, err := uuid(d.Session)
	if err != nil {
		return call{}, err
	}
	first, err := contiguous(d)
	if err != nil {
		return call{}, err
	}
	n := len(d.Events)
	ids, times, types, actors := make([]pgtype.UUID, n), make([]int64, n), make([]string, n), make([]string, n)
	epochs, hashes, payloads := make([]int64, n), make([][]byte, n), make([][]byte, n)
	for i := range d.Events {
		e := &d.Events[i]
		ids[i] = pgtype.UUID{Bytes: e.ID, Valid: true}
		times[i], types[i], actors[i] = e.TimeUS, string(e.Type), e.Actor
		epochs[i], hashes[i], payloads[i] = int64(e.Epoch), e.Hash[:], e.Payload
		// empty, and not NULL
		if e.Payload == nil {
			payloads[i] = []byte{}
		}
	}
	return call{`SELECT seq, head, epoch, verified, verdict, inserted, duplicate
FROM acode.ingest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		[]any{id, d.Device, int64(first), d.Prev[:], ids, times, types, actors, epochs, hashes, payloads}}, nil
}

// contiguous returns the first seq of d, or 1 if d has no events. It refuses events that
// are not a run of one session: the statement carries one session and one seq for all.
func contiguous(d session.Delivery) (uint64, error) {
	if len(d.Events) == 0 {
		return 1, nil
	}
	first := d.Events[0].Seq
	for i := range d.Events {
		if e := &d.Events[i]; e.Session != d.Session || e.Seq != first+uint64(i) || e.Seq == 0 {
			return 0, fmt.Errorf("event %d of the delivery is seq %d of session %s, not seq %d of %s", i, e.Seq, e.Session, first+uint64(i), d.Session)
		}
	}
	return first, nil
}

// refused returns a fault of the delivery itself; the server was not called.
func refused(err error) error {
	return &session.SyncFault{Class: session.FaultRefused, SQLState: stateMalformed, Safe: true, Cause: err}
}
