package local

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"

	"github.com/acode-dev/acode/session"
)

// deliveryQuery gives payloads as bytes, which a text would be copied to.
const deliveryQuery = `SELECT pos, id, time_us, type, coalesce(actor, 'acode'), epoch, CAST(payload AS BLOB), hash
	FROM events WHERE pos > ? AND pos <= ? ORDER BY pos LIMIT ?`

// run reads a run of events from the driver itself: through database/sql each event costs
// twice as much, and a backlog has a million.
type run struct {
	d        session.Delivery
	after    uint64
	prev     session.Hash // of the event before the next
	size     int          // of the payloads so far
	maxBytes int
	row      [8]driver.Value
}

// read asks connection c, which nobody else uses meanwhile.
func (r *run) read(ctx context.Context, c any, args ...int64) error {
	p, ok := c.(driver.ConnPrepareContext)
	if !ok {
		return errors.New("the driver prepares no statements")
	}
	st, err := p.PrepareContext(ctx, deliveryQuery)
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }() // it only reads
	q, ok := st.(driver.StmtQueryContext)
	if !ok {
		return errors.New("the driver asks no statements")
	}
	named := make([]driver.NamedValue, len(args))
	for i, v := range args {
		named[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	rows, err := q.QueryContext(ctx, named)
	if err != nil {
		return err
	}
	return errors.Join(r.all(rows), rows.Close())
}

func (r *run) all(rows driver.Rows) error {
	for {
		err := rows.Next(r.row[:])
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		more, err := r.take()
		if err != nil || !more {
			return err
		}
	}
}

// take adds the event in r.row; more is false when there is no room for it.
func (r *run) take() (more bool, err error) {
	e, err := r.event()
	if err != nil {
		return false, err
	}
	if r.size += len(e.Payload); r.size > r.maxBytes && len(r.d.Events) > 0 {
		return false, nil
	}
	want := r.after + 1 + uint64(len(r.d.Events))
	if e.Seq != want || e.Hash != e.ChainHash(r.prev) {
		return false, corrupt(session.ErrCorrupt, r.d.Session, want-1, "event %d is missing or not what was chained, and is not delivered", want)
	}
	r.prev = e.Hash
	r.d.Events = append(r.d.Events, e)
	return true, nil
}

// event reads a row as the driver gives it: numbers, texts, and bytes that are a copy.
func (r *run) event() (session.Event, error) {
	pos, ok1 := r.row[0].(int64)
	id, ok2 := r.row[1].([]byte)
	us, ok3 := r.row[2].(int64)
	kind, ok4 := r.row[3].(string)
	actor, ok5 := r.row[4].(string)
	epoch, ok6 := r.row[5].(int64)
	payload, ok7 := r.row[6].([]byte)
	hash, ok8 := r.row[7].([]byte)
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6 && ok7 && ok8) {
		return session.Event{}, corrupt(session.ErrCorrupt, r.d.Session, r.after+uint64(len(r.d.Events)), "an event holds values of the wrong types, and is not delivered")
	}
	e := session.Event{
		Session: r.d.Session, Seq: uint64(pos) & seqMask, TimeUS: us, Type: session.EventType(kind), Actor: actor, Epoch: uint64(epoch), Payload: payload, Hash: hash32(hash),
	}
	copy(e.ID[:], id)
	return e, nil
}
