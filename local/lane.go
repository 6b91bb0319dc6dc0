package local

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/acode-dev/acode/session"
)

// Queries of lanes: those that may have changed, those that are pending or need a person,
// all of them, and one. The outbox names few of many sessions, so it comes first in the
// join.
const (
	laneColumns = `s.id, s.last_seq, coalesce(l.acked, 0), coalesce(l.verified, 0), coalesce(l.epoch, 0), coalesce(l.state, ''),
		coalesce(l.reason, ''), coalesce(l.attempts, 0), coalesce(l.next_us, 0), coalesce(l.parked, 0), coalesce(l.remote, '')`

	changedQuery = `SELECT ` + laneColumns + ` FROM outbox o CROSS JOIN sessions s ON s.no = o.session_no
		LEFT JOIN lanes l ON l.session_no = o.session_no ORDER BY o.session_no`
	watchedQuery = `SELECT ` + laneColumns + ` FROM (SELECT session_no AS no FROM outbox UNION SELECT session_no FROM lanes WHERE state IN ('parked', 'fenced', 'forked')) w
		CROSS JOIN sessions s ON s.no = w.no LEFT JOIN lanes l ON l.session_no = w.no ORDER BY w.no`
	lanesQuery = `SELECT ` + laneColumns + ` FROM sessions s LEFT JOIN lanes l ON l.session_no = s.no ORDER BY s.no`
	laneQuery  = `SELECT ` + laneColumns + ` FROM sessions s LEFT JOIN lanes l ON l.session_no = s.no WHERE s.id = ?`

	// backlogQuery counts the events above acked in every state of a lane. Events that
	// wait for their next attempt and events in flight are not delivered yet.
	backlogQuery = `SELECT count(*), coalesce(sum(s.last_seq - coalesce(l.acked, 0)), 0),
		coalesce(min((SELECT time_us FROM events WHERE pos = (s.no << 40) + coalesce(l.acked, 0) + 1)), 0)
		FROM outbox o CROSS JOIN sessions s ON s.no = o.session_no LEFT JOIN lanes l ON l.session_no = o.session_no
		WHERE s.last_seq > coalesce(l.acked, 0)`
)

func readLanes(ctx context.Context, q querier, query string, args ...any) (out []session.Lane, err error) {
	err = readRows(ctx, q, "read lanes", "", query, args, func(r row) error {
		var l session.Lane
		err := r.Scan(&l.Session, &l.LastSeq, &l.Acked, &l.Verified, &l.Epoch, &l.State, &l.Reason, &l.Attempts, &l.NextUS, &l.Parked, &l.Remote)
		out = append(out, l)
		return err
	})
	return out, err
}

// lanesOf returns readLanes as a function for look.
func lanesOf(query string) func(context.Context, querier) ([]session.Lane, error) {
	return func(ctx context.Context, q querier) ([]session.Lane, error) { return readLanes(ctx, q, query) }
}

func readBacklog(ctx context.Context, q querier) (b session.Backlog, err error) {
	err = q.queryRow(ctx, backlogQuery, nil, &b.Sessions, &b.Events, &b.OldestUS)
	return b, rowError("count pending", "", err)
}

// Sync returns the state of delivery without writing. h is the newest heartbeat; if no
// process ever delivered, only its Paused is set. lanes are the lanes that have pending
// events or need a person, in the order of session numbers. b counts all pending events.
func (s *Store) Sync(ctx context.Context) (h session.Heartbeat, lanes []session.Lane, b session.Backlog, err error) {
	err = s.read(ctx, func(q querier) error {
		if h, err = readHeartbeat(ctx, q); err != nil {
			return err
		}
		all, err := readLanes(ctx, q, watchedQuery)
		if err != nil {
			return err
		}
		for _, l := range all {
			troubled := slices.Contains([]session.SyncState{session.SyncParked, session.SyncFenced, session.SyncForked}, l.State)
			if !l.WentOn() && (l.Pending() > 0 || troubled) {
				lanes = append(lanes, l)
			}
		}
		b, err = readBacklog(ctx, q)
		return err
	})
	return h, lanes, b, err
}

// Totals is like Outbox.Totals, but needs no Outbox.
func (s *Store) Totals(ctx context.Context) (sessions int, acked map[string]uint64, err error) {
	err = s.read(ctx, func(q querier) error {
		sessions, acked, err = readTotals(ctx, q)
		return err
	})
	return sessions, acked, err
}

// Lane returns how far one session is delivered. It returns ErrUnknownID if there is no
// such session.
func (s *Store) Lane(ctx context.Context, id session.ID) (l session.Lane, err error) {
	err = s.read(ctx, func(q querier) error {
		found, err := readLanes(ctx, q, laneQuery, string(id))
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return unknown(string(id))
		}
		l = found[0]
		return nil
	})
	return l, err
}

func readHeartbeat(ctx context.Context, q querier) (h session.Heartbeat, err error) {
	err = q.queryRow(ctx, `SELECT pid, started_us, beat_us, command, state, reason, since_us, last_us, attempt_us, next_us, remote, address FROM drainer`, nil,
		&h.PID, &h.StartedUS, &h.BeatUS, &h.Command, &h.State, &h.Reason, &h.SinceUS, &h.LastUS, &h.AttemptUS, &h.NextUS, &h.Remote, &h.Address)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return h, rowError("read heartbeat", "", err)
	}
	h.Paused, err = readPaused(ctx, q)
	return h, err
}

func readPaused(ctx context.Context, q querier) (paused bool, err error) {
	err = q.queryRow(ctx, `SELECT coalesce((SELECT paused FROM sync), 0)`, nil, &paused)
	return paused, rowError("read sync", "", err)
}

// PauseSync pauses the delivery of all processes, or continues it if paused is false. The
// change is durable when PauseSync returns.
func (s *Store) PauseSync(ctx context.Context, paused bool) error {
	return s.decide(ctx, "pause sync", func(ctx context.Context) error {
		return s.wr.exec(ctx, `INSERT INTO sync (one, paused, turn) VALUES (1, ?, 0) ON CONFLICT (one) DO UPDATE SET paused = excluded.paused`, paused)
	})
}

// BindRemote makes r the database to which sessions are delivered. Acknowledgements of
// another database do not count for it, so the lanes of others start from the beginning.
func (s *Store) BindRemote(ctx context.Context, r session.RemoteIdentity) error {
	remote := r.String()
	return s.decide(ctx, "bind remote", func(ctx context.Context) error {
		err := s.wr.exec(ctx, `INSERT OR IGNORE INTO outbox (session_no) SELECT session_no FROM lanes WHERE remote NOT IN ('', ?)`, remote)
		if err != nil {
			return err
		}
		err = s.wr.exec(ctx, `UPDATE lanes SET acked = 0, verified = 0, epoch = 0, attempts = 0, next_us = 0, parked = 0, state = '', reason = '', remote = ''
			WHERE remote NOT IN ('', ?)`, remote)
		if err != nil {
			return err
		}
		return s.wr.exec(ctx, `UPDATE drainer SET state = ?, reason = '' WHERE state = ?`, string(session.SyncPending), string(session.SyncOtherDatabase))
	})
}

// decide commits the decision of a person.
func (s *Store) decide(ctx context.Context, doing string, f func(ctx context.Context) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wr == nil {
		return readOnly()
	}
	return storeError(doing, s.wr.tx(ctx, f))
}
