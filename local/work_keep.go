package local

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/acode-dev/acode/session"
)

const (
	addWork     = `INSERT INTO work (kind, mode, outcome, n) VALUES (?, ?, ?, ?) ON CONFLICT (kind, mode, outcome) DO UPDATE SET n = n + excluded.n`
	addPhase    = `INSERT INTO phases (phase, le_us, n, sum_us) VALUES (?, ?, ?, ?) ON CONFLICT (phase, le_us) DO UPDATE SET n = n + excluded.n, sum_us = sum_us + excluded.sum_us`
	saveCounted = `INSERT INTO counted (session_no, seq, state, resume) VALUES (?, ?, ?, ?)
		ON CONFLICT (session_no) DO UPDATE SET seq = excluded.seq, state = excluded.state, resume = excluded.resume`
	readCounted = `SELECT coalesce((SELECT seq FROM counted WHERE session_no = ?), 0)`
)

// CountWork keeps the count of what was done since somebody last did so, and so makes Work
// quick. It may be asked of a store that was opened for reading, and leaves one alone that an
// older program made. It needs no key, and is not durable: what is lost is counted again. An
// error means that there is more to count, which Work does.
func (s *Store) CountWork(ctx context.Context) error {
	o, err := s.openWork(ctx)
	if err != nil || o == nil {
		return err
	}
	return errors.Join(o.CountWork(ctx), o.Close())
}

// openWork opens a connection for what is not durable, or none where the store lacks the tables
// or must be left alone.
func (s *Store) openWork(ctx context.Context) (*Outbox, error) {
	s.mu.Lock()
	writes := s.wr != nil // so it was brought to this version
	alone := writes && (s.wr.dead != nil || s.wr.refused != nil)
	s.mu.Unlock()
	switch {
	case alone:
		return nil, nil
	case writes:
		return s.openOutbox(ctx)
	}
	var version int
	err := s.read(ctx, func(q querier) (err error) {
		version, err = schemaVersion(ctx, q)
		return err
	})
	if err != nil || version < versionOfWork {
		return nil, err
	}
	return s.openOutbox(ctx)
}

// errOvertaken says that another process counts too.
var errOvertaken = errors.New("another process counts too")

// CountWork is that of Store.
func (o *Outbox) CountWork(ctx context.Context) error {
	for no := int64(0); ; {
		var w session.Work
		var tails []tailOf
		err := o.use(ctx, func(ctx context.Context) (err error) {
			tails, err = o.st.count(ctx, o.conn, versionOfWork, no, &w)
			return err
		})
		if err != nil || len(tails) == 0 {
			return err
		}
		err = o.soon(ctx, "count work", func(ctx context.Context) error { return o.keepCount(ctx, tails, w) })
		if errors.Is(err, errOvertaken) {
			return nil
		}
		if err != nil {
			return err
		}
		last := tails[len(tails)-1]
		if no = last.no; !last.done() {
			no-- // once more
		}
	}
}

// workWait bounds how long figures wait for those who write.
const workWait = 100 * time.Millisecond

// soon is tx that gives up where somebody keeps the store busy.
func (o *Outbox) soon(ctx context.Context, doing string, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, workWait)
	defer cancel()
	return o.tx(ctx, doing, f)
}

// keepCount keeps what was counted, unless somebody else counted the same events.
func (o *Outbox) keepCount(ctx context.Context, tails []tailOf, w session.Work) error {
	for _, t := range tails {
		var seq uint64
		if err := o.queryRow(ctx, readCounted, []any{t.no}, &seq); err != nil {
			return rowError("read count", "", err)
		}
		if seq != t.from {
			return errOvertaken
		}
		if err := o.exec(ctx, saveCounted, t.no, int64(t.Seq), string(t.State), t.Resume); err != nil {
			return err
		}
	}
	return o.add(ctx, w)
}

// add adds w to what is kept.
func (o *Outbox) add(ctx context.Context, w session.Work) error {
	for k, n := range w.Counts {
		if err := o.exec(ctx, addWork, k.Kind, k.Mode, k.Outcome, int64(n)); err != nil {
			return err
		}
	}
	for phase, times := range w.Phases {
		for bucket, b := range times {
			if err := o.exec(ctx, addPhase, string(phase), boundUS(bucket), int64(b.Count), b.Sum.Microseconds()); err != nil {
				return err
			}
		}
	}
	return nil
}

// boundUS is the upper bound of a bucket; the last has none.
func boundUS(bucket int) int64 {
	if bucket < len(session.PhaseBounds) {
		return session.PhaseBounds[bucket].Microseconds()
	}
	return math.MaxInt64
}

// NoteWork adds what no event tells, unless somebody keeps the store busy. It is not durable.
func (s *Store) NoteWork(ctx context.Context, w session.Work) error {
	o, err := s.openWork(ctx)
	if err != nil || o == nil {
		return err
	}
	return errors.Join(o.soon(ctx, "note work", func(ctx context.Context) error { return o.add(ctx, w) }), o.Close())
}

// Work brings the count up to date as far as it can, and gives what was done in the store.
func (o *Outbox) Work(ctx context.Context) (session.Work, error) {
	_ = o.CountWork(ctx) // what it did not come to is counted below
	return o.st.Work(ctx)
}
