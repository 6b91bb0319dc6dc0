package local_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
)

// A writer takes a session up only under the schema that the migrations make. When a
// migration is added, the digest here is the new one for schema.go.
func TestLoadForWritingChecksTheSchema(t *testing.T) {
	o, want := closedSample(t)
	s := open(t, o)
	text, err := s.Schema(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256([]byte(text)); hex.EncodeToString(sum[:]) != local.SchemaSum {
		t.Errorf("schemaSum: got %s, want %x", local.SchemaSum, sum)
	}
	load(t, s, want.ID)
	if err := s.Exec(t.Context(), `DROP TRIGGER events_insert`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(t.Context(), want.ID); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("Load without a trigger: got %v, want ErrCorrupt", err)
	}
	if err := tryCreate(t, s); !errors.Is(err, session.ErrCorrupt) { // nobody could take it up again
		t.Errorf("Create without a trigger: got %v, want ErrCorrupt", err)
	}
}

// tryCreate begins a session and says what became of that.
func tryCreate(t *testing.T, s *local.Store) error {
	t.Helper()
	id, err := s.NewID()
	must(t, err)
	w, err := s.Create(t.Context(), local.NewSession{ID: id, Task: "test", Workspace: "/ws", Plan: plan(1), Config: "cfg"})
	if err == nil {
		must(t, w.Close())
	}
	return err
}

// A number of which rows are left is not given to a new session: its own find their places free, to the last
// receipt.
func TestNumberOfALostSessionIsNotGivenAgain(t *testing.T) {
	o, _ := closedSample(t)
	for table, row := range map[string]string{
		"events": `INSERT INTO events (pos, id, time_us, type, epoch, hash, payload) SELECT 2 << 40 | 9, id, time_us, type, epoch, hash, payload FROM events LIMIT 1`,
		"steps":  `INSERT INTO steps (pos, task, step, status, attempt, start_seq, last_seq, started_us, ended_us) SELECT 2 << 32 | 3, task, step, status, attempt, start_seq, last_seq, started_us, ended_us FROM steps LIMIT 1`,
		"files":  `INSERT INTO files SELECT 2 << 32 | 3, path, hash, size, mode, mtime_ns, ctime_ns, inode, racy, wrote FROM files LIMIT 1`,
	} {
		t.Run(table, func(t *testing.T) {
			bad := o
			bad.Home = filepath.Join(t.TempDir(), "copy")
			copyHome(t, o.Home, bad.Home)
			tamper(t, bad, row)
			s := open(t, bad)
			w := create(t, s, 4)
			for i := range 4 {
				appendAll(t, w, started(w, i, 1), completed(w, i, 1, session.FileState{Path: stepName(i), Hash: "aa"}))
			}
			load(t, s, w.Session().ID)
		})
	}
}

// A session whose row is gone is known by its head, and whoever wants it hears that it was lost.
func TestLostSessionIsKnownByItsHead(t *testing.T) {
	o, want := closedSample(t)
	tamper(t, o, `PRAGMA foreign_keys = 0; DELETE FROM sessions`)
	s := openRead(t, o)
	id, err := s.Find(t.Context(), string(want.ID))
	if err == nil {
		_, err = s.Load(t.Context(), id)
	}
	if !errors.Is(err, session.ErrTampered) {
		t.Errorf("Find and Load: got %v, want CKPT-001", err)
	}
	tamper(t, o, `DROP TRIGGER events_delete; DELETE FROM events; DELETE FROM steps; DELETE FROM files`)
	lost := func(p local.Problem) bool { return p.Session == want.ID && p.Code == session.ErrTampered }
	if r := verify(t, openRead(t, o)); !slices.ContainsFunc(r.Problems, lost) {
		t.Errorf("Verify of a database without a trace of the session: got %v", r.Problems)
	}
	if err := os.Remove(filepath.Join(o.Home, "heads", string(want.ID))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Find(t.Context(), string(want.ID)); !errors.Is(err, session.ErrUnknownID) {
		t.Errorf("Find without a head: got %v, want ErrUnknownID", err)
	}
}
