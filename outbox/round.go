package outbox

import (
	"context"
	"time"

	"github.com/acode-dev/acode/session"
)

// lane is the syncer's state of a lane, beyond the state in the store.
type lane struct {
	// limit is the number of events of the next delivery while a refused row is searched;
	// 0 means as many as the link allows.
	limit int
	// suspect is the greatest seq that the refused row can have.
	suspect uint64
	// rewinds counts how often the mark went down on this connection.
	rewinds int
	ahead   *session.Delivery
	filing  filing
	// backoff is for the lane's own trouble; nil if it had none.
	backoff *schedule

	// troubles counts consecutive waits for the lane's own trouble.
	troubles int
	// trouble is the cause of the last such wait.
	trouble error
	// failed is set if a passing fault of the server met this lane, when the syncer had
	// failedAt acknowledgements.
	failed   bool
	failedAt uint64
	// hopeless is set if the stand-in of the parked row was refused too.
	hopeless bool
}

// round delivers lanes in turn, several at a time.
type round struct {
	s *Syncer
	// goals is nil if the round delivers everything, without end.
	goals   *goals
	queue   []session.Lane
	busy    map[session.ID]bool
	results chan result
	// stale is set if a delivery changed the lanes since they were read.
	stale bool
	// next is the time until the first waiting lane may go; 0 if none waits.
	next time.Duration
	// stop is a fault of the whole syncer: no more deliveries begin.
	stop error
}

// round returns when no lane is ready and none is in flight, or when a fault stops them
// all.
func (s *Syncer) round(ctx context.Context, g *goals) (time.Duration, error) {
	r := &round{s: s, goals: g, busy: map[session.ID]bool{}, results: make(chan result)}
	r.refill(ctx)
	acks := s.acks
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		r.dispatch(ctx)
		if len(r.busy) == 0 {
			if r.stop != nil || ctx.Err() != nil || !r.stale {
				break
			}
			r.refill(ctx)
			continue
		}
		select {
		case res := <-r.results:
			delete(r.busy, res.lane.Session)
			r.take(ctx, res)
		case <-s.wake:
			r.refill(ctx)
		case <-tick.C:
			if s.held(ctx) {
				r.halt(errHeld)
			}
			r.refill(ctx)
			// a retry may fail again
			if s.acks > acks || s.snap.Heartbeat.State != session.SyncRetrying {
				// the round takes longer than a moment
				s.works(ctx)
			}
			s.beatWhenDue(ctx)
		}
	}
	if r.stop == nil {
		r.stop = ctx.Err()
	}
	return r.next, r.stop
}

// refill reads the lanes again and keeps the order of those that wait already.
func (r *round) refill(ctx context.Context) {
	if r.stop != nil {
		return
	}
	r.stale = false
	changed, err := r.s.opts.Source.Changed(ctx)
	if err != nil {
		r.halt(&storeTrouble{err})
		return
	}
	r.s.noteLanes(changed)
	r.aim(changed)
	first := make(map[session.ID]int, len(r.queue))
	for i, l := range r.queue {
		first[l.Session] = i + 1
	}
	// in the earlier order
	queued := make([]session.Lane, len(r.queue))
	var added []session.Lane
	for _, l := range changed {
		if i := first[l.Session]; i > 0 {
			queued[i-1] = l
		} else if !r.busy[l.Session] {
			added = append(added, l)
		}
	}
	r.next, r.queue = 0, nil
	for _, l := range append(queued, added...) {
		r.queue = r.admit(r.queue, l)
	}
	r.s.hurry = false
}

// admit adds l to queue if it is ready, or records how long it waits.
func (r *round) admit(queue []session.Lane, l session.Lane) []session.Lane {
	switch wait := r.s.waits(l); {
	case stuck(l) && !r.s.passable(l) && !r.s.files(l), l.Pending() == 0:
		return queue
	case r.goals != nil && l.Acked >= r.goals.last[l.Session]:
		return queue
	case wait > 0 && r.givesUp(l):
		return queue
	case wait > 0:
		if r.next == 0 || wait < r.next {
			r.next = wait
		}
		return queue
	}
	return append(queue, l)
}

// waits returns how long l has to wait. A time beyond every backoff means that the wall
// clock was set back, and is ignored.
func (s *Syncer) waits(l session.Lane) time.Duration {
	d := time.Duration(l.NextUS-s.wallUS()) * time.Microsecond
	if s.hurry || l.NextUS == 0 || d > maxInterval {
		return 0
	}
	return d
}

// dispatch begins deliveries while there is room for them.
func (r *round) dispatch(ctx context.Context) {
	for r.stop == nil && ctx.Err() == nil && len(r.queue) > 0 && len(r.busy) < r.s.opts.Parallel {
		l := r.queue[0]
		r.queue = r.queue[1:]
		if l.Remote != "" && l.Remote != r.s.conn.id {
			r.halt(&otherDatabase{have: r.s.conn.id, want: l.Remote})
			return
		}
		r.busy[l.Session] = true
		o := r.s.order(l, maxBytes/2/min(r.s.opts.Parallel, len(r.busy)+len(r.queue)))
		r.s.attempted()
		go func() { r.results <- r.s.deliver(ctx, o) }()
	}
}

func (r *round) halt(err error) {
	if r.stop == nil {
		r.stop = err
	}
}

// take judges the result of a delivery.
func (r *round) take(ctx context.Context, res result) {
	r.stale = true
	now, err := r.s.judge(ctx, res)
	if err != nil && ctx.Err() == nil {
		r.halt(err)
	}
	if err == nil {
		r.queue = r.admit(r.queue, now)
	}
}
