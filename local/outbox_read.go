package local

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/acode-dev/acode/session"
)

// deliveredRows is how many sessions without undelivered events may stay in the outbox.
// Outbox.removeDelivered removes them together, because the next step of a running
// session would only insert it again.
const deliveredRows = 32

// Changed lists the lanes with events above Acked, in all states, in the order of session
// numbers. Its cost grows with the changed sessions, not with all sessions.
func (o *Outbox) Changed(ctx context.Context) (pending []session.Lane, err error) {
	all, err := look(ctx, o, lanesOf(changedQuery))
	if err != nil {
		return nil, err
	}
	for _, l := range all {
		if l.Pending() > 0 {
			pending = append(pending, l)
		}
	}
	if len(all)-len(pending) > deliveredRows {
		err = o.removeDelivered(ctx)
	}
	return pending, err
}

// removeDelivered removes sessions from the outbox that have nothing more to deliver. It
// checks that inside its transaction. Its commit is visible to every writer, so each
// writer inserts its session again with its next commit.
func (o *Outbox) removeDelivered(ctx context.Context) error {
	return o.tx(ctx, "clean outbox", func(ctx context.Context) error {
		return o.conn.exec(ctx, `DELETE FROM outbox
			WHERE (SELECT last_seq FROM sessions WHERE no = session_no) <= (SELECT acked FROM lanes WHERE lanes.session_no = outbox.session_no)`)
	})
}

// pendingUnlisted selects pending sessions that the outbox lacks. Sessions that continue
// as others have next_us at never and are not pending.
const pendingUnlisted = `SELECT s.no FROM sessions s LEFT JOIN lanes l ON l.session_no = s.no
	WHERE s.last_seq > coalesce(l.acked, 0) AND coalesce(l.next_us, 0) < 9223372036854775807 AND s.no NOT IN (SELECT session_no FROM outbox)`

// Lanes lists every lane, in the order of session numbers. It also adds pending sessions
// that are missing in the outbox because of damage.
func (o *Outbox) Lanes(ctx context.Context) (out []session.Lane, err error) {
	lacks := false
	err = o.read(ctx, func(q querier) error {
		if out, err = readLanes(ctx, q, lanesQuery); err == nil {
			err = q.queryRow(ctx, `SELECT EXISTS (`+pendingUnlisted+`)`, nil, &lacks)
		}
		return storeError("read lanes", err)
	})
	if err != nil || !lacks {
		return out, err
	}
	return out, o.tx(ctx, "repair outbox", func(ctx context.Context) error {
		return o.conn.exec(ctx, `INSERT OR IGNORE INTO outbox (session_no) `+pendingUnlisted)
	})
}

// Totals returns the number of sessions, and the number of events that each remote
// acknowledged.
func (o *Outbox) Totals(ctx context.Context) (sessions int, acked map[string]uint64, err error) {
	err = o.read(ctx, func(q querier) error {
		sessions, acked, err = readTotals(ctx, q)
		return err
	})
	return sessions, acked, err
}

func readTotals(ctx context.Context, q querier) (sessions int, acked map[string]uint64, err error) {
	// Sessions are numbered without gaps and never removed.
	if err := q.queryRow(ctx, `SELECT coalesce(max(no), 0) FROM sessions`, nil, &sessions); err != nil {
		return 0, nil, rowError("count sessions", "", err)
	}
	acked = map[string]uint64{}
	err = readRows(ctx, q, "read totals", "", `SELECT remote, sum(acked) FROM lanes WHERE acked > 0 GROUP BY remote`, nil, func(r row) error {
		var remote string
		var n uint64
		err := r.Scan(&remote, &n)
		acked[remote] = n
		return err
	})
	return sessions, acked, err
}

// Backlog counts all events that are not acknowledged: ready, backing off, in flight and
// parked.
func (o *Outbox) Backlog(ctx context.Context) (session.Backlog, error) {
	return look(ctx, o, readBacklog)
}

// News reports whether another connection committed since the last call. The first call
// returns true. It costs a fraction of Changed.
func (o *Outbox) News(ctx context.Context) (news bool, err error) {
	err = o.read(ctx, func(q querier) error {
		var v int64
		if err := q.queryRow(ctx, `PRAGMA data_version`, nil, &v); err != nil {
			return storeError("look for commits", err)
		}
		news, o.seen = v != o.seen, v
		return nil
	})
	return news, err
}

// Paused reports whether a person paused delivery.
func (o *Outbox) Paused(ctx context.Context) (bool, error) { return look(ctx, o, readPaused) }

// HashAt returns the hash of the chain at seq, and the zero hash for seq 0. It returns
// ErrUnknownID for a missing session or event.
func (o *Outbox) HashAt(ctx context.Context, id session.ID, seq uint64) (session.Hash, error) {
	return look(ctx, o, func(ctx context.Context, q querier) (h session.Hash, err error) {
		no, err := sessionNumber(ctx, q, id)
		if err == nil {
			h, err = hashOf(ctx, q, no, id, seq)
		}
		return h, err
	})
}

func sessionNumber(ctx context.Context, q querier, id session.ID) (no int64, err error) {
	err = q.queryRow(ctx, `SELECT no FROM sessions WHERE id = ?`, []any{string(id)}, &no)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, unknown(string(id))
	}
	return no, rowError("read session", id, err)
}

func hashOf(ctx context.Context, q querier, no int64, id session.ID, seq uint64) (session.Hash, error) {
	if seq == 0 {
		return session.Hash{}, nil
	}
	var h session.Hash
	err := sql.ErrNoRows
	if seq <= seqMask {
		err = q.queryRow(ctx, `SELECT hash FROM events WHERE pos = ?`, []any{position(no, seq)}, &h)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return session.Hash{}, &session.Error{Code: session.ErrUnknownID, Message: fmt.Sprintf("the session %s has no event %d", id, seq), Next: session.Do(session.MoveHistory, string(id))}
	}
	return h, rowError("read event", id, err)
}

// Delivery reads at most limit events above after, with at most maxBytes of payload. It
// returns at least one event if there is one and limit allows it. Payloads are as stored:
// a reference to a blob stays a reference.
//
// Delivery returns ErrCorrupt and no events if the events do not match the chain, because
// the server would keep them forever. It leaves no cursor open.
func (o *Outbox) Delivery(ctx context.Context, id session.ID, after uint64, limit, maxBytes int) (session.Delivery, error) {
	d := session.Delivery{Session: id, Device: o.Device()}
	err := o.read(ctx, func(q querier) error {
		no, err := sessionNumber(ctx, q, id)
		if err != nil {
			return err
		}
		if d.Prev, err = hashOf(ctx, q, no, id, after); err != nil || limit <= 0 {
			return err
		}
		chain, size := chain{id, after, d.Prev}, 0
		span := []any{position(no, after), position(no, seqMask)}
		return readRows(ctx, q, "read events", id, eventsQuery, span, func(r row) error {
			e, err := scanEvent(r, id)
			if size += len(e.Payload); err == nil && size > maxBytes && len(d.Events) > 0 {
				return errEnough
			}
			if err == nil {
				err = chain.next(e)
			}
			if d.Events = append(d.Events, e); err == nil && len(d.Events) == limit {
				err = errEnough
			}
			return err
		})
	})
	if err != nil {
		d.Events = nil
	}
	return d, err
}
