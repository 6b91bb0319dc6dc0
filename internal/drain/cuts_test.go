package main_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/acode-dev/acode/internal/pgwire"
	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/session"
)

// way is a way of delivery, or a planted mistake.
type way struct {
	name string
	wrap func(s *store, r outbox.Remote) outbox.Remote
}

func ways() []way {
	return []way{
		{"one statement", func(_ *store, r outbox.Remote) outbox.Remote { return r }},
	}
}

// point is a place to cut a connection.
type point struct {
	fault pgwire.Fault
	name  string
}

// bench holds a store, its server, and a proxy between them for trials.
type bench struct {
	t     testing.TB
	sv    *server
	s     *store
	proxy *pgwire.Proxy
	way   way
	drain drainFunc

	// dirty is the number of sessions in the store.
	dirty int
	tally tally
}

// tally counts the results of trials.
type tally struct {
	trials, cut, before, after int
	found                      breaches
}

func (c tally) String() string {
	return fmt.Sprintf("%d trials, %d connections cut, %d before the server had it and %d after, %d breaches", c.trials, c.cut, c.before, c.after, len(c.found))
}

// sessionEvents is the length of the sessions of cut deliveries.
const sessionEvents = 8

// renewEvery is the number of trials after which a bench judges everything and starts
// with an empty store.
const renewEvery = 100

func newBench(t testing.TB, w way, d drainFunc) *bench {
	t.Helper()
	sv := shared(t)
	b := &bench{t: t, sv: sv, proxy: pgwire.New(t, hostOf(t, sv.role)), way: w, drain: d}
	b.s = openStore(t, homeIn(scratch(t)))
	return b
}

// deliver drains once through the proxy, on its own connections.
func (b *bench) deliver(f pgwire.Fault) (pgwire.Counts, error) {
	b.t.Helper()
	b.proxy.Set(f)
	r, err := openRemote(at(b.t, b.sv.role, b.proxy.Addr()))
	must(b.t, err)
	err = b.drain(b.t.Context(), b.s, b.way.wrap(b.s, asRemote(r)))
	counts := b.proxy.Counts()
	// The connection may be cut.
	_ = r.Close()
	return counts, err
}

// fresh makes a session of a fixed length.
func (b *bench) fresh() string {
	b.t.Helper()
	w := b.s.create(sessionEvents)
	id := string(w.Session().ID)
	must(b.t, w.Close())
	b.dirty++
	return id
}

// points lists every byte of an undisturbed delivery in both directions, and every part
// of a reply that a client may see after a commit.
func (b *bench) points() (out []point) {
	b.t.Helper()
	b.fresh()
	c, err := b.deliver(pgwire.Fault{})
	must(b.t, err)
	for n := range c.ToServer + 1 {
		out = append(out, point{pgwire.CutAfter(pgwire.ToServer, n), fmt.Sprintf("after byte %d to the server", n)})
	}
	for n := range c.ToClient + 1 {
		out = append(out, point{pgwire.CutAfter(pgwire.ToClient, n), fmt.Sprintf("after byte %d to the client", n)},
			point{pgwire.LoseReply(n), fmt.Sprintf("committed, after byte %d to the client", n)})
	}
	return out
}

// trial cuts one delivery and lets the next one through.
func (b *bench) trial(p point) {
	b.t.Helper()
	id := b.fresh()
	c, err := b.deliver(p.fault)
	b.tally.trials++
	b.tally.cut += c.Cuts
	found, there := b.s.midway(b.sv.admin, id)
	if there == sessionEvents {
		b.tally.after++
	} else {
		b.tally.before++
	}
	if err != nil && session.CodeOf(err) != session.ErrOffline {
		found.add("reported: a cut is reported as %v", err)
	}
	if err == nil && there != sessionEvents {
		found.add("reported: delivered, and the server has %d events", there)
	}
	if _, err := b.deliver(pgwire.Fault{}); err != nil {
		found.add("stuck: the delivery after the cut: %v", err)
	}
	for _, f := range found {
		b.tally.found.add("%s: %s", p.name, f)
	}
	if b.dirty >= renewEvery {
		b.renew()
	}
}

// renew judges the delivered events and begins with an empty store and server.
func (b *bench) renew() {
	b.t.Helper()
	must(b.t, b.s.close())
	b.tally.found = append(b.tally.found, judge(b.t, b.s.home, b.sv.admin)...)
	b.sv.clear()
	b.s = openStore(b.t, homeIn(scratch(b.t)))
	b.dirty = 0
}

// run makes trials at the points and judges the rest.
func (b *bench) run(points []point) tally {
	b.t.Helper()
	for _, p := range points {
		b.trial(p)
	}
	b.renew()
	return b.tally
}

// control checks that the first trials of a syncer that does nothing fail.
func (b *bench) control(points []point) {
	b.t.Helper()
	b.drain = idle
	b.tally = tally{}
	if c := b.run(points[:2]); len(c.found) == 0 {
		b.t.Errorf("%s: a syncer that does nothing passes", b.way.name)
	}
}

