package local_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
)

// L6: a full disk breaks the writer. Recover frees the ballast, and one more append
// works.
func TestDiskFullStopsAndRecovers(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := create(t, s, 2)
	before := *w.Session()
	if err := s.Exec(t.Context(), `PRAGMA max_page_count = 1`); err != nil { // its present size
		t.Fatal(err)
	}
	big := session.Draft{Type: session.StateChanged, Data: session.StateChangedData{From: session.Executing, To: session.Paused, Detail: strings.Repeat("x", 12000)}}
	_, err := w.Append(t.Context(), big)
	if !errors.Is(err, session.ErrDiskFull) {
		t.Fatalf("Append: got %v, want %v", err, session.ErrDiskFull)
	}
	if _, again := w.Append(t.Context(), started(w, 0, 1)); !errors.Is(again, session.ErrDiskFull) {
		t.Fatalf("Append after a failure: got %v, want the same error", again)
	}
	if err := w.Recover(t.Context()); err != nil {
		t.Fatalf("Recover: %v", err)
	}
	if w.Session().LastSeq != before.LastSeq || w.Session().Head != before.Head {
		t.Fatalf("Recover: at seq %d, want %d", w.Session().LastSeq, before.LastSeq)
	}
	if _, err := os.Stat(filepath.Join(o.Home, "ballast")); !os.IsNotExist(err) {
		t.Errorf("ballast: still there (%v)", err)
	}
	appendAll(t, w, session.Draft{Type: session.StateChanged, Data: session.StateChangedData{From: session.Executing, To: session.Paused, Reason: session.ReasonDiskFull}})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := load(t, open(t, o), before.ID).Session(); got.Reason != session.ReasonDiskFull {
		t.Errorf("Load: reason %q, want %q", got.Reason, session.ReasonDiskFull)
	}
	if info, err := os.Stat(filepath.Join(o.Home, "ballast")); err != nil || info.Size() == 0 {
		t.Errorf("ballast: not made again: %v", err)
	}
}

// If a damaged table prevents a commit, the error says so. It does not claim that nothing
// was changed, because the session was executed before.
func TestAppendToADamagedStoreSaysWhatIsKept(t *testing.T) {
	s := open(t, options(t))
	w := create(t, s, 1)
	must(t, s.Exec(t.Context(), `DROP TABLE requests`))
	_, err := w.AppendAnswering(t.Context(), 1, tick())
	if !errors.Is(err, session.ErrCorrupt) || !strings.Contains(err.Error(), "committed events are kept") || strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("Append: got %v", err)
	}
	if _, again := w.Append(t.Context(), tick()); !errors.Is(again, session.ErrCorrupt) {
		t.Errorf("Append again: got %v, want the same failure", again)
	}
}

// meetFullDisk stops the store from growing, and appends until w fails.
func meetFullDisk(t *testing.T, s *local.Store, w *local.Writer) {
	t.Helper()
	must(t, s.Exec(t.Context(), `PRAGMA max_page_count = 1`)) // its present size
	big := session.Draft{Type: session.CheckpointCreated, Data: session.CheckpointCreatedData{Why: strings.Repeat("x", 12000)}}
	if _, err := w.Append(t.Context(), big); !errors.Is(err, session.ErrDiskFull) {
		t.Fatalf("Append: got %v, want %v", err, session.ErrDiskFull)
	}
}

// L5: if another process took the session over while the disk was full, it keeps the
// session, also if it appended events since.
func TestRecoverDoesNotFollowATakeover(t *testing.T) {
	for name, drafts := range map[string]func(s *local.Store) []session.Draft{
		"taken_over": func(s *local.Store) []session.Draft { return []session.Draft{acquire(s)} },
		// one event more than failed
		"continued": func(*local.Store) []session.Draft { return []session.Draft{tick(), tick()} },
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			s := open(t, o)
			w := create(t, s, 2)
			meetFullDisk(t, s, w)
			second := open(t, o)
			appendAll(t, load(t, second, w.Session().ID), drafts(second)...)
			if err := w.Recover(t.Context()); !errors.Is(err, session.ErrFenced) {
				t.Errorf("Recover: got %v, want %v", err, session.ErrFenced)
			}
			if _, err := w.Append(t.Context(), tick()); err == nil {
				t.Error("Append after a refused Recover: it was committed")
			}
		})
	}
}

