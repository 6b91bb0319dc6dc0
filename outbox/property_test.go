package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/session"
)

// op is one step of a schedule.
type op struct {
	kind    int
	session int
	n       int
}

const (
	opCommit = iota
	opAdvance
	// From now on a share of calls loses request or reply, or vanishes.
	opLossy
	opHeal
	opBackup
	opRestore
	opKick
	// The syncer ends and another begins.
	opCrash
	opKinds
)

// plant puts a fault between syncer, store and server; nil puts none.
type plant func(f *store, sv *server) (outbox.Source, outbox.Remote)

// play carries out a schedule, ends all faults, and lists the errors at the end and on
// the way. It runs in a bubble of synctest.
func play(ctx context.Context, ops []op, seed uint64, p plant) (findings []string, sv *server) {
	f, sv := newStore(), newServer()
	var source outbox.Source = f
	var remote outbox.Remote = sv
	if p != nil {
		source, remote = p(f, sv)
	}
	random := rand.New(rand.NewPCG(seed, 1))
	f.commit(name(0), 1)
	seeded := func(o *outbox.Options) { o.Rand = rand.New(rand.NewPCG(seed, 3)).Float64 }
	stop := start(ctx, source, remote, seeded)
	restore, restored := func() {}, false
	for _, o := range ops {
		switch o.kind {
		case opCommit:
			f.commit(name(o.session), 10*o.n)
		case opAdvance:
			time.Sleep(time.Duration(o.n) * 100 * time.Millisecond)
		case opLossy:
			sv.set(func() { sv.fate = func(string) fate { return fate(random.IntN(4+o.session)) % 4 } })
		case opHeal:
			up(sv)
		case opBackup:
			restore = sv.backup()
		case opRestore:
			restore()
			restore, restored = func() {}, true
		case opKick:
			stop.s.Kick()
		case opCrash:
			stop.stop()
			stop = start(ctx, source, remote, seeded)
		}
		synctest.Wait()
		// until the syncer notices, it counts more events than the server has
		if !restored {
			findings = append(findings, judge(f, sv, false)...)
		}
	}
	up(sv)
	time.Sleep(5 * time.Minute)
	synctest.Wait()
	stop.stop()
	return append(findings, judge(f, sv, true)...), sv
}

type runner struct {
	s    *outbox.Syncer
	stop func()
}

func start(ctx context.Context, source outbox.Source, remote outbox.Remote, change ...func(*outbox.Options)) runner {
	ctx, cancel := context.WithCancel(ctx)
	s := syncer(source, remote, change...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Run(ctx)
	}()
	return runner{s, func() { cancel(); <-done }}
}

// FR-054: replies and requests are lost, the syncer dies, and the server is restored from
// backups. In the end the server has each event once, and the store has its
// acknowledgement.
func TestExactlyOnceUnderAnySchedule(t *testing.T) {
	steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) op {
		return op{rapid.IntRange(0, opKinds-1).Draw(t, "kind"), rapid.IntRange(0, 4).Draw(t, "session"), rapid.IntRange(1, 60).Draw(t, "n")}
	}), 1, 25)
	lost := 0
	rapid.Check(t, func(rt *rapid.T) {
		ops, seed := steps.Draw(rt, "ops"), rapid.Uint64().Draw(rt, "seed")
		var found []string
		synctest.Test(t, func(t *testing.T) {
			var sv *server
			found, sv = play(t.Context(), ops, seed, nil)
			lost += sv.lost
		})
		if len(found) > 0 {
			rt.Fatalf("%d findings, the first: %s", len(found), found[0])
		}
	})
	if lost == 0 {
		t.Error("all schedules: got no lost call, want some")
	}
}

// Rows are refused and calls are lost. Then each session has everything before its first
// refused row, that row is parked after its attempts, and the other sessions have
// everything.
func TestPoisonHoldsItsOwnSessionOnly(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lengths := rapid.SliceOfN(rapid.IntRange(1, 400), 1, 6).Draw(rt, "lengths")
		poison := make([]uint64, len(lengths))
		for i, n := range lengths {
			if rapid.Bool().Draw(rt, "poisoned") {
				poison[i] = uint64(rapid.IntRange(1, n).Draw(rt, "seq"))
			}
		}
		losses := rapid.SliceOfN(rapid.IntRange(0, 3), 0, 10).Draw(rt, "losses")
		var found []string
		synctest.Test(t, func(t *testing.T) { found = playPoison(t, lengths, poison, losses) })
		if len(found) > 0 {
			rt.Fatal(found)
		}
	})
}

