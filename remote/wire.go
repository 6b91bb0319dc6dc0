package remote

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/acode-dev/acode/session"
)

// call is one statement with its parameters. The Go types determine the PostgreSQL types,
// so that pgx need not ask the server for them.
type call struct {
	sql  string
	args []any
}

// queue adds c to b. The statement has no name, so that it does not stay with the
// connection. Its values are in binary form, which is half as long for bytes.
func (c call) queue(types *pgtype.Map, b *pgconn.Batch) error {
	n := len(c.args)
	values, oids, formats := make([][]byte, n), make([]uint32, n), make([]int16, n)
	for i, arg := range c.args {
		t, ok := types.TypeForValue(arg)
		if !ok {
			return fmt.Errorf("parameter %d has no type of PostgreSQL: %T", i+1, arg)
		}
		var err error
		// nil is NULL
		if values[i], err = types.Encode(t.OID, pgtype.BinaryFormatCode, arg, []byte{}); err != nil {
			return fmt.Errorf("encode parameter %d: %w", i+1, err)
		}
		oids[i], formats[i] = t.OID, pgtype.BinaryFormatCode
	}
	b.ExecParams(c.sql, values, oids, formats, []int16{pgtype.BinaryFormatCode})
	return nil
}

// ask runs calls in one round trip and one transaction. It reads each row of the last
// call into the variables and calls see. The rows are valid only if ask returns nil. The
// settings apply to that transaction only, so that they do not leak through a pooler.
func (s *Server) ask(ctx context.Context, into []any, see func() error, calls ...call) error {
	ctx, cancel, limit := s.budget(ctx)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	types, b := conn.Conn().TypeMap(), &pgconn.Batch{}
	deadline := call{`SELECT set_config('statement_timeout', $1, true)`, []any{strconv.FormatInt(limit.Milliseconds(), 10)}}
	for _, c := range slices.Concat([]call{deadline}, calls) {
		if err := c.queue(types, b); err != nil {
			return err
		}
	}
	results := conn.Conn().PgConn().ExecBatch(ctx, b)
	for n := 0; results.NextResult(); n++ {
		rows := pgx.RowsFromResultReader(types, results.ResultReader())
		if n == len(calls) && see != nil {
			_, err = pgx.ForEachRow(rows, into, see)
		}
		rows.Close()
	}
	if failed := results.Close(); failed != nil {
		return failed
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errAnswer, err)
	}
	return nil
}

// one calls a function that always answers with one row.
func (s *Server) one(ctx context.Context, c call, into ...any) error {
	rows := 0
	err := s.ask(ctx, into, func() error { rows++; return nil }, c)
	if err == nil && rows != 1 {
		err = fmt.Errorf("%w: %d rows instead of one", errAnswer, rows)
	}
	return s.fault(err)
}

// uuid returns an id as a parameter. The zero ID is the UUID of zeros.
func uuid(id session.ID) (u pgtype.UUID, err error) {
	u.Valid = true
	if id != "" {
		u.Bytes, err = session.ParseUUID(string(id))
	}
	return u, err
}

// hash reads a session.Hash.
type hash session.Hash

// ScanBytes implements pgtype.BytesScanner.
func (h *hash) ScanBytes(b []byte) error {
	if len(b) != len(h) {
		return fmt.Errorf("%d bytes are no hash", len(b))
	}
	copy(h[:], b)
	return nil
}
