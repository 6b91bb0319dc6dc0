package outbox_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/session"
)

// fate is the outcome of a call.
type fate int

const (
	arrives fate = iota
	requestLost
	replyLost
	blackHole
)

// server is a Remote that keeps chains.
type server struct {
	mu     sync.Mutex
	id     session.RemoteIdentity
	chains map[session.ID][]session.Event
	blobs  map[string][]byte
	epochs map[session.ID]uint64
	// filed holds the events of forks.
	filed map[session.ID]map[uint64]session.Event
	// seen counts how often each seq was inserted.
	seen  map[session.ID]map[uint64]int
	calls map[string]int
	// sizes holds the number of events of each delivery.
	sizes []int
	// at holds the time of every hello.
	at []time.Time
	// open counts the calls in flight.
	open    int
	maxOpen int
	// lost counts the calls whose request or reply did not arrive.
	lost int

	verified, projected int

	// The following fields are the faults.
	fate func(op string) fate
	// fault is called before the server stores anything.
	fault  func(op string, d session.Delivery) *session.SyncFault
	poison func(e session.Event) bool
	answer func(m *session.Mark)
	delay  time.Duration
	ro     bool
}

func newServer() *server {
	return &server{
		id: session.RemoteIdentity{System: "7", Database: "acode", Schema: "acode"}, chains: map[session.ID][]session.Event{},
		blobs: map[string][]byte{}, epochs: map[session.ID]uint64{}, seen: map[session.ID]map[uint64]int{}, filed: map[session.ID]map[uint64]session.Event{}, calls: map[string]int{},
	}
}

// backup copies the server's data; restore brings the copy back.
func (f *server) backup() (restore func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := map[session.ID][]session.Event{}
	for id, chain := range f.chains {
		kept[id] = slices.Clone(chain)
	}
	blobs := maps.Clone(f.blobs)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.chains, f.blobs = kept, blobs
		f.seen = map[session.ID]map[uint64]int{}
	}
}

var errNet = errors.New("connection reset by peer")

// through makes a call meet its fate. apply runs under the lock and changes the server.
func (f *server) through(ctx context.Context, op string, d session.Delivery, apply func() *session.SyncFault) error {
	f.mu.Lock()
	f.calls[op]++
	if op == "hello" {
		f.at = append(f.at, time.Now())
	}
	f.open++
	f.maxOpen = max(f.maxOpen, f.open)
	defer func() {
		f.mu.Lock()
		f.open--
		f.mu.Unlock()
	}()
	fate := arrives
	if f.fate != nil {
		fate = f.fate(op)
	}
	if fate != arrives {
		f.lost++
	}
	var fault *session.SyncFault
	if f.fault != nil {
		fault = f.fault(op, d)
	}
	delay := f.delay
	f.mu.Unlock()
	if fate == blackHole {
		<-ctx.Done()
		return &session.SyncFault{Class: session.FaultOffline, Cause: ctx.Err()}
	}
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return &session.SyncFault{Class: session.FaultOffline, Cause: ctx.Err()}
		}
	}
	if fate == requestLost {
		return &session.SyncFault{Class: session.FaultOffline, Safe: true, Cause: errNet}
	}
	f.mu.Lock()
	if fault == nil {
		fault = apply()
	}
	f.mu.Unlock()
	if fate == replyLost {
		return &session.SyncFault{Class: session.FaultOffline, Cause: errNet}
	}
	if fault != nil {
		return fault
	}
	return nil
}

func (f *server) Hello(ctx context.Context, _ string) (h session.Hello, err error) {
	err = f.through(ctx, "hello", session.Delivery{}, func() *session.SyncFault {
		h = session.Hello{Remote: f.id, ReadOnly: f.ro}
		for _, chain := range f.chains {
			h.Events += uint64(len(chain))
		}
		return nil
	})
	return h, err
}

func (f *server) mark(id session.ID) session.Mark {
	chain := f.chains[id]
	n := uint64(len(chain))
	return session.Mark{Session: id, Seq: n, Head: hashOf(chain, n), Epoch: f.epochs[id], Verified: min(n, uint64(f.verified)), Verdict: session.DeliveryTaken}
}

func (f *server) Marks(ctx context.Context, _ string, after session.ID, limit int) (out []session.Mark, err error) {
	err = f.through(ctx, "marks", session.Delivery{}, func() *session.SyncFault {
		for _, id := range slices.Sorted(maps.Keys(f.chains)) {
			if id > after && len(out) < limit {
				out = append(out, f.mark(id))
			}
		}
		return nil
	})
	return out, err
}

