package outbox_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/session"
)

// store is a Source in memory.
type store struct {
	mu     sync.Mutex
	ids    []session.ID
	events map[session.ID][]session.Event
	lanes  map[session.ID]session.Lane
	blobs  map[string][]byte
	names  map[session.Hash][]session.BlobRef // by hash of the event that names them
	beat   session.Heartbeat
	beats  int
	saves  []session.Lane
	broken map[string]error // by method
	reads  int              // lanes listed by Changed and Lanes
	now    func() time.Time
}

func newStore() *store {
	return &store{
		events: map[session.ID][]session.Event{}, lanes: map[session.ID]session.Lane{}, blobs: map[string][]byte{},
		names: map[session.Hash][]session.BlobRef{}, broken: map[string]error{}, now: time.Now,
	}
}

// name gives the id of session n.
func name(n int) session.ID {
	return session.ID(fmt.Sprintf("01900000-0000-7000-8000-%012d", n))
}

// commit appends n events to session id.
func (f *store) commit(id session.ID, n int) []session.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.lanes[id]; !ok {
		f.ids = append(f.ids, id)
		f.lanes[id] = session.Lane{Session: id}
	}
	var made []session.Event
	for range n {
		made = append(made, f.append(id, 1))
	}
	return made
}

func (f *store) append(id session.ID, epoch uint64) session.Event {
	chain := f.events[id]
	e := session.Event{Session: id, Seq: uint64(len(chain) + 1), TimeUS: f.now().UnixMicro(), Type: session.StateChanged, Actor: "acode", Epoch: epoch}
	e.Payload = fmt.Appendf(nil, `{"n":%d,"of":%q}`, e.Seq, id)
	binary.BigEndian.PutUint64(e.ID[:], e.Seq)
	e.Hash = e.ChainHash(hashOf(chain, e.Seq-1))
	f.events[id] = append(chain, e)
	l := f.lanes[id]
	l.LastSeq = e.Seq
	f.lanes[id] = l
	return e
}

func hashOf(chain []session.Event, seq uint64) session.Hash {
	if seq == 0 {
		return session.Hash{}
	}
	return chain[seq-1].Hash
}

func (f *store) lane(id session.ID) session.Lane {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lanes[id]
}

// clone copies the store, as a backup of a home does.
func (f *store) clone() *store {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := newStore()
	c.ids, c.lanes, c.now = slices.Clone(f.ids), maps.Clone(f.lanes), f.now
	for id, chain := range f.events {
		c.events[id] = slices.Clone(chain)
	}
	return c
}

func (f *store) Device() string { return "device" }

func (f *store) list(method string, keep func(session.Lane) bool) ([]session.Lane, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []session.Lane
	for _, id := range f.ids {
		if l := f.lanes[id]; keep(l) {
			out = append(out, l)
		}
	}
	f.reads += len(out)
	return out, f.broken[method]
}

func (f *store) Changed(context.Context) ([]session.Lane, error) {
	return f.list("Changed", func(l session.Lane) bool { return l.LastSeq > l.Acked })
}

func (f *store) Lanes(context.Context) ([]session.Lane, error) {
	return f.list("Lanes", func(session.Lane) bool { return true })
}

func (f *store) Delivery(_ context.Context, id session.ID, after uint64, limit, maxBytes int) (session.Delivery, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := session.Delivery{Session: id, Prev: hashOf(f.events[id], after)}
	for _, e := range f.events[id][after:] {
		if len(d.Events) > 0 && (len(d.Events) >= limit || maxBytes < len(e.Payload)) {
			break
		}
		maxBytes -= len(e.Payload)
		d.Events = append(d.Events, e)
	}
	return d, f.broken["Delivery"]
}

func (f *store) HashAt(_ context.Context, id session.ID, seq uint64) (session.Hash, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return hashOf(f.events[id], seq), f.broken["HashAt"]
}

func (f *store) Blob(_ context.Context, hash string) (io.ReadCloser, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken["Read"] != nil {
		return io.NopCloser(io.MultiReader(bytes.NewReader(f.blobs[hash][:1]), badReader{f.broken["Read"]})), nil
	}
	return io.NopCloser(bytes.NewReader(f.blobs[hash])), f.broken["Blob"]
}

type badReader struct{ err error }

func (b badReader) Read([]byte) (int, error) { return 0, b.err }

func (f *store) Blobs(d session.Delivery) (refs []session.BlobRef) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range d.Events {
		refs = append(refs, f.names[e.Hash]...)
	}
	return refs
}

func (f *store) SaveLane(_ context.Context, l session.Lane) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.broken["SaveLane"]; err != nil {
		return err
	}
	f.saves = append(f.saves, l)
	l.LastSeq = f.lanes[l.Session].LastSeq
	f.lanes[l.Session] = l
	return nil
}

func (f *store) Beat(_ context.Context, h session.Heartbeat) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beat, f.beats = h, f.beats+1
	return f.broken["Beat"]
}

