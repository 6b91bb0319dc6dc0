package local_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

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

func changedTo(from, to session.State) session.Draft {
	return session.Draft{Type: session.StateChanged, Data: session.StateChangedData{From: from, To: to, Reason: session.ReasonUser}}
}

// recounted is what the events alone tell, whatever was kept.
func recounted(t testing.TB, s *local.Store) map[session.WorkKey]uint64 {
	t.Helper()
	var w session.Work
	sums, err := s.Summaries(t.Context(), "")
	must(t, err)
	for _, sum := range sums {
		events, err := s.Events(t.Context(), sum.ID, 0, 1<<20)
		must(t, err)
		var c session.Counted
		for _, e := range events {
			var d session.StateChangedData
			if e.Type == session.StateChanged {
				must(t, e.Decode(&d))
			}
			c.Count(&w, e, d.To)
		}
	}
	return w.Counts
}

// However sessions interleave and whenever somebody counts, the sum is that of all events.
func TestWorkIsExact(t *testing.T) {
	s := open(t, options(t))
	o := openOutbox(t, s)
	var ws []*local.Writer
	rapid.Check(t, func(rt *rapid.T) {
		for range rapid.IntRange(1, 5).Draw(rt, "commits") {
			i := rapid.IntRange(0, min(len(ws), 2)).Draw(rt, "session")
			if i == len(ws) || i == 2 {
				ws = append(ws, create(t, s, 1))
				i = len(ws) - 1
			}
			w := ws[max(0, len(ws)-1-i)]
			attempt := 0
			if st := w.Session().Steps[stepID(0)]; st != nil {
				attempt = st.Attempt
			}
			appendAll(t, w, started(w, 0, attempt+1))
			switch rapid.IntRange(0, 4).Draw(rt, "end") {
			case 0:
				appendAll(t, w, failed(w, 0, attempt+1))
			case 1:
				appendAll(t, w, failed(w, 0, attempt+1), changedTo(session.Executing, session.Paused), acquire(s), changedTo(session.Paused, session.Executing))
			case 2:
				appendAll(t, w, acquire(s))
			case 3:
				must(t, o.CountWork(t.Context()))
			}
		}
		if rapid.IntRange(0, 9).Draw(rt, "look") > 0 {
			return
		}
		if diff := cmp.Diff(recounted(t, s), workOf(t, s)); diff != "" {
			rt.Fatalf("Work (-want +got):\n%s", diff)
		}
	})
	must(t, s.CountWork(t.Context()))
	if diff := cmp.Diff(recounted(t, s), workOf(t, s)); diff != "" {
		t.Errorf("Work when all is kept (-want +got):\n%s", diff)
	}
}

// A long journal and many short ones are counted in pieces, by as many as want to at once.
func TestWorkIsCountedInPieces(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := create(t, s, 1)
	const attempts = 2500
	for n := 0; n < attempts; {
		var ds []session.Draft
		for range 500 {
			n++
			ds = append(ds, started(w, 0, n), failed(w, 0, n))
		}
		appendAll(t, w, ds...)
	}
	for range 65 {
		create(t, s, 1)
	}
	want := map[session.WorkKey]uint64{steps(session.StepsFailed): attempts, {Kind: session.WorkLocks, Outcome: session.LockAcquired}: 66}
	if diff := cmp.Diff(want, workOf(t, s)); diff != "" {
		t.Errorf("Work before anybody counted (-want +got):\n%s", diff)
	}
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		other := openRead(t, o)
		wg.Go(func() { errs[i] = other.CountWork(t.Context()) })
	}
	wg.Wait()
	must(t, errors.Join(errs...))
	must(t, s.CountWork(t.Context()))
	if diff := cmp.Diff(want, workOf(t, s)); diff != "" {
		t.Errorf("Work that several counted (-want +got):\n%s", diff)
	}
	behind, err := s.Uncounted(t.Context())
	must(t, err)
	if behind != 0 {
		t.Errorf("CountWork left %d sessions", behind)
	}
	// What is kept outlives the session.
	must(t, s.Exec(t.Context(), `PRAGMA foreign_keys = 0`))
	must(t, s.Exec(t.Context(), `DELETE FROM sessions WHERE no = 1`))
	if got := workOf(t, s); got[steps(session.StepsFailed)] != attempts {
		t.Errorf("Work without the session: got %v", got)
	}
}

