package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/acode-dev/acode/session"
)

// Outbox is the view of the store for delivery. It has its own connection: it does not
// wait for a commit that is being synced, and no commit waits for its reads. It is safe
// for concurrent use.
type Outbox struct {
	st *Store
	// guards the fields below
	mu sync.Mutex
	// nil when closed
	conn *writeConn
	// data_version at the last call of News
	seen int64
	// number of commits
	wrote    int
	observer Observer
}

const (
	// outboxWait is how long a statement of an Outbox waits for another process, in
	// milliseconds. It is short because a writer of this process may wait for the Outbox.
	outboxWait = 200

	// outboxFrames is how many pages of the log may wait before an Outbox copies them
	// back. It is more than for a writer, so that an Outbox does this only when no one
	// else commits. An idle syncer writes a heartbeat every few seconds for months.
	outboxFrames = 2 * growFrames

	// looksAtLog is the number of commits after which an Outbox checks the log.
	looksAtLog = 64
)

// Outbox opens the store's outbox. The caller closes it before the store. It returns
// ErrReadOnly for a store that was opened for reading.
//
// Its commits are not synced, because the server repeats a lost acknowledgement. SQLite
// still syncs the log once after each restart of the log, before it writes pages after
// the new header (synchronous=NORMAL). Therefore pages that a power cut leaves after an
// old header are older than the database.
func (s *Store) Outbox(ctx context.Context) (*Outbox, error) {
	if err := s.syncLog(ctx); err != nil {
		return nil, err
	}
	return s.openOutbox(ctx)
}

func (s *Store) openOutbox(ctx context.Context) (*Outbox, error) {
	c, err := openConn(s.opts.Home, "synchronous(NORMAL)", "secure_delete(1)", "wal_autocheckpoint(0)")
	if err != nil {
		return nil, err
	}
	c.drains, c.restarted = true, true
	if err := c.patience(ctx, outboxWait); err != nil {
		_ = c.close() // the first error is the cause
		return nil, err
	}
	return &Outbox{st: s, conn: c, seen: -1}, nil
}

// syncLog makes the journal durable before any of it is delivered.
func (s *Store) syncLog(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wr == nil {
		return readOnly()
	}
	return s.wr.restartOnce(ctx)
}

// Device returns the random id of the store.
func (o *Outbox) Device() string { return o.st.Device() }

// Close closes the connection. The Outbox must not be used afterwards.
func (o *Outbox) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.conn == nil {
		return nil
	}
	err := o.conn.close()
	o.conn = nil
	return storeError("close outbox", err)
}

// read runs f alone on the connection. It returns an error for a database that was
// removed or replaced, because SQLite would report forever that nothing changes.
func (o *Outbox) read(ctx context.Context, f func(q querier) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if o.conn == nil {
		return &session.Error{Code: session.ErrInternal, Message: "the outbox is closed"}
	}
	if err := o.conn.inPlace(); err != nil {
		return err
	}
	return f(o.conn.handle)
}

// Replaced returns the file that has the database's name now, if that is another file. It
// returns nil if the database is in place or no file has its name.
func (o *Outbox) Replaced() fs.FileInfo {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.conn == nil {
		return nil
	}
	database := &o.conn.place[0]
	if same, err := database.same(); same || err != nil {
		return nil
	}
	info, _ := os.Lstat(database.path) // nil if it was removed meanwhile
	return info
}

// tx runs f in one transaction. f must be quick.
func (o *Outbox) tx(ctx context.Context, doing string, f func(ctx context.Context) error) error {
	return o.read(ctx, func(querier) error {
		o.conn.busy = 0
		start := o.st.opts.Now()
		err := storeError(doing, o.conn.tx(ctx, f))
		if o.observer.Commit != nil {
			o.observer.Commit(o.since(start), o.conn.busy, err)
		}
		if err == nil {
			o.copyBack(context.WithoutCancel(ctx))
		}
		return err
	})
}

// copyBack copies the log into the database if no other process does. It is not part of a
// commit, because a step may wait for the end of a commit. It costs syncs, so it is rare.
// If it fails, all commits are as safe as before.
func (o *Outbox) copyBack(ctx context.Context) {
	o.wrote++
	if o.wrote%looksAtLog != 0 {
		return
	}
	var busy, log, copied int
	err := o.conn.queryRow(ctx, `PRAGMA wal_checkpoint(NOOP)`, nil, &busy, &log, &copied)
	if err != nil || log-copied < outboxFrames {
		return
	}
	start := o.st.opts.Now()
	err = o.conn.queryRow(ctx, `PRAGMA wal_checkpoint(PASSIVE)`, nil, &busy, &log, &copied)
	if o.observer.Checkpoint != nil {
		o.observer.Checkpoint(o.since(start), err)
	}
}

