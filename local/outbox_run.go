package local

import (
	"context"

	"github.com/acode-dev/acode/session"
)

// deliveryQuery gives payloads as bytes, which a text would be copied to.
const deliveryQuery = `SELECT pos, id, time_us, type, coalesce(actor, 'acode'), epoch, CAST(payload AS BLOB), hash
	FROM events WHERE pos > ? AND pos <= ? ORDER BY pos LIMIT ?`

// run is a run of events of one session that is being read.
type run struct {
	d        session.Delivery
	after    uint64
	prev     session.Hash // of the event before the next
	size     int          // of the payloads so far
	maxBytes int
}

// read adds what the rows that deliveryQuery gives hold.
func (r *run) read(ctx context.Context, c *link, args ...any) error {
	rows, err := keeper{c}.QueryContext(ctx, deliveryQuery, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		e, err := scanEvent(rows, r.d.Session)
		if err != nil {
			return err
		}
		if more, err := r.take(e); err != nil || !more {
			return err
		}
	}
	return rows.Err()
}

// take adds e; more is false when there is no room for it.
func (r *run) take(e session.Event) (more bool, err error) {
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
