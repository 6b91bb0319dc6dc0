package local

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/acode-dev/acode/session"
)

// workQuery adds up the work of a store from its rows and from the notes of processes. It
// counts failures with an index and reads no event.
const workQuery = `SELECT 'steps', '', 'completed', coalesce(sum(done), 0) FROM sessions
	UNION ALL SELECT 'locks', '', 'acquired', coalesce(sum(epoch), 0) FROM sessions
	UNION ALL SELECT 'steps', '', 'failed', count(*) FROM events WHERE type = 'StepFailed'
	UNION ALL SELECT 'steps', '', 'unknown', count(*) FROM events WHERE type = 'StepUnknown'
	UNION ALL SELECT kind, mode, outcome, n FROM work`

const (
	addWork  = `INSERT INTO work (kind, mode, outcome, n) VALUES (?, ?, ?, ?) ON CONFLICT (kind, mode, outcome) DO UPDATE SET n = n + excluded.n`
	addPhase = `INSERT INTO phases (phase, le_us, n, sum_us) VALUES (?, ?, ?, ?) ON CONFLICT (phase, le_us) DO UPDATE SET n = n + excluded.n, sum_us = sum_us + excluded.sum_us`
)

// Work returns the work that was done in the store. A forked session counts with all its
// steps.
func (s *Store) Work(ctx context.Context) (out session.Work, err error) {
	err = s.read(ctx, func(q querier) error {
		out = session.Work{}
		return errors.Join(readWork(ctx, q, &out), readPhases(ctx, q, &out))
	})
	return out, err
}

func readWork(ctx context.Context, q querier, w *session.Work) error {
	return readRows(ctx, q, "read work", "", workQuery, nil, func(r row) error {
		var k session.WorkKey
		var n uint64
		if err := r.Scan(&k.Kind, &k.Mode, &k.Outcome, &n); err != nil {
			return err
		}
		w.Add(k, n)
		return nil
	})
}

func readPhases(ctx context.Context, q querier, w *session.Work) error {
	return readRows(ctx, q, "read phases", "", `SELECT phase, le_us, n, sum_us FROM phases`, nil, func(r row) error {
		var p session.ResumePhase
		var le, sum int64
		var b session.PhaseBucket
		if err := r.Scan(&p, &le, &b.Count, &sum); err != nil {
			return err
		}
		b.Sum = time.Duration(sum) * time.Microsecond
		w.AddPhase(p, session.BucketOf(time.Duration(min(le, math.MaxInt64/1000))*time.Microsecond), b)
		return nil
	})
}

// workWait limits how long figures wait for writers.
const workWait = 100 * time.Millisecond

// NoteWork adds figures that no row holds. It does nothing if another process keeps the
// store busy, or if the store's files must not be touched. It is not durable.
func (s *Store) NoteWork(ctx context.Context, w session.Work) error {
	s.mu.Lock()
	usable := s.wr != nil && s.wr.dead == nil && s.wr.refused == nil
	s.mu.Unlock()
	if !usable {
		return nil
	}
	o, err := s.openOutbox(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, workWait)
	defer cancel()
	return errors.Join(o.tx(ctx, "note work", func(ctx context.Context) error { return o.note(ctx, w) }), o.Close())
}

func (o *Outbox) note(ctx context.Context, w session.Work) error {
	for k, n := range w.Counts {
		if err := o.conn.exec(ctx, addWork, k.Kind, k.Mode, k.Outcome, int64(n)); err != nil {
			return err
		}
	}
	for phase, times := range w.Phases {
		for bucket, b := range times {
			if err := o.conn.exec(ctx, addPhase, string(phase), boundUS(bucket), int64(b.Count), b.Sum.Microseconds()); err != nil {
				return err
			}
		}
	}
	return nil
}

// boundUS returns the upper bound of a bucket. The last bucket has none, so its bound is
// math.MaxInt64.
func boundUS(bucket int) int64 {
	if bucket < len(session.PhaseBounds) {
		return session.PhaseBounds[bucket].Microseconds()
	}
	return math.MaxInt64
}
