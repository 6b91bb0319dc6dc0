package local_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const serverA = "7001/acode/acode"

func openOutbox(t testing.TB, s *local.Store) *local.Outbox {
	t.Helper()
	o, err := s.Outbox(context.Background())
	if err != nil {
		t.Fatalf("Outbox: %v", err)
	}
	t.Cleanup(func() { _ = o.Close() })
	return o
}

func changed(t testing.TB, o *local.Outbox) []session.Lane {
	t.Helper()
	lanes, err := o.Changed(t.Context())
	if err != nil {
		t.Fatalf("Changed: %v", err)
	}
	return lanes
}

func saveLane(t testing.TB, o *local.Outbox, l session.Lane) {
	t.Helper()
	if err := o.SaveLane(t.Context(), l); err != nil {
		t.Fatalf("SaveLane: %v", err)
	}
}

// acknowledge saves that a server has all events up to seq.
func acknowledge(t testing.TB, o *local.Outbox, id session.ID, seq uint64) {
	t.Helper()
	saveLane(t, o, session.Lane{Session: id, Acked: seq, Verified: seq, Epoch: 1, State: session.SyncSynced, Remote: serverA})
}

func ids(lanes []session.Lane) (out []session.ID) {
	for _, l := range lanes {
		out = append(out, l.Session)
	}
	return out
}

func tick() session.Draft {
	return session.Draft{Type: session.CheckpointCreated, Data: session.CheckpointCreatedData{Why: "test"}}
}

// FR-048: committed events are pending until they are acknowledged. The acknowledged seq
// may rise or fall (O1).
func TestOutboxListsWhatIsPending(t *testing.T) {
	s := open(t, options(t))
	a, b := create(t, s, 1), create(t, s, 1)
	o := openOutbox(t, s)
	idA, idB := a.Session().ID, b.Session().ID
	if got := changed(t, o); !slices.Equal(ids(got), []session.ID{idA, idB}) || got[0].LastSeq != 4 || got[0].Acked != 0 || got[0].Pending() != 4 {
		t.Fatalf("Changed of two new sessions: got %+v", got)
	}
	want := session.Lane{Session: idA, LastSeq: 4, Acked: 3, Verified: 2, Epoch: 1, State: session.SyncRetrying, Reason: "why", Attempts: 2, NextUS: 77, Parked: 4, Remote: serverA}
	saveLane(t, o, want)
	acknowledge(t, o, idB, 4)
	if diff := cmp.Diff([]session.Lane{want}, changed(t, o)); diff != "" {
		t.Errorf("Changed: (-want +got)\n%s", diff)
	}
	lanes, err := o.Lanes(t.Context())
	if err != nil || !slices.Equal(ids(lanes), []session.ID{idA, idB}) || lanes[1].Acked != 4 || lanes[1].State != session.SyncSynced {
		t.Errorf("Lanes: got %+v, %v", lanes, err)
	}
	acknowledge(t, o, idA, 4)
	if got := changed(t, o); len(got) != 0 {
		t.Errorf("Changed with everything acknowledged: got %+v", got)
	}
	acknowledge(t, o, idA, 1) // a server that was restored
	if got := changed(t, o); len(got) != 1 || got[0].Pending() != 3 {
		t.Errorf("Changed after a mark went down: got %+v", got)
	}
	appendAll(t, b, tick())
	if got := changed(t, o); len(got) != 2 || got[1].Acked != 4 || got[1].LastSeq != 5 {
		t.Errorf("Changed after a commit: got %+v", got)
	}
	if err := o.SaveLane(t.Context(), session.Lane{Session: "01890a5d-ac96-774b-bcce-b302099a8057"}); !errors.Is(err, session.ErrUnknownID) {
		t.Errorf("SaveLane of no session: got %v", err)
	}
}

