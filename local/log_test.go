package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/migrations"
	"github.com/acode-dev/acode/session"
)

// A log that an old reader made huge is shortened by whoever commits next, a step or a
// heartbeat: the alert about it has to end. One of the usual size keeps it.
func TestHugeLogIsShortened(t *testing.T) {
	const huge, usual = 100 << 20, 8 << 20
	for name, commit := range map[string]func(t *testing.T, s *local.Store){
		"step": func(t *testing.T, s *local.Store) { create(t, s, 2) },
		"heartbeat": func(t *testing.T, s *local.Store) {
			must(t, openOutbox(t, s).Beat(t.Context(), session.Heartbeat{BeatUS: 1}))
		},
	} {
		for before, most := range map[int64]int64{huge: 64 << 20, usual: usual} {
			opts := options(t)
			s := open(t, opts)
			first := create(t, s, 1).Session().ID
			log := filepath.Join(opts.Home, "acode.db-wal")
			must(t, s.Close())
			must(t, os.Truncate(log, before)) // what follows the last commit is of none
			s = open(t, opts)
			commit(t, s)
			info, err := os.Stat(log)
			must(t, err)
			if info.Size() != most {
				t.Errorf("%s: a log of %d bytes has %d afterwards, want %d", name, before, info.Size(), most)
			}
			if _, err := s.View(t.Context(), first); err != nil {
				t.Errorf("%s: the session of before: %v", name, err)
			}
			must(t, s.Close())
		}
	}
}

// Whoever opens a store that was closed in order reads no long log first.
func TestLogIsBegunAnewAtTheEnd(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := create(t, s, 150)
	for i := range 150 {
		appendAll(t, w, started(w, i, 1))
		appendAll(t, w, completed(w, i, 1))
	}
	want := w.Session()
	before, err := s.LogFrames(t.Context())
	must(t, errors.Join(err, w.Close(), s.Close()))
	s = open(t, o)
	after, err := s.LogFrames(t.Context())
	must(t, err)
	if before < 200 || after > 2 {
		t.Errorf("the log had %d pages, and %d after the store was closed", before, after)
	}
	if v, err := s.Pragma(t.Context(), "user_version", true); err != nil || v != strconv.Itoa(migrations.SQLiteVersion) {
		t.Errorf("user_version: got %s, %v", v, err)
	}
	if got := load(t, s, want.ID).Session(); got.LastSeq != want.LastSeq || got.Head != want.Head {
		t.Errorf("the session: got %+v, want %+v", got, want)
	}
}
