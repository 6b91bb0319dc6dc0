package local_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
	"github.com/google/go-cmp/cmp"
)

var (
	_ engine.Journal = (*local.Writer)(nil)
	_ engine.Blobs   = (*local.Writer)(nil)
)

// clock is a wall clock that tests move by hand.
type clock struct{ at time.Time }

func newClock() *clock { return &clock{time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) now() time.Time { return c.at }

// masker redacts one word.
type masker string

func (m masker) Value(v any) any {
	return redact.Texts(v, func(_, text string) string { return strings.ReplaceAll(text, string(m), "****") })
}

func (m masker) Changes(b []byte) bool { return strings.Contains(string(b), string(m)) }

func (m masker) Memory([]byte) []byte          { return []byte("fingerprint of " + m[:2]) }
func (m masker) Remember([]byte, []byte) error { return nil }

const secretWord = "s3cr3t-hunter2-word"

func options(t testing.TB) local.Options {
	t.Helper()
	return local.Short(local.Options{Home: filepath.Join(t.TempDir(), "home"), Now: newClock().now, Redactor: masker(secretWord), Version: "test"})
}

func open(t testing.TB, o local.Options) *local.Store {
	t.Helper()
	s, err := local.Open(t.Context(), o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func openRead(t testing.TB, o local.Options) *local.Store {
	t.Helper()
	s, err := local.OpenRead(t.Context(), o)
	if err != nil {
		t.Fatalf("OpenRead: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func plan(steps int) *session.Plan {
	p := &session.Plan{Version: 1, Task: "test", OnFailure: session.FailurePauses, Tasks: []session.Task{{ID: "t"}}}
	for i := range steps {
		p.Tasks[0].Steps = append(p.Tasks[0].Steps, session.Step{ID: stepName(i), Kind: session.KindApprove, Approve: "go on?"})
	}
	return p
}

func stepName(i int) string { return fmt.Sprintf("step-%05d", i) }

func stepID(i int) session.StepID { return session.StepID{Task: "t", Step: stepName(i)} }

// create begins a session that executes in epoch 1.
func create(t testing.TB, s *local.Store, steps int) *local.Writer {
	t.Helper()
	id, err := s.NewID()
	if err != nil {
		t.Fatalf("NewID: %v", err)
	}
	w, err := s.Create(t.Context(), local.NewSession{ID: id, Task: "test", Workspace: "/ws", Plan: plan(steps), Config: "cfg"})
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	t.Cleanup(func() { _ = w.Close() })
	appendAll(t, w, acquire(s), session.Draft{Type: session.StateChanged, Data: session.StateChangedData{From: session.Planning, To: session.Executing}})
	return w
}

func acquire(s *local.Store) session.Draft {
	return session.Draft{Type: session.ExecutionAcquired, Data: session.ExecutionAcquiredData{Device: s.Device(), Host: "h", PID: 1, Workspace: "/ws"}}
}

func appendAll(t testing.TB, w *local.Writer, ds ...session.Draft) []session.Event {
	t.Helper()
	es, err := w.Append(context.Background(), ds...)
	if err != nil {
		t.Fatalf("Append: %v", err)
	}
	return es
}

func key(w *local.Writer, i, attempt int) string {
	return session.Key{Session: w.Session().ID, Step: stepID(i), Operation: session.OpMain, Attempt: attempt}.String()
}

func started(w *local.Writer, i, attempt int) session.Draft {
	return session.Draft{Type: session.StepStarted, Data: session.StepStartedData{StepID: stepID(i), Kind: session.KindWrite, Key: key(w, i, attempt), Attempt: attempt, Digest: "d"}}
}

func completed(w *local.Writer, i, attempt int, files ...session.FileState) session.Draft {
	return session.Draft{Type: session.StepCompleted, Data: session.StepCompletedData{StepID: stepID(i), Key: key(w, i, attempt), Attempt: attempt, Files: files}}
}

func failed(w *local.Writer, i, attempt int) session.Draft {
	return session.Draft{Type: session.StepFailedEvent, Data: session.StepFailedData{StepID: stepID(i), Key: key(w, i, attempt), Attempt: attempt, Code: session.ErrCommand, Message: "exit 1"}}
}

func load(t testing.TB, s *local.Store, id session.ID) *local.Writer {
	t.Helper()
	w, err := s.Load(t.Context(), id)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// FR-009, FR-015, FR-017: appended events are there after a new open, which starts from
// the checkpoint.
func TestAppendedSessionLoadsEqual(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := create(t, s, 3)
	appendAll(t, w, started(w, 0, 1))
	appendAll(t, w, completed(w, 0, 1, session.FileState{Path: "a", Hash: "aa", Size: 3, Inode: 1 << 63, Wrote: true}), started(w, 1, 1))
	appendAll(t, w, failed(w, 1, 1))
	want := w.Session()
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	s = open(t, o)
	got := load(t, s, want.ID)
	if diff := cmp.Diff(want, got.Session()); diff != "" {
		t.Errorf("Load: (-want +got)\n%s", diff)
	}
	if e, err := got.Event(t.Context(), want.LastSeq+1); !errors.Is(err, session.ErrUnknownID) {
		t.Errorf("Event after the last: got %+v, %v", e, err)
	}
	r := got.Report()
	if r.Checkpoint != 8 || r.BadCheckpoint != "" || len(r.Warnings) != 0 || r.Order.Count != 1 {
		t.Errorf("Report: got %+v", r)
	}
	appendAll(t, got, acquire(s), started(got, 1, 2), completed(got, 1, 2))
	view, err := s.View(t.Context(), want.ID)
	if err != nil {
		t.Fatalf("View: %v", err)
	}
	if diff := cmp.Diff(got.Session(), view); diff != "" {
		t.Errorf("View: (-want +got)\n%s", diff)
	}
	events, err := openRead(t, o).Events(t.Context(), want.ID, 0, 100)
	if err != nil {
		t.Fatalf("Events: %v", err)
	}
	for _, e := range events {
		if e.Actor != "acode" { // no draft names another
			t.Errorf("Events: seq %d is by %q", e.Seq, e.Actor)
		}
	}
	replayed, _, err := session.Replay(events)
	if err != nil {
		t.Fatalf("Replay: %v", err)
	}
	if diff := cmp.Diff(replayed, view); diff != "" {
		t.Errorf("Replay: (-want +got)\n%s", diff)
	}
}
