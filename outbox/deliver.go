package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/acode-dev/acode/session"
)

// order describes a delivery; it is all the state that a worker reads.
type order struct {
	lane session.Lane
	// after is the seq below the first event.
	after uint64
	size  size
	// events limits the number of events.
	events int
	// ahead is the delivery if it was read already, or nil.
	ahead *session.Delivery
	// whole is set unless the syncer searches a refused row.
	whole bool
	// standIn is the seq of the row that a stand-in replaces; 0 if there is none.
	standIn uint64
}

// result is the outcome of an order.
type result struct {
	lane  session.Lane
	d     session.Delivery
	bytes int
	mark  session.Mark
	// took is the duration of the call that delivered.
	took  time.Duration
	ahead *session.Delivery
	// sent is set once the events were sent; the content that they name goes first.
	sent bool
	// err is a *session.SyncFault, a *storeTrouble, or the error of a context that ended.
	err error
}

// order returns the next delivery of a lane, with at most so many bytes of payload.
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

// lane returns the syncer's state of a lane.
func (s *Syncer) lane(id session.ID) *lane {
	r := s.lanes[id]
	if r == nil {
		r = &lane{}
		s.lanes[id] = r
	}
	return r
}

// deliver carries out o. It runs beside other deliveries and changes no state of the
// syncer.
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

// read returns the events above the lane's mark, from memory if they were read ahead.
func (s *Syncer) read(ctx context.Context, o order) (session.Delivery, error) {
	if a := o.ahead; a != nil && a.Events[0].Seq == o.after+1 && len(a.Events) <= o.size.events {
		return *a, nil
	}
	d, err := s.opts.Source.Delivery(ctx, o.lane.Session, o.after, o.events, o.size.bytes)
	if err == nil && len(d.Events) == 0 {
		err = errors.New("pending events cannot be read")
	}
	return d, err
}

// readAhead reads the events after seq while the delivery up to seq is sent. The channel
// always delivers one value: nil if there are no events or they cannot be read.
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
			// the next delivery meets the error again
			c <- nil
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

// standIn replaces the parked row in d by a stand-in. Id, time, epoch and hash stay, so
// that the chain stays whole; the content is not sent.
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

// judge returns the lane after a delivery and saves it. Its error is a fault that stops
// every lane.
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

// answered returns the lane after an answer.
func (s *Syncer) answered(ctx context.Context, res result) (session.Lane, error) {
	if over(res.lane) {
		return s.file(ctx, res)
	}
	now, err := s.applyMark(ctx, res.lane, res.d, res.mark)
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

// payloads returns the size of the payloads of d in bytes.
func payloads(d session.Delivery) (n int) {
	for _, e := range d.Events {
		n += len(e.Payload)
	}
	return n
}