// L6: Recover without a store changes nothing. Once the store is back, Recover works.
func TestRecoverWithoutAStoreIsTriedAgain(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := create(t, s, 2)
	meetFullDisk(t, s, w)
	database, away := filepath.Join(o.Home, "acode.db"), filepath.Join(o.Home, "away")
	must(t, os.Rename(database, away))
	if err := w.Recover(t.Context()); !errors.Is(err, session.ErrStoreIO) {
		t.Errorf("Recover: got %v, want %v", err, session.ErrStoreIO)
	}
	if _, err := w.Append(t.Context(), started(w, 0, 1)); !errors.Is(err, session.ErrDiskFull) {
		t.Errorf("Append: got %v, want %v still", err, session.ErrDiskFull)
	}
	must(t, os.Rename(away, database))
	must(t, w.Recover(t.Context()))
	appendAll(t, w, started(w, 0, 1))
	if r := verify(t, openRead(t, o)); len(r.Problems) != 0 {
		t.Errorf("Verify: %v", r.Problems)
	}
}

// L5: a process that lost the session writes nothing more.
func TestSecondHolderFencesTheFirst(t *testing.T) {
	o := options(t)
	first := open(t, o)
	w1 := create(t, first, 2)
	second := open(t, o)
	w2 := load(t, second, w1.Session().ID)
	if err := w1.Fence(t.Context()); err != nil {
		t.Fatalf("Fence before: %v", err)
	}
	appendAll(t, w2, acquire(second))
	if _, err := w1.Append(t.Context(), started(w1, 0, 1)); !errors.Is(err, session.ErrFenced) {
		t.Errorf("Append of the first: got %v, want %v", err, session.ErrFenced)
	}
	if err := w1.Fence(t.Context()); !errors.Is(err, session.ErrFenced) {
		t.Errorf("Fence of the first: got %v, want %v", err, session.ErrFenced)
	}
	appendAll(t, w2, started(w2, 0, 1), completed(w2, 0, 1))
	if r := verify(t, openRead(t, o)); len(r.Problems) != 0 {
		t.Errorf("Verify: %v", r.Problems)
	}
}

// L5: if another process takes the session over between a refused batch and the reload
// after it, the writer is fenced.
func TestRefusedBatchDoesNotFollowATakeover(t *testing.T) {
	o := options(t)
	first := open(t, o)
	w1 := create(t, first, 2)
	appendAll(t, w1, acquire(first))
	if err := w1.Reload(t.Context()); !errors.Is(err, session.ErrFenced) {
		t.Errorf("Reload after a batch of its own: got %v, want %v: only the state before a batch is its", err, session.ErrFenced)
	}
	w1 = load(t, first, w1.Session().ID)
	if _, err := w1.Append(t.Context(), completed(w1, 0, 1)); !errors.Is(err, session.ErrConflict) {
		t.Fatalf("Append of a receipt without intent: got %v, want %v", err, session.ErrConflict)
	}
	if err := w1.Reload(t.Context()); err != nil {
		t.Errorf("Reload after a refused batch: %v", err)
	}
	second := open(t, o)
	appendAll(t, load(t, second, w1.Session().ID), acquire(second))
	if err := w1.Reload(t.Context()); !errors.Is(err, session.ErrFenced) {
		t.Errorf("Reload after a takeover: got %v, want %v", err, session.ErrFenced)
	}
}

// L3: two processes write their own sessions into one store. Times strictly increase
// across both, also when the wall clock steps back an hour.
func TestClockOfTheStoreNeverStepsBack(t *testing.T) {
	o := options(t)
	c := newClock()
	o.Now = c.now
	one, two := open(t, o), open(t, o)
	a, b := create(t, one, 1), create(t, two, 1)
	last := b.Session().LastUS
	for i, w := range []*local.Writer{a, b, a, b} {
		c.at = c.at.Add(time.Duration(1-2*(i%2)) * time.Hour)
		e := appendAll(t, w, session.Draft{Type: session.CheckpointCreated, Data: session.CheckpointCreatedData{Why: "test"}})[0]
		if e.TimeUS <= last {
			t.Errorf("Append %d: time %d after %d", i, e.TimeUS, last)
		}
		last = e.TimeUS
	}
}

