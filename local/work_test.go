package local_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
)

func workOf(t testing.TB, s *local.Store) map[session.WorkKey]uint64 {
	t.Helper()
	w, err := s.Work(t.Context())
	must(t, err)
	return w.Counts
}

func steps(outcome string) session.WorkKey {
	return session.WorkKey{Kind: session.WorkSteps, Outcome: outcome}
}

func unknowable(w *local.Writer, i, attempt int) session.Draft {
	return session.Draft{Type: session.StepUnknown, Data: session.StepUnknownData{StepID: stepID(i), Attempt: attempt, Key: key(w, i, attempt), Why: "no one can know"}}
}

// Work returns the work of all sessions of the store, from all processes.
func TestWorkIsWhatTheRowsTell(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := create(t, s, 3) // executed once
	appendAll(t, w, started(w, 0, 1), failed(w, 0, 1), started(w, 0, 2), completed(w, 0, 2), started(w, 1, 1), unknowable(w, 1, 1), acquire(s), completed(w, 1, 1))
	other := create(t, s, 1)
	appendAll(t, other, started(other, 0, 1), completed(other, 0, 1))
	want := map[session.WorkKey]uint64{
		steps(session.StepsCompleted): 3, steps(session.StepsFailed): 1, steps(session.StepsUnknown): 1,
		{Kind: session.WorkLocks, Outcome: session.LockAcquired}: 3,
	}
	for name, s := range map[string]*local.Store{"writing": s, "reading": openRead(t, o)} {
		if diff := cmp.Diff(want, workOf(t, s)); diff != "" {
			t.Errorf("%s: Work (-want +got):\n%s", name, diff)
		}
	}
}

// Figures of a store with ten thousand sessions take some tens of milliseconds, because
// no event is read.
func BenchmarkWork(b *testing.B) {
	s := open(b, options(b))
	w := create(b, s, 1)
	intent, receipt := padded(w, 0)
	appendAll(b, w, intent, receipt)
	const many = `WITH RECURSIVE n (v) AS (SELECT 2 UNION ALL SELECT v + 1 FROM n WHERE v < 10000) `
	must(b, s.Exec(b.Context(), many+`INSERT INTO sessions SELECT v, last_seq, last_us, done, head, row_digest, steps, files, key_id, hmac, printf('%036d', v), printf('%06d', v),
		state, left_state, reason, epoch, created_us, plan_bytes, plan_sealed, tasks, step_total, on_failure, device, plan, manifest, task, workspace, detail, git, config
		FROM sessions, n`))
	must(b, s.Exec(b.Context(), many+`INSERT INTO events (pos, id, time_us, type, epoch, hash, payload) SELECT (v << 40) + seq + 10 * m.column1, id, time_us, type, epoch, hash, payload
		FROM events, n, (VALUES (0), (1), (2), (3)) m WHERE pos < 2 << 40`))
	must(b, s.Checkpoint(b.Context()))
	for b.Loop() {
		workOf(b, s)
	}
}

// Figures that no event holds add up over all processes.
func TestNotedWorkAddsUp(t *testing.T) {
	o := options(t)
	s := open(t, o)
	create(t, s, 1)
	var noted session.Work
	held := session.WorkKey{Kind: session.WorkLocks, Outcome: session.LockHeld}
	noted.Add(held, 1)
	noted.Observe(session.PhaseLock, 3*time.Millisecond)
	noted.Observe(session.PhaseLock, time.Hour)
	for range 3 {
		must(t, s.NoteWork(t.Context(), noted))
	}
	w, err := openRead(t, o).Work(t.Context())
	must(t, err)
	want := map[session.ResumePhase]map[int]session.PhaseBucket{session.PhaseLock: {
		session.BucketOf(3 * time.Millisecond): {Count: 3, Sum: 9 * time.Millisecond}, session.BucketOf(time.Hour): {Count: 3, Sum: 3 * time.Hour}}}
	if diff := cmp.Diff(want, w.Phases); diff != "" || w.Counts[held] != 3 {
		t.Errorf("Work: got %v (-want +got):\n%s", w.Counts, diff)
	}
	if r := verify(t, s); len(r.Problems) != 0 {
		t.Errorf("Verify: %v", r.Problems)
	}
}

// NoteWork does not wait long, and skips a store that is locked.
func TestNotedWorkDoesNotWait(t *testing.T) {
	o := options(t)
	s := open(t, o)
	create(t, s, 1)
	var noted session.Work
	noted.Observe(session.PhaseLock, time.Millisecond)
	busy := open(t, o)
	must(t, busy.Exec(t.Context(), `BEGIN IMMEDIATE`))
	begun := time.Now()
	if err := s.NoteWork(t.Context(), noted); err == nil {
		t.Error("NoteWork beside one that writes: got no error")
	}
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("NoteWork waited %s", took)
	}
	if got := workOf(t, s)[session.WorkKey{Kind: session.WorkLocks, Outcome: session.LockAcquired}]; got != 1 {
		t.Errorf("Work beside one that writes: got %d acquisitions, want 1", got)
	}
	must(t, busy.Exec(t.Context(), `ROLLBACK`))
	must(t, s.NoteWork(t.Context(), noted))
}