func (f *store) Backlog(context.Context) (b session.Backlog, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, l := range f.lanes {
		if l.Pending() == 0 {
			continue
		}
		b.Sessions++
		b.Events += l.Pending()
		if at := f.events[id][l.Acked].TimeUS; b.OldestUS == 0 || at < b.OldestUS {
			b.OldestUS = at
		}
	}
	return b, f.broken["Backlog"]
}

// fate is what happens to a call.
type fate int

const (
	arrives fate = iota
	requestLost
	replyLost
	blackHole
)

// server is a Remote that keeps chains.
type server struct {
	mu      sync.Mutex
	id      session.RemoteIdentity
	chains  map[session.ID][]session.Event
	blobs   map[string][]byte
	epochs  map[session.ID]uint64
	filed   map[session.ID]map[uint64]session.Event // forks
	pieces  bool                                    // it files what follows a filed event
	seen    map[session.ID]map[uint64]int           // how often each seq was inserted
	calls   map[string]int
	ways    []string
	at      []time.Time // of every hello
	open    int         // calls in flight
	maxOpen int
	lost    int // calls that met another fate than to arrive

	verified, projected int

	// What goes wrong.
	fate   func(op string) fate
	fault  func(op string, d session.Delivery) *session.SyncFault // before anything is taken
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

// backup keeps what the server has; restore brings it back.
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
		h = session.Hello{Remote: f.id, Schema: 1, ReadOnly: f.ro}
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
		f.ways = append(f.ways, fmt.Sprintf("ingest %d", len(d.Events)))
		m, fault = f.ingest(d)
		return fault
	})
	return m, err
}

func (f *server) Copy(ctx context.Context, d session.Delivery) (m session.Mark, err error) {
	err = f.through(ctx, "copy", d, func() (fault *session.SyncFault) {
		f.ways = append(f.ways, fmt.Sprintf("copy %d", len(d.Events)))
		if n := uint64(len(f.chains[d.Session])); d.Events[0].Seq != n+1 {
			return &session.SyncFault{Class: session.FaultRefused, SQLState: "AC002", Cause: errors.New("gap")}
		}
		m, fault = f.ingest(d)
		return fault
	})
	return m, err
}

// ingest is the server's rule: refuse, repeat, extend, or file as a fork.
func (f *server) ingest(d session.Delivery) (session.Mark, *session.SyncFault) {
	for _, e := range d.Events {
		if f.poison != nil && f.poison(e) {
			return session.Mark{}, &session.SyncFault{Class: session.FaultRefused, SQLState: "22021", Cause: errors.New("invalid byte sequence")}
		}
	}
	m := f.mark(d.Session)
	if len(d.Events) > 0 && d.Events[0].Seq > m.Seq+1 {
		if f.pieces && f.filed[d.Session][d.Events[0].Seq-1].Hash == d.Prev {
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

// file keeps a fork, which d is from its event i on.
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

func (f *server) Close() error { return nil }

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

// judge compares store and server and lists what is wrong: events twice, missing, changed or
// acknowledged too early, and lanes that an outage spoiled. complete asks that everything is
// delivered.
func judge(f *store, sv *server, complete bool) (findings []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sv.mu.Lock()
	defer sv.mu.Unlock()
	add := func(format string, args ...any) { findings = append(findings, fmt.Sprintf(format, args...)) }
	if len(f.ids) == 0 {
		add("the store is empty: nothing was judged")
	}
	for _, id := range f.ids {
		l, chain, there := f.lanes[id], f.events[id], sv.chains[id]
		if l.Acked > uint64(len(there)) {
			add("%s: acknowledged %d, the server has %d", id, l.Acked, len(there))
		}
		if len(there) > len(chain) || complete && len(there) != len(chain) {
			add("%s: the server has %d of %d events", id, len(there), len(chain))
		}
		if complete && l.Acked != uint64(len(chain)) {
			add("%s: acknowledged %d of %d events", id, l.Acked, len(chain))
		}
		for i := range min(len(chain), len(there)) {
			if chain[i].Hash != there[i].Hash || !bytes.Equal(chain[i].Payload, there[i].Payload) {
				add("%s: event %d differs", id, i+1)
			}
		}
		for _, e := range there {
			for _, ref := range f.names[e.Hash] {
				if _, ok := sv.blobs[ref.Hash]; !ok && !ref.Sealed {
					add("%s: the server lacks blob %s of event %d", id, ref.Hash, e.Seq)
				}
			}
		}
		for seq, n := range sv.seen[id] {
			if n != 1 {
				add("%s: event %d was inserted %d times", id, seq, n)
			}
		}
	}
	if sv.poison == nil { // nothing was refused, so nothing may count
		for _, l := range append(slices.Collect(maps.Values(f.lanes)), f.saves...) {
			if l.Attempts != 0 || l.Parked != 0 {
				add("%s: %d attempts, parked %d without a refusal", l.Session, l.Attempts, l.Parked)
			}
		}
	}
	return findings
}

var (
	_ outbox.Source = (*store)(nil)
	_ outbox.Namer  = (*store)(nil)
	_ outbox.Remote = (*server)(nil)
)
