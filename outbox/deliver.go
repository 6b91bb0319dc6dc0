package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/acode-dev/acode/session"
)

// order is what a delivery is to do; it is all that a worker reads.
type order struct {
	lane session.Lane
	// it begins above this
	after uint64
	size  size
	// at most, of this delivery
	events int
	// was read already; nil: nothing was
	ahead *session.Delivery
	// no refused row is hunted
	whole bool
	// this row is not sent as it is; 0: every row is
	standIn uint64
}

// result is what came of an order.
type result struct {
	lane  session.Lane
	d     session.Delivery
	bytes int
	mark  session.Mark
	// of the call that delivered
	took  time.Duration
	ahead *session.Delivery
	// its events were; content that they name comes before
	sent bool
	// a *session.SyncFault, a *storeTrouble, or of a context that ended
	err error
}

// order makes the next delivery of a lane, whose payloads may have so many bytes.
func (s *Syncer) order(l session.Lane, bytes int) order {
	r := s.lane(l.Session)
	o := order{lane: l, after: l.Acked, size: s.size, ahead: r.ahead, whole: r.limit == 0}
	r.ahead, o.size.bytes = nil, min(o.size.bytes, bytes)
	if over(l) {
		o.fork(r)
		return o
	}
	if o.events = o.size.events; r.limit > 0 {
		o.events = min(o.events, r.limit)
	}
	if s.passable(l) {
		o.standIn = l.Parked
	}
	return o
}

// lane gives what is known of a lane.
func (s *Syncer) lane(id session.ID) *lane {
	r := s.lanes[id]
	if r == nil {
		r = &lane{}
		s.lanes[id] = r
	}
	return r
}

// deliver carries out o. It runs beside others and touches nothing of the syncer's.
func (s *Syncer) deliver(ctx context.Context, o order) result {
	res := result{lane: o.lane}
	d, err := s.read(ctx, o)
	if err != nil {
		res.err = &storeTrouble{err}
		return res
	}
	ahead := s.readAhead(ctx, o, d.Events[len(d.Events)-1].Seq)
	standIn(d, o)
	res.d, res.bytes = d, payloads(d)
	blobs := s.opts.Source.Blobs(d)
	if s.opts.WholeOutputs {
		blobs = append(blobs, s.opts.Source.Wholes(d)...)
	}
	if res.err = s.upload(ctx, blobs); res.err == nil {
		s.send(ctx, &res)
	}
	res.ahead = <-ahead
	return res
}

// read gives the events above the lane's mark, from memory where they were read ahead.
func (s *Syncer) read(ctx context.Context, o order) (session.Delivery, error) {
	if a := o.ahead; a != nil && a.Events[0].Seq == o.after+1 && len(a.Events) <= o.size.events {
		return *a, nil
	}
	d, err := s.opts.Source.Delivery(ctx, o.lane.Session, o.after, o.events, o.size.bytes)
	if err == nil && len(d.Events) == 0 {
		err = errors.New("events that were counted cannot be read")
	}
	return d, err
}

// readAhead reads what follows seq while the delivery up to it is on its way. The channel
// gives nil where there is nothing or it cannot be read, and always gives something.
func (s *Syncer) readAhead(ctx context.Context, o order, seq uint64) <-chan *session.Delivery {
	c := make(chan *session.Delivery, 1)
	if !o.whole || seq >= o.lane.LastSeq {
		c <- nil
		return c
	}
	o.after, o.events, o.ahead = seq, o.size.events, nil
	go func() {
		d, err := s.read(ctx, o)
		if err != nil {
			c <- nil // whoever needs it meets the error
			return
		}
		c <- &d
	}()
	return c
}

func (s *Syncer) send(ctx context.Context, res *result) {
	res.sent = true
	start := s.opts.Now()
	res.mark, res.err = call(ctx, s.opts.Timeout, func(ctx context.Context) (session.Mark, error) { return s.opts.Remote.Deliver(ctx, res.d) })
	res.took = min(s.since(start), 2*s.opts.Timeout)
}

// standIn replaces the parked row of a lane that goes on, where d has it. Id, time, epoch
// and hash stay, so that the chain stays whole; the content is not sent.
func standIn(d session.Delivery, o order) {
	for i, e := range d.Events {
		if o.standIn == 0 || e.Seq != o.standIn {
			continue
		}
		payload, err := json.Marshal(map[string]string{"withheld": o.lane.Reason})
		if err != nil {
			panic("outbox: a map of strings is no JSON: " + err.Error())
		}
		e.Actor, e.Payload, e.Full = "acode", payload, nil
		d.Events[i] = e
	}
}

// judge makes the lane after a delivery of its result, saves it, and returns the faults
// that stop every lane.
func (s *Syncer) judge(ctx context.Context, res result) (session.Lane, error) {
	s.opts.Metrics.batch(res, s.opts.Now())
	if res.err != nil {
		return s.troubled(ctx, res)
	}
	s.size.grown(len(res.d.Events), res.bytes, res.took)
	now, err := s.answered(ctx, res)
	if err != nil {
		return s.later(ctx, res.lane, err)
	}
	if now != res.lane {
		if err := s.save(ctx, res.lane, now); err != nil {
			return now, err
		}
	}
	s.acknowledged(ctx, res, now)
	return now, nil
}

// answered gives the lane as it stands after an answer.
func (s *Syncer) answered(ctx context.Context, res result) (session.Lane, error) {
	if over(res.lane) {
		return s.file(ctx, res)
	}
	now, err := s.settle(ctx, res.lane, res.d, res.mark)
	if err != nil {
		return now, err
	}
	now = s.progress(res, now)
	if v := res.mark.Verdict; v == session.DeliveryFenced || v == session.DeliveryForked {
		res.lane = now
		return s.file(ctx, res)
	}
	return now, nil
}

// payloads is the size of d.
func payloads(d session.Delivery) (n int) {
	for _, e := range d.Events {
		n += len(e.Payload)
	}
	return n
}
