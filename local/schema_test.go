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