// since returns the time since start. It is never negative, even if the clock was set
// back.
func (o *Outbox) since(start time.Time) time.Duration {
	return max(0, o.st.opts.Now().Sub(start))
}

const upsertLane = `INSERT INTO lanes (session_no, acked, verified, epoch, state, reason, attempts, next_us, parked, remote) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
	ON CONFLICT (session_no) DO UPDATE SET acked = excluded.acked, verified = excluded.verified, epoch = excluded.epoch, state = excluded.state,
		reason = excluded.reason, attempts = excluded.attempts, next_us = excluded.next_us, parked = excluded.parked, remote = excluded.remote
	WHERE (acked, verified, epoch, state, reason, attempts, next_us, parked, remote) IS NOT
		(excluded.acked, excluded.verified, excluded.epoch, excluded.state, excluded.reason, excluded.attempts, excluded.next_us, excluded.parked, excluded.remote)
		AND next_us < 9223372036854775807`

// SaveLane saves l without its LastSeq. If Acked decreased, Changed lists the lane again.
// A lane that CloseLane closed stays as it is. A power cut may lose the change.
func (o *Outbox) SaveLane(ctx context.Context, l session.Lane) error {
	return o.tx(ctx, "save lane", func(ctx context.Context) error {
		no, err := sessionNumber(ctx, o.conn, l.Session)
		if err != nil {
			return err
		}
		err = o.conn.exec(ctx, upsertLane, no, int64(l.Acked), int64(l.Verified), int64(l.Epoch), string(l.State), l.Reason, l.Attempts, l.NextUS, int64(l.Parked), l.Remote)
		if err != nil {
			return err
		}
		return o.conn.exec(ctx, `INSERT OR IGNORE INTO outbox (session_no) SELECT no FROM sessions WHERE no = ? AND last_seq > ?
			AND NOT EXISTS (SELECT 1 FROM lanes WHERE session_no = no AND next_us = ?)`, no, int64(l.Acked), int64(session.NeverUS))
	})
}

// Beat saves h for other processes to read, without its Paused, which only people change.
func (o *Outbox) Beat(ctx context.Context, h session.Heartbeat) error {
	return o.tx(ctx, "save heartbeat", func(ctx context.Context) error {
		return o.conn.exec(ctx, `INSERT INTO drainer (one, pid, started_us, beat_us, command, state, reason, since_us, last_us, attempt_us, next_us, remote, address)
			VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (one) DO UPDATE SET pid = excluded.pid, started_us = excluded.started_us, beat_us = excluded.beat_us, command = excluded.command,
				state = excluded.state, reason = excluded.reason, since_us = excluded.since_us, last_us = excluded.last_us,
				attempt_us = excluded.attempt_us, next_us = excluded.next_us, remote = excluded.remote, address = excluded.address`,
			h.PID, h.StartedUS, h.BeatUS, h.Command, string(h.State), h.Reason, h.SinceUS, h.LastUS, h.AttemptUS, h.NextUS, h.Remote, h.Address)
	})
}

// Sizes returns the bytes of the database and of its log, 0 for a missing file. It does
// not open the files, because closing them would release SQLite's locks.
func (s *Store) Sizes() (database, log int64, err error) {
	for suffix, size := range map[string]*int64{"": &database, "-wal": &log} {
		info, err := os.Stat(filepath.Join(s.opts.Home, databaseName) + suffix)
		if err == nil {
			*size = info.Size()
		} else if !errors.Is(err, fs.ErrNotExist) {
			return 0, 0, storeError("look at the store's files", err)
		}
	}
	return database, log, nil
}

// Observer has functions that an Outbox calls. A nil function is not called. A call must
// be quick, because a step may wait for its end.
type Observer struct {
	// Commit receives each attempt to commit: the time it took, including the wait for
	// the lock, and how often another writer had the lock.
	Commit func(took time.Duration, busy int, err error)

	// Checkpoint receives each copy of the log into the database.
	Checkpoint func(took time.Duration, err error)
}

// Observe makes the Outbox call the functions of b from now on.
func (o *Outbox) Observe(b Observer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.observer = b
}