// A session that goes on under another name did nothing twice.
func TestForkIsNotCountedAgain(t *testing.T) {
	s := open(t, options(t))
	w := create(t, s, 3)
	appendAll(t, w, started(w, 0, 1), completed(w, 0, 1), acquire(s), started(w, 1, 1))
	made := forkOff(t, s, w, 2, map[session.StepID]string{stepID(1): "nobody can know"})
	loaded := load(t, s, made.ID)
	appendAll(t, loaded, acquire(s), started(loaded, 2, 1), completed(loaded, 2, 1))
	want := map[session.WorkKey]uint64{
		steps(session.StepsCompleted): 2, steps(session.StepsUnknown): 2,
		{Kind: session.WorkLocks, Outcome: session.LockAcquired}:                                   3,
		{Kind: session.WorkResumes, Mode: session.ResumeRecover, Outcome: session.ResumeCancelled}: 1,
	}
	if diff := cmp.Diff(want, workOf(t, s)); diff != "" {
		t.Errorf("Work (-want +got):\n%s", diff)
	}
	must(t, s.CountWork(t.Context()))
	if diff := cmp.Diff(want, workOf(t, s)); diff != "" {
		t.Errorf("Work when it is kept (-want +got):\n%s", diff)
	}
}

// F6: a store that an older program made is counted as it is, and left so.
func TestVersion1IsCounted(t *testing.T) {
	o := unpackVersion1(t)
	before, err := os.ReadFile(filepath.Join(o.Home, "acode.db"))
	must(t, err)
	s := openRead(t, o)
	must(t, s.CountWork(t.Context()))
	want := workOf(t, s)
	if diff := cmp.Diff(recounted(t, s), want); diff != "" || want[steps(session.StepsCompleted)] == 0 {
		t.Errorf("Work (-want +got):\n%s", diff)
	}
	after, err := os.ReadFile(filepath.Join(o.Home, "acode.db"))
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the database was changed (%v)", err)
	}
	if diff := cmp.Diff(want, workOf(t, open(t, o))); diff != "" {
		t.Errorf("Work of the migrated store (-want +got):\n%s", diff)
	}
}

// The state of an event may lie in a blob, and damage hides no more than what it met.
func TestWorkOfOddEvents(t *testing.T) {
	s := open(t, options(t))
	long := create(t, s, 1)
	appendAll(t, long, acquire(s), session.Draft{Type: session.StateChanged, Data: session.StateChangedData{
		From: session.Executing, To: session.Paused, Detail: strings.Repeat("x", 2*session.MaxPayloadBytes)}})
	damaged := create(t, s, 1)
	appendAll(t, damaged, acquire(s), changedTo(session.Executing, session.Paused))
	must(t, s.Exec(t.Context(), `DROP TRIGGER events_update`))
	must(t, s.Exec(t.Context(), `UPDATE events SET payload = '{' WHERE session = 2 AND seq = 6`))
	appendAll(t, damaged, acquire(s), changedTo(session.Paused, session.Executing), changedTo(session.Executing, session.Completed))
	want := map[session.WorkKey]uint64{
		{Kind: session.WorkLocks, Outcome: session.LockAcquired}:                                     5,
		{Kind: session.WorkResumes, Mode: session.ResumeRecover, Outcome: session.ResumePaused}:      1,
		{Kind: session.WorkResumes, Mode: session.ResumeRecover, Outcome: session.ResumeInterrupted}: 1,
		{Kind: session.WorkResumes, Mode: session.ResumeRecover, Outcome: session.ResumeCompleted}:   1,
	}
	if diff := cmp.Diff(want, workOf(t, s)); diff != "" {
		t.Errorf("Work (-want +got):\n%s", diff)
	}
}

// What no event tells is added up, by as many processes as there are.
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

// Nobody waits long for figures: a store that somebody keeps busy is left alone.
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
	if err := s.CountWork(t.Context()); err == nil {
		t.Error("CountWork beside one that writes: got no error")
	}
	if got := workOf(t, s)[session.WorkKey{Kind: session.WorkLocks, Outcome: session.LockAcquired}]; got != 1 {
		t.Errorf("Work that could not be kept: got %d acquisitions, want 1", got)
	}
	must(t, busy.Exec(t.Context(), `ROLLBACK`))
	must(t, s.NoteWork(t.Context(), noted))
}
