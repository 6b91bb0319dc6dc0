package local_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
	"github.com/google/go-cmp/cmp"
)

// A writer loads a session only if the schema is the one that the migrations make. After
// an edit of migrations/sqlite, this test prints the new digest for schema.go.
func TestLoadForWritingChecksTheSchema(t *testing.T) {
	text, err := open(t, options(t)).Schema(t.Context())
	must(t, err)
	if sum := sha256.Sum256([]byte(text)); hex.EncodeToString(sum[:]) != local.SchemaSum {
		t.Fatalf("schemaSum: got %s, want %x", local.SchemaSum, sum)
	}
	o, want := closedSample(t)
	s := open(t, o)
	load(t, s, want.ID)
	if err := s.Exec(t.Context(), `DROP TRIGGER events_insert`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(t.Context(), want.ID); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("Load without a trigger: got %v, want ErrCorrupt", err)
	}
	if err := tryCreate(t, s); !errors.Is(err, session.ErrCorrupt) { // no process could load it later
		t.Errorf("Create without a trigger: got %v, want ErrCorrupt", err)
	}
}

// synthetic is a migration as a later version could have it.
const synthetic = `-- +goose Up
PRAGMA user_version = 2;
CREATE TABLE later (session_no INTEGER PRIMARY KEY REFERENCES sessions (no)) STRICT;
INSERT INTO later SELECT no FROM sessions;
`

// The next open for writing migrates a store of the version before, once. Its content
// stays, a failed migration changes nothing, and a program without the migration refuses
// the store.
func TestMigration(t *testing.T) {
	o, want := closedSample(t)
	if s, err := local.Open(t.Context(), local.WithMigration(o, synthetic+"INSERT INTO nowhere VALUES (1);", "")); err == nil {
		_ = s.Close()
		t.Error("Open with a migration that fails: got no error")
	}
	must(t, open(t, o).Close()) // it is unchanged
	load(t, openRead(t, local.WithMigration(o, synthetic, "")), want.ID)
	learnt := o
	learnt.Home = filepath.Join(t.TempDir(), "copy")
	copyHome(t, o.Home, learnt.Home)
	text, err := open(t, local.WithMigration(learnt, synthetic, "")).Schema(t.Context())
	must(t, err)
	sum := sha256.Sum256([]byte(text))
	later := local.WithMigration(o, synthetic, hex.EncodeToString(sum[:]))
	var group sync.WaitGroup
	stores, errs := make([]*local.Store, 3), make([]error, 3)
	for i := range stores {
		group.Go(func() { stores[i], errs[i] = local.Open(context.Background(), later) })
	}
	group.Wait()
	must(t, errors.Join(errs...))
	for _, s := range stores {
		if v, err := s.Pragma(t.Context(), "user_version", true); err != nil || v != "2" {
			t.Errorf("user_version: got %s, %v", v, err)
		}
	}
	w := load(t, stores[0], want.ID)
	if diff := cmp.Diff(want, w.Session()); diff != "" {
		t.Errorf("Load of the migrated store (-want +got):\n%s", diff)
	}
	appendAll(t, w, acquire(stores[0]))
	for _, s := range stores {
		if r := verify(t, s); len(r.Problems) != 0 {
			t.Errorf("Verify: %v", r.Problems)
		}
		must(t, s.Close())
	}
	if _, err := local.Open(t.Context(), o); !errors.Is(err, session.ErrNewer) {
		t.Errorf("Open without the migration: got %v, want %v", err, session.ErrNewer)
	}
}

// tryCreate begins a session and returns the error.
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

// A new session does not get a number of which rows are left, so its own rows find their
// places free up to the last receipt.
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

// A session whose row is gone is known by its head, and the error says that it was lost.
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
