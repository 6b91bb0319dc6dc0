package remote_test

import (
	"testing"

	"github.com/acode-dev/acode/internal/pgtest"
)

// A delivery is durable even if the server's default is not to wait for the disk
// (FR-053).
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
	if _, err := r.Deliver(t.Context(), c.from(2, 2)); err != nil {
		t.Fatal(err)
	}
	if got := pgtest.Psql(t, s.url, `SELECT string_agg(v, ' ') FROM seen`); got != "on on" {
		t.Errorf("synchronous_commit while delivering: got %q, want on both times", got)
	}
	if err := execAs(mine, `DO $$ BEGIN ASSERT current_setting('synchronous_commit') = 'off'; END $$`); err != nil {
		t.Errorf("the setting leaked: %v", err)
	}
}
