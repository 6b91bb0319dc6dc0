package remote

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/acode-dev/acode/session"
)

// copySQL is one message of three statements, and so one transaction: nothing has to be waited
// for between them. The server keeps the rows for its trigger, in a file where they are more
// than work_mem. The deadline is a number of our own and the session a UUID that was parsed.
const copySQL = `SELECT set_config('statement_timeout', '%s', true), set_config('work_mem', '16MB', true);
COPY acode.events (session_id, seq, id, time_us, epoch, type, actor, device, prev, hash, payload) FROM STDIN (FORMAT binary);
` + markSQL

// markSQL asks for the mark, within the transaction that moved it.
const markSQL = `SELECT seq, encode(head, 'hex'), epoch, verified, verdict, inserted, duplicate, server_us, retry_after_ms
FROM acode.ingest('%s', '', 1, decode(repeat('00', 32), 'hex'), '{}', '{}', '{}', '{}', '{}', '{}', '{}')`

// copyColumns is how many columns copySQL names.
const copyColumns = 11

// Copy hands d to the server by COPY, in one round trip whatever its length. The server takes
// it when it begins right above the mark and is of the same chain; any refusal is a fault that
// took nothing, and Deliver then says why.
func (s *Server) Copy(ctx context.Context, d session.Delivery) (session.Mark, error) {
	if len(d.Events) == 0 {
		return s.Deliver(ctx, d)
	}
	id, err := session.ParseUUID(string(d.Session))
	if err != nil {
		return session.Mark{}, refused(err)
	}
	if _, err := contiguous(d); err != nil {
		return session.Mark{}, refused(err)
	}
	ctx, cancel, limit := s.budget(ctx)
	defer cancel()
	var r *row
	err = s.with(ctx, func(c *pgconn.PgConn) error {
		sql := fmt.Sprintf(copySQL, milliseconds(limit), d.Session)
		r, err = copyIn(ctx, c, sql, id, d)
		return err
	})
	if err != nil {
		s.makeMonths(ctx, err)
		return session.Mark{}, s.fault(err)
	}
	m := mark(d.Session, r)
	m.Inserted = len(d.Events)
	return m, s.fault(r.err)
}

// copyHeader begins COPY's binary format: its name, flags, and the length of an extension.
const copyHeader = "PGCOPY\n\xff\r\n\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00"

// appendRow appends event i of d in COPY's binary format.
func appendRow(b []byte, id [16]byte, d session.Delivery, i int) []byte {
	e := &d.Events[i]
	b = binary.BigEndian.AppendUint16(b, copyColumns)
	b = appendField(b, id[:])
	b = appendNumber(b, e.Seq)
	b = appendField(b, e.ID[:])
	b = appendNumber(b, uint64(e.TimeUS))
	b = appendNumber(b, e.Epoch)
	b = appendField(b, e.Type)
	b = appendField(b, e.Actor)
	b = appendField(b, d.Device)
	if i == 0 {
		b = appendField(b, d.Prev[:])
	} else {
		b = append(b, 0xff, 0xff, 0xff, 0xff) // null: the hash of the row before
	}
	b = appendField(b, e.Hash[:])
	return appendField(b, e.Payload)
}

func appendField[T ~string | ~[]byte](b []byte, v T) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(v)))
	return append(b, v...)
}

func appendNumber(b []byte, n uint64) []byte {
	b = binary.BigEndian.AppendUint32(b, 8)
	return binary.BigEndian.AppendUint64(b, n)
}

// copyChunk is about how much one message of a COPY carries: the server works on it while the
// next one is made.
const copyChunk = 64 << 10

// copyIn sends sql, whose second statement is a COPY, and the rows of d without waiting in between,
// and gives the row that the third statement answers. Where the server refuses the statements
// before the COPY, it passes over the data that follows, as its protocol says.
func copyIn(ctx context.Context, c *pgconn.PgConn, sql string, id [16]byte, d session.Delivery) (*row, error) {
	// The connection's own guard of ctx stands only while it receives.
	stop := context.AfterFunc(ctx, func() { _ = c.Conn().SetDeadline(time.Unix(1, 0)) })
	defer func() {
		if !stop() {
			_ = broken(ctx, c, nil) // its deadline has passed and would meet the next user
		}
	}()
	f := c.Frontend()
	f.SendQuery(&pgproto3.Query{String: sql})
	b := append(make([]byte, 0, 2*copyChunk), copyHeader...)
	for i := range d.Events {
		if b = appendRow(b, id, d, i); len(b) < copyChunk {
			continue
		}
		f.Send(&pgproto3.CopyData{Data: b})
		if err := f.Flush(); err != nil {
			return nil, broken(ctx, c, err)
		}
		b = b[:0]
	}
	f.Send(&pgproto3.CopyData{Data: append(b, 0xff, 0xff)}) // the end
	f.Send(&pgproto3.CopyDone{})
	if err := f.Flush(); err != nil {
		return nil, broken(ctx, c, err)
	}
	return readRow(ctx, c)
}

// readRow reads to the end of an answer and gives its last row, or its error.
func readRow(ctx context.Context, c *pgconn.PgConn) (*row, error) {
	var last *row
	var failed error
	for {
		m, err := c.ReceiveMessage(ctx)
		if err != nil {
			return nil, broken(ctx, c, err)
		}
		switch m := m.(type) {
		case *pgproto3.DataRow:
			last = &row{}
			for _, v := range m.Values {
				last.values = append(last.values, append([]byte(nil), v...))
			}
		case *pgproto3.ErrorResponse:
			failed = pgconn.ErrorResponseToPgError(m)
		case *pgproto3.ReadyForQuery:
			if failed == nil && last == nil {
				failed = errAnswer
			}
			return last, failed
		}
	}
}

// broken ends a connection that stopped in the middle of something, and gives the error that
// says it best.
func broken(ctx context.Context, c *pgconn.PgConn, err error) error {
	gone, cancel := context.WithCancel(context.Background())
	cancel() // no farewell to whom nothing can be said
	_ = c.Close(gone)
	if cause := context.Cause(ctx); cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return &cut{err}
}

// cut is the error of a connection that broke while something was on its way, whatever the
// last call on it says about itself.
type cut struct{ error }

// SafeToRetry says that it may have happened.
func (*cut) SafeToRetry() bool { return false }

func (e *cut) Unwrap() error { return e.error }
