package remote_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/acode-dev/acode/internal/pgtest"
	"github.com/acode-dev/acode/remote"
	"github.com/acode-dev/acode/session"
)

// The door of COPY is a right to insert: what goes through it another way is checked as well.
func TestInsertsAreChecked(t *testing.T) {
	s := commonSite(t)
	mine := s.role("acode_writer")
	r := s.open(mine)
	c := newChain(3).acquire().acquire()
	if _, err := r.Deliver(t.Context(), c.from(1, 4)); err != nil {
		t.Fatal(err)
	}
	insert := func(rows ...string) string {
		sql := `INSERT INTO acode.events (session_id, seq, id, time_us, epoch, type, actor, device, prev, hash, payload) VALUES `
		for i, r := range rows {
			if i > 0 {
				sql += ", "
			}
			sql += r
		}
		return sql
	}
	event := func(id session.ID, seq, epoch int, typ, prev string) string {
		return fmt.Sprintf(`('%s', %d, gen_random_uuid(), 1, %d, '%s', 'a', '%s', %s, decode(repeat('22', 32), 'hex'), '')`, id, seq, epoch, typ, device, prev)
	}
	head, zero := fmt.Sprintf(`'\x%s'`, c.hashAt(4)), `decode(repeat('00', 32), 'hex')`
	before := (&lane{site: s}).rows()
	for name, sql := range map[string]string{
		"AC002 hole":                insert(event(c.id, 5, 1, "T", head), event(c.id, 7, 1, "T", "NULL")),
		"AC002 no prev":             insert(event(c.id, 5, 1, "T", "NULL")),
		"AC002 prev at the second":  insert(event(c.id, 5, 1, "T", "NULL"), event(c.id, 6, 1, "T", head)),
		"AC002 two prevs":           insert(event(c.id, 5, 1, "T", head), event(c.id, 6, 1, "T", head)),
		"AC002 gap":                 insert(event(c.id, 6, 1, "T", head)),
		"AC002 two sessions":        insert(event(c.id, 5, 1, "T", head), event(newID(), 6, 1, "T", "NULL")),
		"AC003 other chain":         insert(event(c.id, 5, 1, "T", zero)),
		"AC003 stale epoch":         insert(event(c.id, 5, 0, "T", head)),
		"AC004 epoch falls":         insert(event(c.id, 5, 2, "ExecutionAcquired", head), event(c.id, 6, 1, "T", "NULL")),
		"AC004 epoch jumps":         insert(event(c.id, 5, 3, "ExecutionAcquired", head)),
		"AC004 epoch of itself":     insert(event(c.id, 5, 2, "T", head)),
		"AC002 begins above 1":      insert(event(newID(), 2, 0, "T", zero)),
		"AC002 seq 0":               insert(event(newID(), 0, 0, "T", zero)),
		"23505 same twice":          insert(event(c.id, 5, 1, "T", head), event(c.id, 5, 1, "T", "NULL")),
		"42501 conflict as a probe": insert(event(c.id, 4, 1, "T", head)) + ` ON CONFLICT DO NOTHING RETURNING seq`,
	} {
		err := execAs(mine, sql)
		wantState(t, name, err, name[:5])
	}
	if after := (&lane{site: s}).rows(); after != before {
		t.Errorf("what was refused changed the server: %s, was %s", after, before)
	}
	if err := execAs(mine, insert(event(c.id, 5, 1, "T", head), event(c.id, 6, 2, "ExecutionAcquired", "NULL"))); err != nil {
		t.Errorf("an insert that extends the chain: %v", err)
	}
	if m, err := r.Deliver(t.Context(), c.from(0, 0)); err != nil || m.Seq != 6 || m.Epoch != 2 {
		t.Errorf("mark after it: got %+v, %v, want 6 in epoch 2", m, err)
	}
}

// Rows that another device copies for a session that is not its own, in a transaction that it
// keeps open, do not stop the owner.
func TestForeignRowsBlockNobody(t *testing.T) {
	s := commonSite(t)
	r := s.open(s.role("acode_writer"))
	c := newChain(4)
	if _, err := r.Deliver(t.Context(), c.from(1, 2)); err != nil {
		t.Fatal(err)
	}
	release := remote.Hold(t, s.role("acode_writer"), c.from(3, 4))
	defer release()
	s.until(`SELECT tuples_processed FROM pg_stat_progress_copy WHERE datname = current_database()`, "2")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if m, err := r.Copy(ctx, c.from(3, 4)); err != nil || m.Seq != 4 {
		t.Errorf("Copy beside a foreign one: got %+v, %v, want 4", m, err)
	}
}

// A server whose default forgets what it acknowledged is asked to remember (FR-053).
func TestDurable(t *testing.T) {
	s := newSite(t)
	mine := s.role("acode_writer")
	s.exec(`CREATE TABLE seen (v text); GRANT INSERT ON seen TO acode_owner;
		CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.seen VALUES (current_setting(''synchronous_commit'')); RETURN NEW; END';
		CREATE TRIGGER see AFTER UPDATE ON acode.heads FOR EACH ROW EXECUTE FUNCTION see()`)
	s.exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$`)
	r := s.open(mine)
	c := newChain(2)
	if _, err := r.Deliver(t.Context(), c.from(1, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Copy(t.Context(), c.from(2, 2)); err != nil {
		t.Fatal(err)
	}
	if got := pgtest.Psql(t, s.url, `SELECT string_agg(v, ' ') FROM seen`); got != "on on" {
		t.Errorf("synchronous_commit while delivering: got %q, want on both ways", got)
	}
	if err := execAs(mine, `DO $$ BEGIN ASSERT current_setting('synchronous_commit') = 'off'; END $$`); err != nil {
		t.Errorf("the setting leaked: %v", err)
	}
}