func (f *server) Deliver(ctx context.Context, d session.Delivery) (m session.Mark, err error) {
	err = f.through(ctx, "deliver", d, func() (fault *session.SyncFault) {
		f.sizes = append(f.sizes, len(d.Events))
		m, fault = f.ingest(d)
		return fault
	})
	return m, err
}

// ingest applies the server's rule: refuse, repeat, extend, or file as a fork.
func (f *server) ingest(d session.Delivery) (session.Mark, *session.SyncFault) {
	for _, e := range d.Events {
		if f.poison != nil && f.poison(e) {
			return session.Mark{}, &session.SyncFault{Class: session.FaultRefused, SQLState: "22021", Cause: errors.New("invalid byte sequence")}
		}
	}
	m := f.mark(d.Session)
	if len(d.Events) > 0 && d.Events[0].Seq > m.Seq+1 {
		if f.filed[d.Session][d.Events[0].Seq-1].Hash == d.Prev {
			return f.file(d, 0), nil
		}
		m.Verdict = session.DeliveryGap
		return f.answered(m), nil
	}
	for i, e := range d.Events {
		n := uint64(len(f.chains[d.Session]))
		same := e.Seq <= n && f.chains[d.Session][e.Seq-1].Hash == e.Hash
		extends := e.Seq == n+1 && e.Hash == e.ChainHash(hashOf(f.chains[d.Session], n))
		withheld := e.Seq == n+1 && bytes.HasPrefix(e.Payload, []byte(`{"withheld":`))
		switch {
		case same:
			m.Duplicate++
		case extends, withheld:
			f.insert(e)
			m.Inserted++
		default:
			return f.file(d, i), nil
		}
	}
	now := f.mark(d.Session)
	now.Inserted, now.Duplicate = m.Inserted, m.Duplicate
	return f.answered(now), nil
}

// file keeps the events of d from index i on as a fork.
func (f *server) file(d session.Delivery, i int) session.Mark {
	if f.filed[d.Session] == nil {
		f.filed[d.Session] = map[uint64]session.Event{}
	}
	for _, e := range d.Events[i:] {
		f.filed[d.Session][e.Seq] = e
	}
	m := f.mark(d.Session)
	m.Verdict, m.Duplicate = session.DeliveryForked, i
	if d.Events[len(d.Events)-1].Epoch < m.Epoch {
		m.Verdict = session.DeliveryFenced
	}
	return f.answered(m)
}

func (f *server) answered(m session.Mark) session.Mark {
	if f.answer != nil {
		f.answer(&m)
	}
	return m
}

func (f *server) insert(e session.Event) {
	f.chains[e.Session] = append(f.chains[e.Session], e)
	f.epochs[e.Session] = max(f.epochs[e.Session], e.Epoch)
	if f.seen[e.Session] == nil {
		f.seen[e.Session] = map[uint64]int{}
	}
	f.seen[e.Session][e.Seq]++
}

func (f *server) MissingBlobs(ctx context.Context, hashes []string) (missing []string, err error) {
	err = f.through(ctx, "missing", session.Delivery{}, func() *session.SyncFault {
		for _, h := range hashes {
			if _, ok := f.blobs[h]; !ok {
				missing = append(missing, h)
			}
		}
		return nil
	})
	return missing, err
}

func (f *server) PutBlob(ctx context.Context, hash string, _ int64, content io.Reader) error {
	b, err := io.ReadAll(content)
	if err != nil {
		return &session.SyncFault{Class: session.FaultOffline, Cause: err}
	}
	return f.through(ctx, "put", session.Delivery{}, func() *session.SyncFault {
		f.blobs[hash] = b
		return nil
	})
}

func (f *server) Verify(ctx context.Context, limit int) (more bool, err error) {
	err = f.through(ctx, "verify", session.Delivery{}, func() *session.SyncFault {
		longest := 0
		for _, chain := range f.chains {
			longest = max(longest, len(chain))
		}
		f.verified = min(longest, f.verified+limit)
		more = f.verified < longest
		return nil
	})
	return more, err
}

func (f *server) Project(ctx context.Context, _ int) (more bool, err error) {
	err = f.through(ctx, "project", session.Delivery{}, func() *session.SyncFault {
		f.projected++
		return nil
	})
	return false, err
}

func (f *server) Reset() { f.set(func() { f.calls["reset"]++ }) }

func (f *server) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *server) count(op string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

var (
	_ outbox.Source = (*store)(nil)
	_ outbox.Remote = (*server)(nil)
)