// FR-053, FR-054: each event arrives once, at whichever byte a connection is cut.
func TestCuts(t *testing.T) {
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, w, drain)
			all := b.points()
			points := sample(random(t), all, setting(t, "ACODE_DRAIN_CUTS", 32))
			c := b.run(points)
			t.Logf("%s: %d of %d points: %v", w.name, len(points), len(all), c)
			report(t, w.name, c.found)
			if c.cut < len(points)*9/10 || c.before == 0 || c.after == 0 {
				t.Errorf("%s: got %v, want a cut at nearly every point, and commits on both sides of it", w.name, c)
			}
			b.control(points)
		})
	}
}

// planted returns mistakes in the delivery, and the words that the judge must report.
func planted(b *bench) []struct {
	way   way
	drain drainFunc
	shows string
} {
	return []struct {
		way   way
		drain drainFunc
		shows string
	}{
		{way{"acknowledge before the mark", func(s *store, r outbox.Remote) outbox.Remote { return hasty{r, s} }}, drain, "early: "},
		{way{"mark outside of the transaction", func(s *store, r outbox.Remote) outbox.Remote { return split{r, b} }}, drain, "half a delivery: "},
		{way{"attempts consumed by an outage", func(_ *store, r outbox.Remote) outbox.Remote { return r }}, counting, "attempts: "},
	}
}

// The judge finds each planted mistake, and finds none in acode.
func TestPlantedMistakes(t *testing.T) {
	t.Parallel()
	b := newBench(t, ways()[0], drain)
	for _, p := range planted(b) {
		b.way, b.drain, b.tally = p.way, p.drain, tally{}
		points := sample(random(t), b.points(), 9)
		b.renew()
		b.tally = tally{}
		c := b.run(points)
		first := ""
		for _, f := range c.found {
			if first == "" && strings.Contains(f, p.shows) {
				first = f
			}
		}
		if first == "" {
			t.Errorf("%s: got %d breaches, none of them %q: %q", p.way.name, len(c.found), p.shows, c.found[:min(len(c.found), 3)])
			continue
		}
		t.Logf("planted %s: found %d times, first: %s", p.way.name, len(c.found), first)
	}
}

// hasty stores the acknowledgement before the server gives it.
type hasty struct {
	outbox.Remote
	s *store
}

// Deliver implements outbox.Remote.
func (h hasty) Deliver(ctx context.Context, d session.Delivery) (session.Mark, error) {
	if n := len(d.Events); n > 0 {
		l := session.Lane{Session: d.Session, Acked: d.Events[n-1].Seq, State: session.SyncSynced}
		if err := h.s.out.SaveLane(ctx, l); err != nil {
			return session.Mark{}, err
		}
	}
	return h.Remote.Deliver(ctx, d)
}

// split moves the mark in one transaction and inserts the events in another.
type split struct {
	outbox.Remote
	b *bench
}

// Deliver implements outbox.Remote.
func (p split) Deliver(ctx context.Context, d session.Delivery) (session.Mark, error) {
	n := len(d.Events)
	if n == 0 {
		return p.Remote.Deliver(ctx, d)
	}
	last := d.Events[n-1]
	statements := []string{fmt.Sprintf(`INSERT INTO acode.heads (session_id, owner, device, last_seq, epoch, head, first_prev, verified_head)
		VALUES ('%s', '%s', '%s', %d, %d, '\x%s', acode.zero_hash(), acode.zero_hash())
		ON CONFLICT (session_id) DO UPDATE SET last_seq = excluded.last_seq, head = excluded.head, epoch = excluded.epoch`,
		d.Session, userOf(p.b.t, p.b.sv.role), d.Device, last.Seq, last.Epoch, last.Hash)}
	for _, e := range d.Events {
		statements = append(statements, fmt.Sprintf(`INSERT INTO acode.events (session_id, seq, id, time_us, epoch, type, actor, device, hash, payload)
			VALUES ('%s', %d, '%x', %d, %d, '%s', '%s', '%s', '\x%s', '\x%x')`, e.Session, e.Seq, e.ID, e.TimeUS, e.Epoch, e.Type, e.Actor, d.Device, e.Hash, e.Payload))
	}
	if err := execute(ctx, at(p.b.t, p.b.sv.admin, p.b.proxy.Addr()), "SET session_replication_role = replica", statements[0], "BEGIN;"+strings.Join(statements[1:], ";")+";COMMIT"); err != nil {
		return session.Mark{}, &session.SyncFault{Class: session.FaultOffline, Cause: err}
	}
	return session.Mark{Session: d.Session, Seq: last.Seq, Head: last.Hash, Epoch: last.Epoch, Verdict: session.DeliveryTaken, Inserted: n}, nil
}

// counting counts an attempt for every failure, also for outages.
func counting(ctx context.Context, s *store, r outbox.Remote) error {
	err := drain(ctx, s, r)
	if session.CodeOf(err) != session.ErrOffline {
		return err
	}
	changed, cerr := s.out.Changed(ctx)
	if cerr != nil {
		return cerr
	}
	for _, l := range changed {
		l.Attempts++
		if cerr := s.out.SaveLane(ctx, l); cerr != nil {
			return cerr
		}
	}
	return err
}
