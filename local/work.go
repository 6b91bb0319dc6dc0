package local

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/acode-dev/acode/session"
)

// versionOfWork is the version of the schema that keeps what was counted.
const versionOfWork = 3

const (
	// uncountedQuery lists sessions with events that are not counted, from one number on.
	uncountedQuery = `SELECT s.no, s.last_seq, coalesce(c.seq, 0), coalesce(c.state, ''), coalesce(c.resume, '')
		FROM sessions s LEFT JOIN counted c ON c.session_no = s.no WHERE s.no > ? AND s.last_seq > coalesce(c.seq, 0) ORDER BY s.no LIMIT ?`

	// uncountedQuery2 is that of a store that keeps nothing of it yet.
	uncountedQuery2 = `SELECT no, last_seq, 0, '', '' FROM sessions WHERE no > ? ORDER BY no LIMIT ?`

	// tellingEvents reads the events that are counted, or that say how later ones are.
	tellingEvents = `SELECT pos, type, epoch, CASE type WHEN 'StateChanged' THEN payload ELSE '' END FROM events WHERE pos > ? AND pos <= ?
		AND type IN ('SessionCreated', 'StateChanged', 'ExecutionAcquired', 'StepCompleted', 'StepFailed', 'StepUnknown') ORDER BY pos`
)

const (
	countedEvents   = 4096 // are read at once
	countedSessions = 64   // are kept in one transaction, while a step may wait
)

// tailOf is what of one session is not counted yet.
type tailOf struct {
	no   int64
	last uint64
	from uint64 // where the store's count ends
	session.Counted
}

func (t tailOf) done() bool { return t.Seq >= t.last }

// Work gives what was done in the store, of every event that is in it now. It writes nothing:
// what nobody counted before is counted each time.
func (s *Store) Work(ctx context.Context) (out session.Work, err error) {
	err = s.read(ctx, func(q querier) error {
		version, err := schemaVersion(ctx, q)
		if err != nil {
			return err
		}
		out = session.Work{}
		if version >= versionOfWork {
			if err := errors.Join(readWork(ctx, q, &out), readPhases(ctx, q, &out)); err != nil {
				return err
			}
		}
		return s.countRest(ctx, q, version, &out)
	})
	return out, err
}

// countRest adds every event that is not counted yet.
func (s *Store) countRest(ctx context.Context, q querier, version int, w *session.Work) error {
	for no := int64(0); ; {
		tails, err := s.count(ctx, q, version, no, w)
		if err != nil || len(tails) == 0 {
			return err
		}
		last := &tails[len(tails)-1]
		for !last.done() {
			if err := s.countEvents(ctx, q, last, w); err != nil {
				return err
			}
		}
		no = last.no
	}
}

// readWork adds what is kept.
func readWork(ctx context.Context, q querier, w *session.Work) error {
	kept, err := q.QueryContext(ctx, `SELECT kind, mode, outcome, n FROM work`)
	if err != nil {
		return storeError("read work", err)
	}
	defer kept.Close()
	for kept.Next() {
		var k session.WorkKey
		var n uint64
		if err := kept.Scan(&k.Kind, &k.Mode, &k.Outcome, &n); err != nil {
			return rowError("read work", "", err)
		}
		w.Add(k, n)
	}
	return storeError("read work", kept.Err())
}

func readPhases(ctx context.Context, q querier, w *session.Work) error {
	phases, err := q.QueryContext(ctx, `SELECT phase, le_us, n, sum_us FROM phases`)
	if err != nil {
		return storeError("read phases", err)
	}
	defer phases.Close()
	for phases.Next() {
		var p session.ResumePhase
		var le, sum int64
		var b session.PhaseBucket
		if err := phases.Scan(&p, &le, &b.Count, &sum); err != nil {
			return rowError("read phases", "", err)
		}
		b.Sum = time.Duration(sum) * time.Microsecond
		w.AddPhase(p, session.BucketOf(time.Duration(min(le, math.MaxInt64/1000))*time.Microsecond), b)
	}
	return storeError("read phases", phases.Err())
}

// uncounted lists some sessions above number no with events that are not counted.
func uncounted(ctx context.Context, q querier, version int, no int64) ([]tailOf, error) {
	query := uncountedQuery
	if version < versionOfWork {
		query = uncountedQuery2
	}
	found, err := q.QueryContext(ctx, query, no, countedSessions)
	if err != nil {
		return nil, storeError("look for uncounted events", err)
	}
	defer found.Close()
	var tails []tailOf
	for found.Next() {
		var t tailOf
		if err := found.Scan(&t.no, &t.last, &t.Seq, &t.State, &t.Resume); err != nil {
			return nil, rowError("look for uncounted events", "", err)
		}
		t.from = t.Seq
		tails = append(tails, t)
	}
	return tails, storeError("look for uncounted events", found.Err())
}

// count adds the next events of some sessions above number no to w, about countedEvents in all,
// and gives how far it came; only of the last of them there may be more.
func (s *Store) count(ctx context.Context, q querier, version int, no int64, w *session.Work) ([]tailOf, error) {
	tails, err := uncounted(ctx, q, version, no)
	if err != nil {
		return nil, err
	}
	left := countedEvents
	for i := range tails {
		t := &tails[i]
		if err := s.countEvents(ctx, q, t, w); err != nil {
			return nil, err
		}
		if left -= int(t.Seq - t.from); left <= 0 {
			return tails[:i+1], nil
		}
	}
	return tails, nil
}

// countEvents adds the next countedEvents events of a session to w.
func (s *Store) countEvents(ctx context.Context, q querier, t *tailOf, w *session.Work) error {
	end := min(t.last, t.Seq+countedEvents)
	found, err := q.QueryContext(ctx, tellingEvents, position(t.no, t.Seq), position(t.no, end))
	if err != nil {
		return storeError("count events", err)
	}
	defer found.Close()
	for found.Next() {
		var e session.Event
		var pos int64
		if err := found.Scan(&pos, &e.Type, &e.Epoch, &e.Payload); err != nil {
			return rowError("count events", "", err)
		}
		e.Seq = uint64(pos) & seqMask
		t.Count(w, e, s.newState(ctx, q, e))
	}
	t.Seq = end
	return storeError("count events", found.Err())
}

// newState is the state that e leads to; empty where damage hides it, which must not hide what
// the rest of the store tells.
func (s *Store) newState(ctx context.Context, q querier, e session.Event) session.State {
	if e.Type != session.StateChanged || s.expand(ctx, q, &e) != nil {
		return ""
	}
	d, err := decodeAs[session.StateChangedData](e, nil)
	if err != nil {
		return ""
	}
	return d.To
}