// During an outage the backlog does not fall. Acknowledged events do not count.
func TestBacklogCountsEveryState(t *testing.T) {
	s := open(t, options(t))
	o := openOutbox(t, s)
	if b, err := o.Backlog(t.Context()); err != nil || b != (session.Backlog{}) {
		t.Errorf("Backlog of an empty store: got %+v, %v", b, err)
	}
	var oldest int64
	states := []session.SyncState{"", session.SyncPending, session.SyncRetrying, session.SyncParked, session.SyncFenced, session.SyncForked, session.SyncSynced}
	for i, state := range states {
		w := create(t, s, 1)
		l := session.Lane{Session: w.Session().ID, Acked: 1, State: state, NextUS: 1 << 60, Attempts: i, Remote: serverA}
		if state == session.SyncSynced {
			l.Acked = 4
		} else if state == session.SyncParked {
			l.Parked = 2
		}
		saveLane(t, o, l)
		if i == 0 {
			events, err := s.Events(t.Context(), l.Session, 1, 1)
			must(t, err)
			oldest = events[0].TimeUS
		}
	}
	want := session.Backlog{Sessions: 6, Events: 18, OldestUS: oldest}
	if b, err := o.Backlog(t.Context()); err != nil || b != want {
		t.Errorf("Backlog: got %+v, %v, want %+v", b, err, want)
	}
	count, acked, err := o.Totals(t.Context())
	if err != nil || count != 7 || acked[serverA] != 10 || len(acked) != 1 {
		t.Errorf("Totals: got %d, %v, %v", count, acked, err)
	}
}

// A delivery is a range of the journal with the hash before it, limited by number and by
// bytes.
func TestDeliveryIsARunOfTheJournal(t *testing.T) {
	s := open(t, options(t))
	w := create(t, s, 3)
	appendAll(t, w, started(w, 0, 1), completed(w, 0, 1), started(w, 1, 1))
	o := openOutbox(t, s)
	id := w.Session().ID
	journal, err := s.Events(t.Context(), id, 0, 100)
	must(t, err)
	var got []session.Event
	for after := uint64(0); ; after = uint64(len(got)) {
		d, err := o.Delivery(t.Context(), id, after, 3, 1<<20)
		must(t, err)
		prev, err := o.HashAt(t.Context(), id, after)
		must(t, err)
		if d.Session != id || d.Device != s.Device() || d.Prev != prev || after > 0 && d.Prev != journal[after-1].Hash {
			t.Errorf("Delivery after %d: got %s of %s after %s", after, d.Session, d.Device, d.Prev)
		}
		if got = append(got, d.Events...); len(d.Events) == 0 {
			break
		}
	}
	if diff := cmp.Diff(journal, got); diff != "" {
		t.Errorf("Delivery: (-journal +delivered)\n%s", diff)
	}
	size := len(journal[0].Payload) + len(journal[1].Payload)
	for maxBytes, want := range map[int]int{0: 1, size - 1: 1, size: 2, 1 << 20: 7} {
		if d, err := o.Delivery(t.Context(), id, 0, 100, maxBytes); err != nil || len(d.Events) != want {
			t.Errorf("Delivery of %d bytes: got %d events, %v, want %d", maxBytes, len(d.Events), err, want)
		}
	}
	if d, err := o.Delivery(t.Context(), id, 2, 0, 1<<20); err != nil || len(d.Events) != 0 || d.Prev != journal[1].Hash {
		t.Errorf("Delivery of nothing: got %+v, %v", d, err)
	}
	for _, seq := range []uint64{8, 1 << 40, 1 << 63} {
		if _, err := o.HashAt(t.Context(), id, seq); !errors.Is(err, session.ErrUnknownID) {
			t.Errorf("HashAt %d: got %v, want ErrUnknownID", seq, err)
		}
		if _, err := o.Delivery(t.Context(), id, seq, 1, 1); !errors.Is(err, session.ErrUnknownID) {
			t.Errorf("Delivery after %d: got %v, want ErrUnknownID", seq, err)
		}
	}
	if _, err := o.HashAt(t.Context(), "nobody", 1); !errors.Is(err, session.ErrUnknownID) {
		t.Errorf("HashAt of an unknown session: got %v", err)
	}
}

