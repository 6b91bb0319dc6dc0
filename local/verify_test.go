package local_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
)

func verify(t testing.TB, s *local.Store) local.VerifyReport {
	t.Helper()
	r, err := s.Verify(t.Context(), "")
	if err != nil {
		t.Fatalf("Verify: %v", err)
	}
	return r
}

func TestVerifyFindsNothingInWhatWasWritten(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := sample(t, s)
	r := verify(t, openRead(t, o))
	if len(r.Problems) != 0 {
		t.Fatalf("Verify: problems %v", r.Problems)
	}
	if r.Sessions != 1 || r.Events != int(w.Session().LastSeq) || r.Checkpoints != 2 || r.Blobs == 0 {
		t.Errorf("Verify: got %+v", r)
	}
}

// sample is a small store with every kind of row.
func sample(t testing.TB, s *local.Store) *local.Writer {
	t.Helper()
	w := create(t, s, 3)
	appendAll(t, w, started(w, 0, 1))
	appendAll(t, w, completed(w, 0, 1, session.FileState{Path: "a", Hash: "aa", Size: 3, Wrote: true}), started(w, 1, 1))
	appendAll(t, w, failed(w, 1, 1))
	ask := session.Draft{Type: session.ApprovalRequested, Data: session.ApprovalRequestedData{StepID: stepID(2), Question: "go on?", Digest: "q"}}
	appendAll(t, w, ask)
	return w
}

// Verify reports a page that cannot be read, and still checks everything else.
func TestVerifyLooksBesideADamagedPage(t *testing.T) {
	o, want := unlogged(t)
	db, err := os.ReadFile(filepath.Join(o.Home, "acode.db"))
	if err != nil {
		t.Fatal(err)
	}
	const page = 8192
	beside := 0
	for at := page; at < len(db); at += page {
		bad := o
		bad.Home = filepath.Join(t.TempDir(), "copy")
		copyHome(t, o.Home, bad.Home)
		damaged := slices.Concat(db[:at], bytes.Repeat([]byte{0xa5}, page), db[at+page:])
		if err := os.WriteFile(filepath.Join(bad.Home, "acode.db"), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := local.OpenRead(t.Context(), bad)
		if err != nil {
			continue // refused before anything could be checked
		}
		r := verify(t, s)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		named := slices.ContainsFunc(r.Problems, func(p local.Problem) bool { return p.Session == want.ID })
		if len(r.Problems) == 0 || named {
			continue
		}
		beside++
		if r.Sessions != 1 || r.Events != int(want.LastSeq) {
			t.Errorf("page %d: got %+v, want the session replayed whole or named", at/page+1, r)
		}
	}
	if beside == 0 {
		t.Error("no page was damaged beside the session")
	}
}

// Verify reports every difference from the migrations' schema, so that a user can remove
// additions.
func TestVerifyNamesWhatTheSchemaHas(t *testing.T) {
	for name, c := range map[string]struct{ sql, says string }{
		"analyzed": {`ANALYZE`, "it is not as acode made it: table sqlite_stat1, table sqlite_stat4"},
		"added":    {`CREATE INDEX by_time ON events (time_us)`, "it is not as acode made it: index by_time"},
		"missing":  {`DROP TRIGGER events_insert`, "it is not as acode made it: trigger events_insert is missing"},
		"changed":  {`DROP VIEW journal; CREATE VIEW journal AS SELECT 1`, "it is not as acode made it: view journal"},
		"goose":    {`INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)`, "it is not as acode made it: 3 99"},
		"sequence": {`DELETE FROM sqlite_sequence`, "it is not as acode made it: goose_db_version 2 is missing"},
		"no_row":   {`UPDATE sqlite_sequence SET seq = NULL`, "it is not as acode made it: <nil>, goose_db_version 2 is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := closedSample(t)
			tamper(t, o, c.sql)
			r := verify(t, openRead(t, o))
			if !slices.ContainsFunc(r.Problems, func(p local.Problem) bool { return p.Message == c.says }) {
				t.Errorf("Verify: got %v, want %q", r.Problems, c.says)
			}
		})
	}
}