func playPoison(t *testing.T, lengths []int, poison []uint64, losses []int) (findings []string) {
	f, sv := newStore(), newServer()
	for i, n := range lengths {
		f.commit(name(i), n)
	}
	sv.poison = func(e session.Event) bool {
		for i, seq := range poison {
			if e.Session == name(i) && e.Seq == seq {
				return true
			}
		}
		return false
	}
	sv.fate = func(string) (next fate) {
		if len(losses) > 0 {
			next, losses = fate(losses[0]), losses[1:]
		}
		return next
	}
	run := start(t.Context(), f, sv, func(o *outbox.Options) { o.Rand = func() float64 { return 0.1 } })
	time.Sleep(3 * time.Minute)
	synctest.Wait()
	run.stop()
	for i, n := range lengths {
		want := session.Lane{Session: name(i), LastSeq: uint64(n), Acked: uint64(n), State: session.SyncSynced}
		if poison[i] > 0 {
			want.Acked, want.Parked, want.Attempts, want.State = poison[i]-1, poison[i], 3, session.SyncParked
		}
		got := f.lane(name(i))
		got.Reason, got.Remote, got.Verified, got.Epoch = "", "", 0, 0
		if got != want {
			findings = append(findings, fmt.Sprintf("lane: got %+v, want %+v", got, want))
		}
	}
	return append(findings, judge(f, sv, false)...)
}

// sooner is the planted bug "acknowledge before the mark": events that are read for
// delivery count as delivered.
type sooner struct{ *store }

func (b sooner) Delivery(ctx context.Context, id session.ID, after uint64, limit, maxBytes int) (session.Delivery, error) {
	d, err := b.store.Delivery(ctx, id, after, limit, maxBytes)
	if err == nil {
		l := b.lane(id)
		l.Acked = d.Events[len(d.Events)-1].Seq
		err = b.SaveLane(ctx, l)
	}
	return d, err
}

// counting is the planted bug "attempts consumed by an outage": a call that never arrived
// is taken for a refusal.
type counting struct{ *server }

func (b counting) Deliver(ctx context.Context, d session.Delivery) (session.Mark, error) {
	m, err := b.server.Deliver(ctx, d)
	var f *session.SyncFault
	if errors.As(err, &f) && f.Class == session.FaultOffline {
		err = &session.SyncFault{Class: session.FaultRefused, Cause: f.Cause}
	}
	return m, err
}

// believing is the planted bug "the mark only rises": a restored server does not get the
// missing events again.
type believing struct{ *store }

func (b believing) SaveLane(ctx context.Context, l session.Lane) error {
	l.Acked = max(l.Acked, b.lane(l.Session).Acked)
	return b.store.SaveLane(ctx, l)
}

// assuming is the planted bug "an answer means all of it": the mark of a lost reply is
// made up.
type assuming struct{ *server }

func (b assuming) Deliver(ctx context.Context, d session.Delivery) (session.Mark, error) {
	m, err := b.server.Deliver(ctx, d)
	if n := len(d.Events); err != nil && n > 0 {
		m = session.Mark{Session: d.Session, Seq: d.Events[n-1].Seq, Head: d.Events[n-1].Hash, Verdict: session.DeliveryTaken}
	}
	return m, nil
}

// The judge of the property above finds each planted bug on one of a few schedules, and
// finds no fault in the syncer as it is.
func TestPlantedBugsAreFound(t *testing.T) {
	bugs := map[string]plant{
		"none":                        nil,
		"acknowledge_before_the_mark": func(f *store, sv *server) (outbox.Source, outbox.Remote) { return sooner{f}, sv },
		"attempts_by_an_outage":       func(f *store, sv *server) (outbox.Source, outbox.Remote) { return f, counting{sv} },
		"mark_only_rises":             func(f *store, sv *server) (outbox.Source, outbox.Remote) { return believing{f}, sv },
		"mark_made_up":                func(f *store, sv *server) (outbox.Source, outbox.Remote) { return f, assuming{sv} },
	}
	for bug, p := range bugs {
		t.Run(bug, func(t *testing.T) {
			found, first := 0, ""
			synctest.Test(t, func(t *testing.T) {
				for seed := range uint64(8) {
					if findings, _ := play(t.Context(), schedule(seed), seed, p); len(findings) > 0 {
						found++
						first = fmt.Sprintf("schedule %d: %s", seed, findings[0])
					}
				}
			})
			if (found > 0) != (p != nil) {
				t.Errorf("schedules with findings: got %d of 8 (%s)", found, first)
			}
		})
	}
}

// schedule makes a different schedule for each seed: commits under a lossy network, with
// a backup that is restored.
func schedule(seed uint64) []op {
	random := rand.New(rand.NewPCG(seed, 2))
	ops := []op{{opCommit, 1, 4}, {opAdvance, 0, 20}, {opBackup, 0, 0}, {opCommit, 1, 4}, {opCommit, 2, 1}}
	ops = append(ops, op{opLossy, random.IntN(4), 0})
	for range 8 {
		ops = append(ops, op{opCommit, random.IntN(4), 1 + random.IntN(6)}, op{opAdvance, 0, 1 + random.IntN(60)}, op{opKick, 0, 0})
	}
	return append(ops, op{opHeal, 0, 0}, op{opAdvance, 0, 600}, op{opRestore, 0, 0}, op{opAdvance, 0, 20})
}