// An event that does not match the chain is not delivered. The other lanes continue (O3).
func TestDamagedEventStaysHome(t *testing.T) {
	o := options(t)
	s := open(t, o)
	a, b := create(t, s, 1), create(t, s, 1)
	must(t, s.Close())
	tamper(t, o, `DROP TRIGGER events_update; UPDATE events SET payload = replace(payload, '"h"', '"x"') WHERE session = 1`)
	s = open(t, o)
	ob := openOutbox(t, s)
	if d, err := ob.Delivery(t.Context(), a.Session().ID, 0, 100, 1<<20); !errors.Is(err, session.ErrCorrupt) || len(d.Events) != 0 {
		t.Errorf("Delivery of a changed event: got %d events, %v", len(d.Events), err)
	}
	if d, err := ob.Delivery(t.Context(), b.Session().ID, 0, 100, 1<<20); err != nil || len(d.Events) != 4 {
		t.Errorf("Delivery of another session: got %d events, %v", len(d.Events), err)
	}
	acknowledge(t, ob, b.Session().ID, 4)
}

// Blobs that are not sealed are listed before the event that names them. Sealed blobs are
// never listed.
func TestBlobsOfADelivery(t *testing.T) {
	s := open(t, options(t))
	w := create(t, s, 2)
	plain, err := w.Stage(t.Context(), strings.NewReader("an output"), 9)
	must(t, err)
	sealed, err := w.Stage(t.Context(), strings.NewReader(secretWord), int64(len(secretWord)))
	must(t, err)
	large, err := w.Stage(t.Context(), strings.NewReader(strings.Repeat("x", 70<<10)), 70<<10)
	must(t, err)
	kept := strings.Repeat("k", 64)
	appendAll(t, w, session.Draft{Type: session.StepStarted, Data: session.StepStartedData{StepID: stepID(0), Kind: session.KindWrite, Key: key(w, 0, 1), Attempt: 1,
		Files: []session.Transition{{Path: "a", Kept: plain.Hash}, {Path: "b", Kept: sealed.Hash}, {Path: "c", Kept: large.Hash}, {Path: "d", Kept: kept}}}})
	long := completed(w, 0, 1)
	data := long.Data.(session.StepCompletedData)
	data.Matches = &session.Output{Text: strings.Repeat("m", 20<<10), Blob: plain}
	long.Data = data
	appendAll(t, w, long)
	o := openOutbox(t, s)
	d, err := o.Delivery(t.Context(), w.Session().ID, 0, 100, 1<<20)
	must(t, err)
	refs := o.Blobs(d)
	if len(refs) != 4 || refs[0].Hash != w.Session().Plan.Hash || refs[1] != plain || refs[2].Hash != kept || refs[3].Bytes < 20<<10 {
		t.Fatalf("Blobs: got %+v; want the plan, %s, the invalid hash and the payload", refs, plain.Hash)
	}
	for hash, want := range map[string]string{plain.Hash: "an output", refs[0].Hash: `"version":1`, refs[3].Hash: `"matches":{`} {
		r, err := o.Blob(t.Context(), hash)
		must(t, err)
		b, err := io.ReadAll(r)
		if err != nil || !strings.Contains(string(b), want) || r.Close() != nil {
			t.Errorf("Blob %s: got %.40q, %v", hash, b, err)
		}
	}
	for hash, want := range map[string]error{sealed.Hash: session.ErrKey, large.Hash: session.ErrCorrupt, kept: session.ErrCorrupt} {
		if r, err := o.Blob(t.Context(), hash); !errors.Is(err, want) || r != nil {
			t.Errorf("Blob %.8s: got %v, want %v", hash, err, want)
		}
	}
	must(t, o.Close())
	if got := o.Blobs(d); len(got) < 5 {
		t.Errorf("Blobs that could not be looked at: got %d, want all that are named", len(got))
	}
}

