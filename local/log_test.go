package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
)

// After a slow reader made the log huge, the next commit of a step or a heartbeat
// shortens it, so that the alert about it ends. A log of the usual size keeps its size.
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
			must(t, os.Truncate(log, before)) // bytes after the last commit belong to no commit
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
