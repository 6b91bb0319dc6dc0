package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/acode-dev/acode/session"
)

// L6: after a failed write the whole connection is dead. No other session and no decision
// of a person is written through it, and closing it leaves the files as they are.
func TestFailedWriteEndsTheConnection(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w, other := create(t, s, 1), create(t, s, 1)
	must(t, s.Exec(t.Context(), `DROP TABLE requests`))
	if _, err := w.AppendAnswering(t.Context(), 1, tick()); !errors.Is(err, session.ErrCorrupt) {
		t.Fatalf("Append: got %v, want %v", err, session.ErrCorrupt)
	}
	files := func() (all string) {
		for _, suffix := range []string{"", "-wal"} {
			b, err := os.ReadFile(filepath.Join(o.Home, "acode.db"+suffix))
			must(t, err)
			all += string(b)
		}
		return all
	}
	for name, write := range map[string]func() error{
		"another session": func() error { _, err := other.Append(t.Context(), tick()); return err },
		"a decision":      func() error { return s.PauseSync(t.Context(), true) },
		"a request":       func() error { return s.Ask(t.Context(), session.Request{Session: w.Session().ID}) },
		"a new session":   func() error { return tryCreate(t, s) },
	} {
		if err := write(); !errors.Is(err, session.ErrCorrupt) {
			t.Errorf("%s: got %v, want %v", name, err, session.ErrCorrupt)
		}
	}
	before := files()
	must(t, s.Close())
	if files() != before {
		t.Error("Close changed the files")
	}
}

// FR-017: each receipt has its checkpoint, alone or with other events in its commit, and
// a load uses it.
func TestEveryReceiptHasItsCheckpoint(t *testing.T) {
	s := open(t, options(t))
	w := create(t, s, 5)
	for name, drafts := range map[string][]session.Draft{
		"completed":       {started(w, 0, 1), completed(w, 0, 1)},
		"failed":          {started(w, 1, 1), failed(w, 1, 1)},
		"found completed": {started(w, 2, 1), unknowable(w, 2, 1), completed(w, 2, 1)},
		"found failed":    {started(w, 3, 1), unknowable(w, 3, 1), failed(w, 3, 1)},
	} {
		appendAll(t, w, drafts...)
		want := w.Session().LastSeq
		for range 2 { // the second time another event follows the receipt
			if r := load(t, s, w.Session().ID).Report(); r.Checkpoint != want || r.BadCheckpoint != "" {
				t.Errorf("%s: Load uses the checkpoint at %d (%s), want %d", name, r.Checkpoint, r.BadCheckpoint, want)
			}
			appendAll(t, w, changedTo(session.Executing, session.Paused), changedTo(session.Paused, session.Executing))
		}
	}
}

func changedTo(from, to session.State) session.Draft {
	return session.Draft{Type: session.StateChanged, Data: session.StateChangedData{From: from, To: to, Reason: session.ReasonUser}}
}

// FR-038: a load refuses events whose times are in another order than their seqs, even if
// they are signed.
func TestOrderIsCheckedAtLoad(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := create(t, s, 1)
	id, us := w.Session().ID, w.Session().CreatedUS
	must(t, s.Close())
	for name, times := range map[string]map[uint64]int64{
		"as they were": {},
		"swapped":      {2: us + 5000, 3: us + 2},
		"early":        {2: us - 1},
	} {
		forged := o
		forged.Home = filepath.Join(t.TempDir(), "copy")
		copyHome(t, o.Home, forged.Home)
		s := open(t, forged)
		must(t, s.Retime(t.Context(), id, times))
		_, err := s.Load(t.Context(), id)
		if want := len(times) > 0; want != (err != nil) || want && !errors.Is(err, session.ErrOrder) {
			t.Errorf("%s: Load: got %v, want %v: %v", name, err, session.ErrOrder, want)
		}
	}
}

// Sessions are listed from the newest to the oldest, for all workspaces and for one.
// @last is the newest session.
func TestNewestSessionComesFirst(t *testing.T) {
	s := open(t, options(t))
	var want []session.ID
	for range 3 {
		want = append([]session.ID{create(t, s, 1).Session().ID}, want...)
	}
	appendAll(t, load(t, s, want[2]), tick()) // the oldest session changed last
	for _, workspace := range []string{"", "/ws"} {
		all, err := s.Summaries(t.Context(), workspace)
		must(t, err)
		for i, m := range all {
			if len(all) != len(want) || m.ID != want[i] {
				t.Errorf("Summaries of %q: got %v at %d, want %v", workspace, m.ID, i, want)
			}
		}
	}
	if id, err := s.Find(t.Context(), "@last"); err != nil || id != want[0] {
		t.Errorf("Find of @last: got %v, %v, want %v", id, err, want[0])
	}
}