// A receipt's manifest of the files after a command loads again, and its blob is
// delivered.
func TestManifestsOfReceipts(t *testing.T) {
	s := open(t, options(t))
	w := create(t, s, 3)
	var blobs []string
	for i, end := range []func(key, manifest string) session.Draft{
		func(key, manifest string) session.Draft {
			return session.Draft{Type: session.StepCompleted, Data: session.StepCompletedData{StepID: stepID(0), Key: key, Attempt: 1, Manifest: manifest}}
		},
		func(key, manifest string) session.Draft {
			return session.Draft{Type: session.StepFailedEvent, Data: session.StepFailedData{StepID: stepID(1), Key: key, Attempt: 1, Code: session.ErrCommand, Manifest: manifest}}
		},
		func(key, manifest string) session.Draft {
			return session.Draft{Type: session.StepUnknown, Data: session.StepUnknownData{StepID: stepID(2), Key: key, Attempt: 1, Manifest: manifest}}
		},
	} {
		ref, err := w.Stage(t.Context(), strings.NewReader(stepName(i)), int64(len(stepName(i))))
		must(t, err)
		blobs = append(blobs, ref.Hash)
		appendAll(t, w, started(w, i, 1))
		appendAll(t, w, end(key(w, i, 1), ref.Hash))
		id := w.Session().ID
		must(t, w.Close())
		if w = load(t, s, id); w.Session().Manifest != ref.Hash {
			t.Errorf("Load after %d receipts: got manifest %q, want %s", i+1, w.Session().Manifest, ref.Hash)
		}
	}
	o := openOutbox(t, s)
	d, err := o.Delivery(t.Context(), w.Session().ID, 0, 100, 1<<20)
	must(t, err)
	for _, want := range blobs {
		if !slices.ContainsFunc(o.Blobs(d), func(r session.BlobRef) bool { return r.Hash == want }) {
			t.Errorf("Blobs: %s is missing", want)
		}
	}
}

