package remote

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/acode-dev/acode/migrations"
	"github.com/acode-dev/acode/session"
)

// Hello connects where there is no connection, and asks which database this is and how many
// events of the device it has. A server whose schema this program does not fit is a fault of
// class unmigrated or too_new.
func (s *Server) Hello(ctx context.Context, device string) (session.Hello, error) {
	c := newCall(`SELECT system, database, schema_version, oldest_client, server_us, events, read_only FROM acode.hello($1)`).text(device)
	rows, err := s.ask(ctx, c)
	if err != nil {
		return session.Hello{}, s.fault(err)
	}
	r, err := only(rows)
	if err != nil {
		return session.Hello{}, s.fault(err)
	}
	h := session.Hello{Remote: session.RemoteIdentity{System: r.text(), Database: r.text(), Schema: Schema}}
	h.Schema = int(r.int())
	oldest := int(r.int())
	h.ServerUS, h.Events, h.ReadOnly = r.int(), uint64(r.int()), r.bool()
	if r.err != nil {
		return session.Hello{}, s.fault(r.err)
	}
	return h, fits(h.Schema, oldest)
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

// Marks lists how far the device's sessions are, by id, at most limit above after. The zero ID
// begins.
func (s *Server) Marks(ctx context.Context, device string, after session.ID, limit int) ([]session.Mark, error) {
	var from [16]byte
	if after != "" {
		var err error
		if from, err = session.ParseUUID(string(after)); err != nil {
			return nil, refused(err)
		}
	}
	c := newCall(`SELECT session_id, seq, encode(head, 'hex'), epoch, verified FROM acode.marks($1, $2, $3)`)
	rows, err := s.ask(ctx, c.text(device).uuid(from).int4(limit))
	if err != nil {
		return nil, s.fault(err)
	}
	marks := make([]session.Mark, 0, len(rows))
	for i := range rows {
		r := &rows[i]
		marks = append(marks, session.Mark{Session: session.ID(r.text()), Seq: uint64(r.int()), Head: r.hash(),
			Epoch: uint64(r.int()), Verified: uint64(r.int()), Verdict: session.DeliveryTaken})
		if r.err != nil {
			return nil, s.fault(r.err)
		}
	}
	return marks, nil
}

// Deliver hands d to the server in one statement and one round trip. When it returns without
// error, what the mark says is durable there. Doing it again changes nothing (FR-054).
func (s *Server) Deliver(ctx context.Context, d session.Delivery) (session.Mark, error) {
	c, err := ingest(d)
	if err != nil {
		return session.Mark{}, refused(err)
	}
	rows, err := s.ask(ctx, c)
	if err != nil {
		s.makeMonths(ctx, err)
		return session.Mark{}, s.fault(err)
	}
	r, err := only(rows)
	if err != nil {
		return session.Mark{}, s.fault(err)
	}
	return mark(d.Session, r), s.fault(r.err)
}

// makeMonths has the server make its partitions where a delivery failed for want of one: they are
// made with deliveries, so after a year without any there is none. The next attempt finds them.
func (s *Server) makeMonths(ctx context.Context, err error) {
	var pe *pgconn.PgError
	if errors.As(err, &pe) && noPartition(pe) {
		_, _ = s.ask(ctx, newCall(`SELECT acode.maintain()`)) // the delivery's own error says what is wrong
	}
}

// mark reads what acode.ingest answers.
func mark(id session.ID, r *row) session.Mark {
	m := session.Mark{Session: id, Seq: uint64(r.int()), Head: r.hash(), Epoch: uint64(r.int()), Verified: uint64(r.int()),
		Verdict: session.Verdict(r.text()), Inserted: int(r.int()), Duplicate: int(r.int()), ServerUS: r.int()}
	return m
}

const ingestSQL = `SELECT seq, encode(head, 'hex'), epoch, verified, verdict, inserted, duplicate, server_us
FROM acode.ingest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`

// ingest makes the statement of a delivery.
func ingest(d session.Delivery) (*call, error) {
	id, err := session.ParseUUID(string(d.Session))
	if err != nil {
		return nil, err
	}
	first, err := contiguous(d)
	if err != nil {
		return nil, err
	}
	n, bytes := len(d.Events), 0
	for i := range d.Events {
		bytes += len(d.Events[i].Payload)
	}
	ids, times := newArray(oidUUIDArray, oidUUID, n, 16*n), newArray(oidInt8Array, oidInt8, n, 8*n)
	types, actors := newArray(oidTextArray, oidText, n, 16*n), newArray(oidTextArray, oidText, n, 8*n)
	epochs, hashes := newArray(oidInt8Array, oidInt8, n, 8*n), newArray(oidBytesArray, oidBytea, n, 32*n)
	payloads := newArray(oidBytesArray, oidBytea, n, bytes)
	for i := range d.Events {
		e := &d.Events[i]
		ids.bytes(e.ID[:])
		times.int8(e.TimeUS)
		types.text(string(e.Type))
		actors.text(e.Actor)
		epochs.int8(int64(e.Epoch))
		hashes.bytes(e.Hash[:])
		payloads.bytes(e.Payload)
	}
	c := newCall(ingestSQL).uuid(id).text(d.Device).int8(int64(first)).bytes(d.Prev[:])
	return c.array(ids).array(times).array(types).array(actors).array(epochs).array(hashes).array(payloads), nil
}

// contiguous gives the first seq of d, 1 where there is none, and refuses what is no run of one
// session's events: the statement carries one session and one seq for all.
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

// refused is a fault of what was to be sent; the server was not asked.
func refused(err error) error {
	return &session.SyncFault{Class: session.FaultRefused, SQLState: stateMalformed, Safe: true, Cause: err}
}

// ask runs calls in one round trip and one transaction, and gives the rows of the last. The
// settings hold for that transaction only, so nothing leaks through a pooler to others.
func (s *Server) ask(ctx context.Context, calls ...*call) ([]row, error) {
	ctx, cancel, limit := s.budget(ctx)
	defer cancel()
	b := &pgconn.Batch{}
	newCall(`SELECT set_config('statement_timeout', $1, true)`).text(milliseconds(limit)).batch(b)
	for _, c := range calls {
		c.batch(b)
	}
	var results []*pgconn.Result
	err := s.with(ctx, func(c *pgconn.PgConn) (err error) {
		results, err = c.ExecBatch(ctx, b).ReadAll()
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(results) != len(calls)+1 {
		return nil, fmt.Errorf("%w: %d results for %d statements", errAnswer, len(results), len(calls)+1)
	}
	last := results[len(results)-1]
	rows := make([]row, len(last.Rows))
	for i, values := range last.Rows {
		rows[i].values = values
	}
	return rows, last.Err
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// only gives the one row that a function of ours always answers with.
func only(rows []row) (*row, error) {
	if len(rows) != 1 {
		return nil, fmt.Errorf("%w: %d rows instead of one", errAnswer, len(rows))
	}
	return &rows[0], nil
}
