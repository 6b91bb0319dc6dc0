package remote_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/acode-dev/acode/remote"
	"github.com/acode-dev/acode/session"
)

// verifyAll runs Verify until no events are left, and counts the calls.
func verifyAll(t *testing.T, r *remote.Server, limit int) int {
	t.Helper()
	for n := 1; n < 1000; n++ {
		more, err := r.Verify(t.Context(), limit)
		if err != nil {
			t.Fatalf("Verify: %v", err)
		}
		if !more {
			return n
		}
	}
	t.Fatal("Verify: never ends")
	return 0
}

// The verified mark follows the chain, in pieces, and stops where the content does not
// match the hash.
func TestVerify(t *testing.T) {
	s := newSite(t)
	r := s.open(s.role("acode_writer"))
	good, bad, withheld := newChain(50), newChain(30), newChain(10)
	bad.events[20].Payload = []byte("other")
	withheld.events[4].Payload = []byte(`{"withheld":"parked"}`)
	for _, c := range []*chain{good, bad, withheld} {
		if _, err := r.Deliver(t.Context(), c.from(1, len(c.events))); err != nil {
			t.Fatal(err)
		}
	}
	if n := verifyAll(t, r, 7); n < 10 {
		t.Errorf("Verify: %d calls of 7 events for 90", n)
	}
	for c, want := range map[*chain]uint64{good: 50, withheld: 10} {
		if m, err := r.Deliver(t.Context(), c.from(0, 0)); err != nil || m.Verified != want {
			t.Errorf("verified mark: got %+v, %v, want %d", m, err, want)
		}
	}
	if m, err := r.Deliver(t.Context(), bad.from(0, 0)); err != nil || m.Verified > 20 || m.Seq != 30 {
		t.Errorf("verified mark of a wrong chain: got %+v, %v, want at most 20", m, err)
	}
	got, err := remote.VerifyAll(t.Context(), options(s.url))
	if err != nil || got.Sessions != 3 || got.Events != 90 || got.Withheld != 1 {
		t.Errorf("VerifyAll: got %+v, %v", got, err)
	}
	if len(got.Differences) != 1 || got.Differences[0].What != "changed" || got.Differences[0].Seq != 21 || got.Differences[0].Session != bad.id {
		t.Errorf("VerifyAll: got %+v, want seq 21 of %s changed", got.Differences, bad.id)
	}
	// The caller cannot verify another role's chains.
	if n := verifyAll(t, s.open(s.role("acode_writer")), 1); n != 1 {
		t.Errorf("Verify of a role without sessions: %d calls", n)
	}
}

