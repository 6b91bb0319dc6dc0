package outbox_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acode-dev/acode/session"
)

// store is a Source in memory.
type store struct {
	mu     sync.Mutex
	ids    []session.ID
	events map[session.ID][]session.Event
	lanes  map[session.ID]session.Lane
	blobs  map[string][]byte
	// names holds blobs by the hash of the event that names them.
	names map[session.Hash][]session.BlobRef
	// wholes are the whole outputs that every delivery names.
	wholes []session.BlobRef
	beat   session.Heartbeat
	beats  int
	saves  []session.Lane
	// broken holds errors by method.
	broken map[string]error
	// reads counts the lanes listed by Changed and Lanes.
	reads int
	now   func() time.Time
	// held is set while a person pauses delivery.
	held atomic.Bool
}

func newStore() *store {
	return &store{
		events: map[session.ID][]session.Event{}, lanes: map[session.ID]session.Lane{}, blobs: map[string][]byte{},
		names: map[session.Hash][]session.BlobRef{}, broken: map[string]error{}, now: time.Now,
	}
}

// name returns the id of session n.
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

// clone copies the store, as a backup of a home directory does.
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

func (f *store) paused(context.Context) (bool, error) { return f.held.Load(), nil }

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

func (f *store) Totals(context.Context) (int, map[string]uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	acked := map[string]uint64{}
	for _, l := range f.lanes {
		if l.Acked > 0 {
			acked[l.Remote] += l.Acked
		}
	}
	return len(f.lanes), acked, f.broken["Totals"]
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

func (f *store) Wholes(session.Delivery) []session.BlobRef { return f.wholes }

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

// judge compares store and server and lists the differences: events twice, missing,
// changed or acknowledged too early, and lanes that an outage spoiled. If complete is
// set, everything must be delivered.
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
	// without a refusal no attempt may count
	if sv.poison == nil {
		for _, l := range append(slices.Collect(maps.Values(f.lanes)), f.saves...) {
			if l.Attempts != 0 || l.Parked != 0 {
				add("%s: %d attempts, parked %d without a refusal", l.Session, l.Attempts, l.Parked)
			}
		}
	}
	return findings
}