// FR-031: completing a step twice changes nothing. Another result is refused.
func TestCompletingTwice(t *testing.T) {
	s := open(t, options(t))
	w := create(t, s, 2)
	appendAll(t, w, started(w, 0, 1))
	first := appendAll(t, w, completed(w, 0, 1))[0]
	second := appendAll(t, w, completed(w, 0, 1))[0]
	if second.Hash != first.Hash || w.Session().LastSeq != first.Seq {
		t.Errorf("Append again: seq %d, want the first one, %d", second.Seq, first.Seq)
	}
	_, err := w.Append(t.Context(), completed(w, 0, 1, session.FileState{Path: "other"}))
	if !errors.Is(err, session.ErrConflict) {
		t.Errorf("Append of another result: got %v, want %v", err, session.ErrConflict)
	}
	// A refusal in the middle of a batch also undoes the drafts before it.
	if _, err := w.Append(t.Context(), started(w, 1, 1), started(w, 0, 2)); !errors.Is(err, session.ErrConflict) {
		t.Errorf("Append of a bad batch: got %v, want %v", err, session.ErrConflict)
	}
	if got := w.Session().Status(stepID(1)); got != session.Pending || w.Session().LastSeq != first.Seq {
		t.Errorf("after a refusal: step is %s at seq %d", got, w.Session().LastSeq)
	}
	appendAll(t, w, tick()) // the commit that this signs contains nothing of it
	if r := verify(t, s); len(r.Problems) != 0 {
		t.Errorf("Verify after a refusal: %v", r.Problems)
	}
	if got := load(t, s, w.Session().ID).Session(); got.LastSeq != first.Seq+1 {
		t.Errorf("Load after a refusal: seq %d, want %d", got.LastSeq, first.Seq+1)
	}
	appendAll(t, w, started(w, 1, 1))
}

// long reports whether make torture runs the tests. Then they test every point, and rapid
// draws more cases.
func long() bool { return os.Getenv("ACODE_TORTURE_LONG") != "" }

// TestMain lets the test binary run as the process that is killed.
func TestMain(m *testing.M) {
	launch()
	if home := os.Getenv("LOCAL_TEST_HOME"); home != "" && os.Getenv("LOCAL_TEST_CLOCK") != "" {
		appendAt(home)
	} else if home != "" {
		appendForEver(home)
	}
	if home := os.Getenv(rivalHome); home != "" {
		rivalProcess(home)
	}
	if database := os.Getenv(trapDatabase); database != "" {
		trapProcess(database)
	}
	draws := "25"
	if long() {
		draws = "400"
	}
	if err := flag.Set("rapid.checks", draws); err != nil { // the flag itself is read later
		panic(err)
	}
	os.Exit(m.Run())
}

// appendForEver prints the seq of each acknowledged step.
func appendForEver(home string) {
	ctx := context.Background()
	s, err := local.Open(ctx, local.Options{Home: home, Now: newClock().now})
	if err != nil {
		panic(err)
	}
	id := session.ID(os.Getenv("LOCAL_TEST_SESSION"))
	w, err := s.Load(ctx, id)
	if err != nil {
		panic(err)
	}
	if _, err := w.Append(ctx, acquire(s)); err != nil {
		panic(err)
	}
	for i := w.Session().Done; ; i++ {
		ds := []session.Draft{completed(w, i, 1), started(w, i+1, 1)}
		if w.Session().Status(stepID(i)) == session.Pending {
			ds = append([]session.Draft{started(w, i, 1)}, ds...)
		}
		es, err := w.Append(ctx, ds...)
		if err != nil {
			panic(err)
		}
		if _, err := os.Stdout.WriteString(strconv.FormatUint(es[len(es)-1].Seq, 10) + "\n"); err != nil {
			os.Exit(1)
		}
	}
}

// FR-017: a process killed at any moment loses nothing that it acknowledged.
func TestKilledWriterLosesNothingAcknowledged(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := create(t, s, 1)
	id := w.Session().ID
	if err := errors.Join(w.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	for round := range 5 {
		acked := runAndKill(t, o.Home, id, 7+13*round)
		s := open(t, o)
		w := load(t, s, id)
		if w.Session().LastSeq < acked {
			t.Fatalf("round %d: the store ends at %d, and %d was acknowledged", round, w.Session().LastSeq, acked)
		}
		if r := verify(t, s); len(r.Problems) != 0 {
			t.Fatalf("round %d: %v", round, r.Problems)
		}
		if err := errors.Join(w.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func runAndKill(t *testing.T, home string, id session.ID, lines int) (acked uint64) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LOCAL_TEST_HOME="+home, "LOCAL_TEST_SESSION="+string(id))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(out)
	for range lines {
		if !sc.Scan() {
			t.Fatalf("the writer ended: %v", cmd.Wait())
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	acked, err = strconv.ParseUint(sc.Text(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	for sc.Scan() { // acknowledged before the kill arrived
		if n, err := strconv.ParseUint(sc.Text(), 10, 64); err == nil {
			acked = n
		}
	}
	_ = cmd.Wait() // it was killed
	return acked
}
