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

// Outbox is what a drainer reads and writes. It has a connection of its own, so that it
// waits for no commit that is being synced and no commit waits for what it reads. It is
// safe for concurrent use.
type Outbox struct {
	st *Store
	// guards everything below
	mu sync.Mutex
	// nil: closed
	conn *writeConn
	// data_version when News was asked last
	seen int64
	// commits
	wrote    int
	observer Observer
}

const (
	// outboxWait is how long a statement of a drainer waits for another process, in
	// milliseconds. It is short because a writer of this process may wait for it too.
	outboxWait = 200

	// outboxFrames is how much of the log may wait before a drainer copies it back: more
	// than a writer lets wait, so that it happens only where nobody else commits. An idle
	// syncer writes a heartbeat every few seconds for months.
	outboxFrames = 2 * growFrames

	// looksAtLog is after how many commits a drainer looks how much waits.
	looksAtLog = 64
)

// Outbox opens the store's outbox; the caller closes it before the store. It returns
// ErrReadOnly for a store that was opened for reading.
//
// Its commits are not synced: an acknowledgement that is lost is given again. The log is,
// once after each restart of it, before anything follows its new header
// (synchronous=NORMAL and not OFF): what a power cut leaves behind an old header is older
// than the database.
func (s *Store) Outbox(ctx context.Context) (*Outbox, error) {
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	return s.openOutbox(ctx)
}

func (s *Store) openOutbox(ctx context.Context) (*Outbox, error) {
	c, err := openConn(s.opts.Home, "synchronous(NORMAL)", "secure_delete(1)", "wal_autocheckpoint(0)")
	if err != nil {
		return nil, err
	}
	c.drains, c.settled = true, true
	if err := c.patience(ctx, outboxWait); err != nil {
		_ = c.close() // the first error says more
		return nil, err
	}
	return &Outbox{st: s, conn: c, seen: -1}, nil
}

// settle makes sure that what is delivered is durable here first.
func (s *Store) settle(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wr == nil {
		return readOnly()
	}
	return s.wr.settle(ctx)
}

// Device gives the random id of the store.
func (o *Outbox) Device() string { return o.st.Device() }

// Close closes the connection; nothing may be asked afterwards.
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

// read runs f alone. It refuses to go on with a database that lost its name: SQLite would
// report for ever that nothing changes.
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
	return f(o.conn.link)
}

// Replaced gives the file that has the database's name since it was opened; nil where
// that is the database, or there is none.
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
	info, _ := os.Lstat(database.path) // nil: it is gone by now
	return info
}

// tx runs f in one transaction, which is kept short.
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

// copyBack copies the log into the database where nobody else does, and not in a commit,
// for whose end a step may wait. It costs syncs, so it must be seldom. What was committed
// is as good as before when it fails.
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

// since is never negative: the clock may have been set back.
func (o *Outbox) since(start time.Time) time.Duration {
	return max(0, o.st.opts.Now().Sub(start))
}

const upsertLane = `INSERT INTO lanes (session_no, acked, verified, epoch, state, reason, attempts, next_us, parked, remote) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
	ON CONFLICT (session_no) DO UPDATE SET acked = excluded.acked, verified = excluded.verified, epoch = excluded.epoch, state = excluded.state,
		reason = excluded.reason, attempts = excluded.attempts, next_us = excluded.next_us, parked = excluded.parked, remote = excluded.remote
	WHERE (acked, verified, epoch, state, reason, attempts, next_us, parked, remote) IS NOT
		(excluded.acked, excluded.verified, excluded.epoch, excluded.state, excluded.reason, excluded.attempts, excluded.next_us, excluded.parked, excluded.remote)
		AND next_us < 9223372036854775807`

// SaveLane keeps l; its LastSeq is not looked at. A lane whose Acked went down is among
// Changed again. A lane that CloseLane settled stays as it is. A power cut may lose what
// it keeps.
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

// Beat keeps h, for those who only look. Its Paused is not looked at: that is for people
// to decide.
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

// Sizes gives the bytes of the database and of the log beside it, 0 for one that is not
// there. The files are asked for by name: to open and close them would take SQLite's
// locks away.
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

// Observer is told what an Outbox does to the database. What is nil is not called; a call
// must be quick, because a step may wait for its end.
type Observer struct {
	// Commit is told of each attempt to commit: how long it took, the wait for the lock
	// in it, and how often another writer had the lock.
	Commit func(took time.Duration, busy int, err error)

	// Checkpoint is told of each copying back of the log.
	Checkpoint func(took time.Duration, err error)
}

// Observe makes b learn what is done from now on.
func (o *Outbox) Observe(b Observer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.observer = b
}