// 10,000 sessions without changes cost nothing: repeated queries read the outbox, and
// rows by their number.
func TestCostFollowsWhatChanged(t *testing.T) {
	s := open(t, options(t))
	o := openOutbox(t, s)
	plans, err := o.Plans(t.Context())
	must(t, err)
	for name, lines := range plans {
		for _, line := range lines {
			few := line == "SCAN o" || line == "SCAN outbox" || line == "SCAN w" || line == "SCAN lanes USING INDEX lanes_in_trouble"
			one := strings.Contains(line, "USING INTEGER PRIMARY KEY (rowid=?)")
			if strings.HasPrefix(line, "SCAN") && !few || strings.HasPrefix(line, "SEARCH") && !one || strings.Contains(line, "TEMP B-TREE") {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
	if len(plans) != 3 || !slices.Contains(plans["changed"], "SCAN o") {
		t.Errorf("plans: got %q", plans)
	}
	w := create(t, s, 1)
	for range local.DeliveredRows + 8 {
		acknowledge(t, o, create(t, s, 1).Session().ID, 4)
	}
	if got := changed(t, o); len(got) != 1 || got[0].Session != w.Session().ID {
		t.Errorf("Changed: got %+v", got)
	}
	if nos, err := o.Enlisted(t.Context()); err != nil || !slices.Equal(nos, []int64{1}) {
		t.Errorf("the outbox has sessions %v, %v; want the delivered ones removed", nos, err)
	}
}

// An outbox needs a store open for writing. It reports that its database was moved away,
// or that it is closed.
func TestOutboxOfNothing(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := create(t, s, 1)
	if _, err := openRead(t, o).Outbox(t.Context()); !errors.Is(err, session.ErrReadOnly) {
		t.Errorf("Outbox of a store for reading: got %v", err)
	}
	ob := openOutbox(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ob.Changed(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Changed without time: got %v", err)
	}
	must(t, os.Rename(filepath.Join(o.Home, "acode.db"), filepath.Join(o.Home, "away")))
	if _, err := ob.Changed(t.Context()); !errors.Is(err, session.ErrStoreIO) {
		t.Errorf("Changed of a store that was taken away: got %v", err)
	}
	must(t, os.Rename(filepath.Join(o.Home, "away"), filepath.Join(o.Home, "acode.db")))
	if got := changed(t, ob); len(got) != 1 {
		t.Errorf("Changed of a store that was put back: got %+v", got)
	}
	must(t, ob.Close())
	must(t, ob.Close())
	if err := ob.SaveLane(t.Context(), session.Lane{Session: w.Session().ID}); !errors.Is(err, session.ErrInternal) {
		t.Errorf("SaveLane after Close: got %v", err)
	}
}

// A drainer that writes heartbeats for months with no other writer keeps the log short.
func TestLogOfAnIdleDrainerStaysShort(t *testing.T) {
	opts := options(t)
	o := openOutbox(t, open(t, opts))
	for i := range 3 * local.OutboxFrames {
		must(t, o.Beat(t.Context(), session.Heartbeat{BeatUS: int64(i)}))
	}
	info, err := os.Stat(filepath.Join(opts.Home, "acode.db-wal"))
	must(t, err)
	if most := int64(local.OutboxFrames+100) * 8216; info.Size() > most || info.Size() < most/2 {
		t.Errorf("log: got %d bytes after %d heartbeats, want at most %d", info.Size(), 3*local.OutboxFrames, most)
	}
}

// L6: after a failed write nothing is written. A full disk is no such failure.
func TestOutboxStopsAfterAFailedWrite(t *testing.T) {
	s := open(t, options(t))
	w := create(t, s, 1)
	o := openOutbox(t, s)
	must(t, o.OutboxExec(t.Context(), `DELETE FROM outbox`))
	if err := o.OutboxExec(t.Context(), `INSERT INTO lanes (session_no) VALUES (1)`); err == nil || errors.Is(err, session.ErrStoreIO) {
		t.Errorf("a row that the schema refuses: got %v", err)
	}
	if err := o.OutboxExec(t.Context(), `INSERT INTO nowhere VALUES (1)`); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("a table that is gone: got %v", err)
	}
	if err := o.SaveLane(t.Context(), session.Lane{Session: w.Session().ID}); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("SaveLane afterwards: got %v, want the same failure", err)
	}
	must(t, o.Close())
	full := openOutbox(t, s)
	pages, err := full.OutboxPragma(t.Context(), "page_count")
	must(t, err)
	_, err = full.OutboxPragma(t.Context(), "max_page_count = "+pages)
	must(t, err)
	l := session.Lane{Session: w.Session().ID, Reason: strings.Repeat("r", 100<<10)}
	if err := full.SaveLane(t.Context(), l); !errors.Is(err, session.ErrDiskFull) {
		t.Errorf("SaveLane on a full disk: got %v", err)
	}
	_, err = full.OutboxPragma(t.Context(), "max_page_count = 100000")
	must(t, err)
	saveLane(t, full, l)
}

// The settings of an Outbox's connection are in its DSN.
func TestOutboxHasItsPragmas(t *testing.T) {
	o := openOutbox(t, open(t, options(t)))
	for name, want := range map[string]string{"synchronous": "1", "journal_mode": "wal", "secure_delete": "1", "foreign_keys": "1", "busy_timeout": "200", "wal_autocheckpoint": "0", "trusted_schema": "0",
		"fullfsync": "1"} {
		if got, err := o.OutboxPragma(t.Context(), name); err != nil || got != want {
			t.Errorf("PRAGMA %s: got %q, %v, want %q", name, got, err, want)
		}
	}
}

// A drainer waits for a writer of another process, but not for long.
func TestOutboxWaitsForWriters(t *testing.T) {
	opts := options(t)
	s, other := open(t, opts), open(t, opts)
	w := create(t, s, 1)
	o := openOutbox(t, s)
	must(t, other.Exec(t.Context(), `BEGIN IMMEDIATE`))
	done := make(chan error, 1)
	go func() {
		done <- o.SaveLane(context.Background(), session.Lane{Session: w.Session().ID, Acked: 4, Remote: serverA})
	}()
	if got, err := s.Lane(t.Context(), w.Session().ID); err != nil || got.Acked != 0 {
		t.Errorf("Lane meanwhile: got %+v, %v", got, err)
	}
	must(t, other.Exec(t.Context(), `COMMIT`))
	must(t, <-done)
	must(t, other.Exec(t.Context(), `BEGIN IMMEDIATE`))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := o.SaveLane(ctx, session.Lane{Session: w.Session().ID}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("SaveLane beside a writer that does not end: got %v", err)
	}
	must(t, other.Exec(t.Context(), `ROLLBACK`))
}

// slow is content that arrives when the test allows it.
type slow struct{ asked, goOn chan struct{} }

func (s slow) Read(p []byte) (int, error) {
	close(s.asked)
	<-s.goOn
	return 0, io.EOF
}

// A writer of this process that is busy with a file does not delay the drainer.
func TestOutboxDoesNotWaitForFiles(t *testing.T) {
	s := open(t, options(t))
	w := create(t, s, 1)
	o := openOutbox(t, s)
	content := slow{make(chan struct{}), make(chan struct{})}
	done := make(chan error, 1)
	go func() {
		_, err := w.Stage(context.Background(), content, 1<<20)
		done <- err
	}()
	<-content.asked
	acknowledge(t, o, w.Session().ID, 4)
	close(content.goOn)
	if err := <-done; !errors.Is(err, session.ErrFileChanged) {
		t.Errorf("Stage of less than was said: got %v", err)
	}
}

// News reports commits of others and not of the drainer itself (FR-050: it wakes an idle
// lane).
func TestNewsAreCommitsOfOthers(t *testing.T) {
	s := open(t, options(t))
	w := create(t, s, 1)
	o := openOutbox(t, s)
	for i, step := range []struct {
		do   func()
		want bool
	}{
		{func() {}, true}, {func() {}, false},
		{func() { appendAll(t, w, tick()) }, true}, {func() {}, false},
		{func() { acknowledge(t, o, w.Session().ID, 1) }, false},
		{func() { must(t, o.Beat(t.Context(), session.Heartbeat{PID: 1})) }, false},
		{func() { must(t, s.PauseSync(t.Context(), true)) }, true},
	} {
		step.do()
		if got, err := o.News(t.Context()); err != nil || got != step.want {
			t.Errorf("News %d: got %v, %v, want %v", i, got, err, step.want)
		}
	}
}

// world is one store with two processes that write and one that delivers.
type world struct {
	t      *rapid.T
	opts   local.Options
	stores []*local.Store
	outbox *local.Outbox
	ws     []*local.Writer
	// read and nos are lanes and outbox numbers that the drainer read earlier.
	read []session.Lane
	nos  []int64
	// time of the newest event
	lastUS int64
}

// later records that events up to now were committed (L3, also across processes).
func (w *world) later(now int64, err error) {
	w.must(err)
	if now <= w.lastUS {
		w.t.Fatalf("an event of time %d after one of %d", now, w.lastUS)
	}
	w.lastUS = now
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Fatalf("%v", err)
	}
}

func (w *world) create(ctx context.Context) {
	s := rapid.SampledFrom(w.stores).Draw(w.t, "store")
	id, err := s.NewID()
	w.must(err)
	made, err := s.Create(ctx, local.NewSession{ID: id, Task: "test", Workspace: "/ws", Plan: plan(1)})
	w.must(err)
	w.later(made.Session().LastUS, nil)
	w.ws = append(w.ws, made)
}

func (w *world) pick() *local.Writer { return rapid.SampledFrom(w.ws).Draw(w.t, "session") }

// judge checks that the drainer finds each session with pending events.
func (w *world) judge(ctx context.Context) {
	got, err := w.outbox.Changed(ctx)
	w.must(err)
	lanes, err := w.outbox.Lanes(ctx) // not earlier, because Lanes adds missing sessions
	w.must(err)
	var want []session.Lane
	sum := uint64(0)
	for _, l := range lanes {
		sum += l.Acked
		if l.LastSeq > l.Acked {
			want = append(want, l)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Fatalf("Changed: (-pending +found)\n%s", diff)
	}
	if _, acked, err := w.outbox.Totals(ctx); err != nil || acked[serverA] != sum {
		w.t.Fatalf("Totals: got %v, %v, want %d", acked, err, sum)
	}
}

// No commit is lost in any order of appends, reads, acknowledgements and removals.
func TestNoCommitIsLost(t *testing.T) {
	o := options(t)
	must(t, open(t, o).Close())
	rapid.Check(t, func(rt *rapid.T) {
		ctx := context.Background()
		w := &world{t: rt, opts: o}
		w.opts.Home = filepath.Join(t.TempDir(), "home")
		copyHome(t, o.Home, w.opts.Home)
		for range 2 {
			s, err := local.Open(ctx, w.opts)
			w.must(err)
			defer s.Close()
			w.stores = append(w.stores, s)
		}
		var err error
		w.outbox, err = w.stores[0].Outbox(ctx)
		w.must(err)
		defer w.outbox.Close()
		w.create(ctx)
		rt.Repeat(map[string]func(*rapid.T){
			"create": func(*rapid.T) { w.create(ctx) },
			"append": func(*rapid.T) {
				at := w.pick()
				_, err := at.Append(ctx, tick())
				w.later(at.Session().LastUS, err)
			},
			"refused": func(*rapid.T) {
				if _, err := w.pick().Append(ctx, tick(), session.Draft{Type: session.StateChanged, Data: session.StateChangedData{From: session.Paused}}); err == nil {
					w.t.Fatal("an illegal event was taken")
				}
			},
			// a commit that adds no event
			"blob alone": func(*rapid.T) {
				at := w.pick()
				text := rapid.String().Draw(rt, "text")
				_, err := at.Stage(ctx, strings.NewReader(text), int64(len(text)))
				w.must(err)
				_, err = at.Append(ctx)
				w.must(err)
			},
			"request": func(*rapid.T) {
				w.must(w.stores[1].Ask(ctx, session.Request{Session: w.pick().Session().ID, Kind: session.RequestCancel, By: "me"}))
			},
			"read": func(*rapid.T) {
				w.read, err = w.outbox.Changed(ctx)
				w.must(err)
			},
			"ack": func(*rapid.T) {
				for _, l := range w.read {
					l.Acked = rapid.SampledFrom([]uint64{l.LastSeq, l.LastSeq, l.LastSeq - 1}).Draw(rt, "mark")
					l.Remote = serverA
					w.must(w.outbox.SaveLane(ctx, l))
				}
			},
			"look":   func(*rapid.T) { w.nos, err = w.outbox.Enlisted(ctx); w.must(err) },
			"remove": func(*rapid.T) { w.must(w.outbox.RemoveDelivered(ctx, w.nos)) },
			// all of these at once
			"drain": func(*rapid.T) {
				w.read, err = w.outbox.Changed(ctx)
				w.must(err)
				for _, l := range w.read {
					l.Acked, l.Remote = l.LastSeq, serverA
					w.must(w.outbox.SaveLane(ctx, l))
				}
				w.nos, err = w.outbox.Enlisted(ctx)
				w.must(err)
				w.must(w.outbox.RemoveDelivered(ctx, w.nos))
			},
			"beat": func(*rapid.T) { w.must(w.outbox.Beat(ctx, session.Heartbeat{})) },
			"":     func(*rapid.T) { w.judge(ctx) },
		})
	})
}

// After a commit without an event, the next commit finds everything unchanged. It must
// still insert the session again.
func TestCommitWithoutEventsIsNotTheLastWord(t *testing.T) {
	s := open(t, options(t))
	w := create(t, s, 1)
	o := openOutbox(t, s)
	acknowledge(t, o, w.Session().ID, 4)
	must(t, o.RemoveDelivered(t.Context(), []int64{1}))
	if nos, err := o.Enlisted(t.Context()); err != nil || len(nos) != 0 {
		t.Fatalf("the outbox has sessions %v, %v", nos, err)
	}
	_, err := w.Stage(t.Context(), strings.NewReader("x"), 1)
	must(t, err)
	appendAll(t, w)
	appendAll(t, w, tick())
	if got := changed(t, o); len(got) != 1 || got[0].Pending() != 1 {
		t.Errorf("Changed: got %+v", got)
	}
}

// The drainer reads and acknowledges while others commit. In the end everything is
// acknowledged, and the journal is complete.
func TestDrainingBesideWriters(t *testing.T) {
	opts := options(t)
	s, other := open(t, opts), open(t, opts)
	ws := []*local.Writer{create(t, s, 1), create(t, other, 1)}
	o := openOutbox(t, s)
	var writers, drainers sync.WaitGroup
	stop := make(chan struct{})
	for _, w := range ws {
		writers.Go(func() {
			for range 60 {
				if _, err := w.Append(context.Background(), tick()); err != nil {
					t.Errorf("Append: %v", err)
					return
				}
			}
		})
	}
	for _, w := range ws {
		drainers.Go(func() {
			for last := false; !last; {
				select {
				case <-stop:
					last = true // read earlier commits once more
				default:
				}
				if err := drainLane(o, w.Session().ID); err != nil {
					t.Errorf("drain: %v", err)
					return
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	drainers.Wait()
	if got := changed(t, o); len(got) != 0 {
		t.Errorf("Changed: got %+v", got)
	}
	if r := verify(t, s); len(r.Problems) != 0 {
		t.Errorf("Verify: %v", r.Problems)
	}
	if busy, err := s.Truncate(t.Context()); err != nil || busy {
		t.Errorf("a checkpoint afterwards: got busy %v, %v; want no cursor in its way", busy, err)
	}
}

// drainLane acknowledges without a server.
func drainLane(o *local.Outbox, id session.ID) error {
	lanes, err := o.Changed(context.Background())
	if err != nil {
		return err
	}
	for _, l := range lanes {
		if l.Session != id {
			continue
		}
		d, err := o.Delivery(context.Background(), id, l.Acked, 10, 1<<20)
		if err != nil {
			return err
		}
		l.Acked, l.Remote = l.Acked+uint64(len(d.Events)), serverA
		if err := o.SaveLane(context.Background(), l); err != nil || l.Pending() == 0 {
			return err
		}
		return drainLane(o, id)
	}
	return nil
}

// backlogOf makes n pending events of the size of steps with results.
func backlogOf(t testing.TB, s *local.Store, n int) session.ID {
	t.Helper()
	w := create(t, s, n)
	for i := 0; i < n; i += 100 {
		var ds []session.Draft
		for j := i; j < i+100; j += 2 {
			intent, receipt := padded(w, j)
			ds = append(ds, intent, receipt)
		}
		appendAll(t, w, ds...)
	}
	return w.Session().ID
}

func BenchmarkDelivery(b *testing.B) {
	s := open(b, options(b))
	id := backlogOf(b, s, 10_000)
	o := openOutbox(b, s)
	b.ResetTimer()
	n := 0
	for b.Loop() {
		for after := uint64(0); ; {
			d, err := o.Delivery(b.Context(), id, after, 1000, 1<<20)
			must(b, err)
			if len(d.Events) == 0 {
				break
			}
			after += uint64(len(d.Events))
			n += len(d.Events)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/event")
}

// BenchmarkAppendWhileDraining is BenchmarkAppend beside a drainer that acknowledges each
// step.
func BenchmarkAppendWhileDraining(b *testing.B) {
	s := open(b, options(b))
	w := create(b, s, 1)
	o := openOutbox(b, s)
	i := 0
	intent, receipt := padded(w, i)
	appendAll(b, w, intent)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := drainLane(o, w.Session().ID); err != nil {
				b.Error(err)
				return
			}
		}
	}()
	for b.Loop() {
		i++
		start, next := padded(w, i)
		appendAll(b, w, receipt, start)
		receipt = next
	}
	close(stop)
	<-done
}

// A session stays in the outbox if it gets an event while Changed finds it delivered.
func TestEventWhileRemovingDelivered(t *testing.T) {
	s := open(t, options(t))
	o := openOutbox(t, s)
	w := create(t, s, 1)
	acknowledge(t, o, w.Session().ID, w.Session().LastSeq)
	appendAll(t, w, started(w, 0, 1))
	must(t, o.TakeOut(t.Context(), 1))
	if got := changed(t, o); len(got) != 1 {
		t.Errorf("Changed: got %+v, want the session that went on", got)
	}
	acknowledge(t, o, w.Session().ID, w.Session().LastSeq)
	must(t, o.TakeOut(t.Context(), 1))
	if nos, err := o.Enlisted(t.Context()); err != nil || len(nos) != 0 {
		t.Errorf("the outbox has sessions %v, %v; want none", nos, err)
	}
}