// Each kind of difference is found in its place, and no other is reported.
func TestVerifyAllFindsPlants(t *testing.T) {
	s := newSite(t)
	r := s.open(s.role("acode_writer"))
	month := s.value(`SELECT 'acode.events_' || to_char(now() AT TIME ZONE 'UTC', 'YYYY_MM')`)
	next := s.value(`SELECT (date_trunc('month', now() AT TIME ZONE 'UTC') + interval '1 month')::date`)
	for name, plant := range map[string]string{
		"changed 5":   `UPDATE acode.events SET payload = 'x' WHERE session_id = '$id' AND seq = 5`,
		"changed 7":   `UPDATE acode.events SET time_us = time_us + 1 WHERE session_id = '$id' AND seq = 7`,
		"changed 1":   `UPDATE acode.events SET actor = 'b' WHERE session_id = '$id' AND seq = 1`,
		"missing 5":   `DELETE FROM acode.events WHERE session_id = '$id' AND seq = 5`,
		"missing 1":   `DELETE FROM acode.events WHERE session_id = '$id' AND seq = 1`,
		"missing 10":  `DELETE FROM acode.events WHERE session_id = '$id' AND seq = 10`,
		"duplicate 4": `INSERT INTO acode.events SELECT session_id, seq, '$next'::date, id, time_us, epoch, type, actor, device, hash, payload FROM $month WHERE session_id = '$id' AND seq = 4`,
		"stray 11":    `INSERT INTO $month SELECT session_id, 11, received_at, id, time_us, epoch, type, actor, device, hash, payload FROM $month WHERE session_id = '$id' AND seq = 4`,
		"head 10":     `UPDATE acode.heads SET head = first_prev WHERE session_id = '$id'`,
		"orphan 1":    `DELETE FROM acode.heads WHERE session_id = '$id'; UPDATE acode.counts SET events = 0`,
	} {
		c := newChain(10)
		if _, err := r.Deliver(t.Context(), c.from(1, 10)); err != nil {
			t.Fatal(err)
		}
		s.exec(`SET session_replication_role = replica; ` + strings.NewReplacer("$id", string(c.id), "$next", next, "$month", month).Replace(plant))
		got, err := remote.VerifyAll(t.Context(), options(s.url))
		if err != nil {
			t.Fatal(err)
		}
		var kind string
		var seq uint64
		if _, err := fmt.Sscan(name, &kind, &seq); err != nil {
			t.Fatal(err)
		}
		if len(got.Differences) != 1 || got.Differences[0].Session != c.id || got.Differences[0].What != kind || got.Differences[0].Seq != seq {
			t.Errorf("%s: VerifyAll found %+v", name, got.Differences)
		}
		s.exec(fmt.Sprintf(`DELETE FROM acode.events WHERE session_id = '%s'; DELETE FROM acode.heads WHERE session_id = '%[1]s'; DELETE FROM acode.counts`, c.id))
	}
}

// Differences outside of chains are found too; and a chain that was fixed continues.
func TestVerifyAllElsewhere(t *testing.T) {
	s := newSite(t)
	r := s.open(s.role("acode_writer"))
	c := newChain(10)
	other := c.split(5).grow(3)
	for _, d := range []session.Delivery{c.from(1, 10), other.from(6, 8)} {
		if _, err := r.Deliver(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	hash, content := blob(100)
	if err := r.PutBlob(t.Context(), hash, 100, bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	got, err := remote.VerifyAll(t.Context(), options(s.url))
	if err != nil || got.Forks != 3 || got.Blobs != 1 || len(got.Differences) != 0 {
		t.Errorf("VerifyAll: got %+v, %v, want 3 forks, 1 blob and nothing wrong", got, err)
	}
	s.exec(`UPDATE acode.forks SET actor = 'x' WHERE seq = 7; UPDATE acode.blob_chunks SET data = 'x'; UPDATE acode.heads SET broken_seq = 3; UPDATE acode.counts SET events = events + 1`)
	if got, err = remote.VerifyAll(t.Context(), options(s.url)); err != nil || len(got.Differences) != 3 || got.Differences[0].What != "count" || got.Differences[1].What != "fork" || got.Differences[2].What != "blob" {
		t.Errorf("VerifyAll: got %+v, %v, want a count, a fork and a blob", got, err)
	}
	if got := s.value(`SELECT count(broken_seq) FROM acode.heads`); got != "0" {
		t.Errorf("a chain that is right again is still noted as broken")
	}
	if _, err := remote.VerifyAll(t.Context(), options(s.role("acode_writer"))); err == nil {
		t.Errorf("VerifyAll as a device: not refused")
	}
}

// A verification makes partitions of months, long before they are needed.
func TestMonthsAreMade(t *testing.T) {
	s := newSite(t)
	s.exec(`DO $$ DECLARE p text; BEGIN
		FOR p IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'acode.events'::regclass ORDER BY inhrelid::regclass::text DESC LIMIT 8 LOOP EXECUTE 'DROP TABLE ' || p; END LOOP; END $$`)
	r := s.open(s.role("acode_writer"))
	if _, err := r.Verify(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	if got := s.value(`SELECT count(*) FROM pg_inherits WHERE inhparent = 'acode.events'::regclass`); got != "13" {
		t.Errorf("%s months, want 13", got)
	}
}
