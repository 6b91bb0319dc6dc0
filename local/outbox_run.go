package local

import (
	"context"
	"slices"

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
	limit    int          // of events
	maxBytes int
}

// sampleEvents is how many events show how long the others are.
const sampleEvents = 64

// read adds the events between two positions, the first one excluded.
func (r *run) read(ctx context.Context, c *link, from, to int64) error {
	return c.each(ctx, deliveryQuery, []any{from, to, r.limit}, r.take)
}

// take adds the event of a row; errEnough says that there is no room for it.
func (r *run) take(row row) error {
	n := len(r.d.Events)
	if n == sampleEvents { // room for the rest at once: what a slice grows out of is garbage
		r.d.Events = slices.Grow(r.d.Events, min(r.limit, n*r.maxBytes/max(r.size, 1)))
	}
	r.d.Events = append(r.d.Events, session.Event{Session: r.d.Session})
	e := &r.d.Events[n]
	if err := fillEvent(row, e); err != nil {
		return err
	}
	if r.size += len(e.Payload); r.size > r.maxBytes && n > 0 {
		r.d.Events = r.d.Events[:n]
		return errEnough
	}
	want := r.after + 1 + uint64(n)
	if e.Seq != want || e.Hash != e.ChainHash(r.prev) {
		return corrupt(session.ErrCorrupt, r.d.Session, want-1, "event %d is missing or not what was chained, and is not delivered", want)
	}
	r.prev = e.Hash
	return nil
}
